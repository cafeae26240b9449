//! One call of our Lua or of somebody's own, and how it is written for the server: by FCALL, EVALSHA or,
//! where the script is not known, EVAL.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redis::Cmd;

use crate::code::Script;

/// What is called, on which keys, with which arguments. Law: the keys of a call lie in one slot.
#[derive(Debug)]
pub(crate) struct Call {
    /// The name of the function, if there is one that does what the script does.
    pub(crate) function: Option<&'static str>,
    pub(crate) script: Arc<Script>,
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) args: Vec<Arg>,
    /// Whether it was handed to a connection and not refused since. See [`Call::hand_over`].
    handed: AtomicBool,
}

/// An argument.
#[derive(Clone, Debug)]
pub(crate) enum Arg {
    Text(Arc<str>),
    Word(&'static str),
    Number(u64),
    Bytes(Vec<u8>),
}

/// How a call is written this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Function(&'static str),
    Sha,
    Text,
}

impl Call {
    pub(crate) fn new(function: Option<&'static str>, script: Arc<Script>, keys: Vec<Vec<u8>>, args: Vec<Arg>) -> Self {
        Self { function, script, keys, args, handed: AtomicBool::new(false) }
    }

    /// Says that the call is about to be sent. Whoever gave it up before that sees it was not, as long as
    /// he gives up first and looks then, and the sender says so first and looks whether it was given up then.
    pub(crate) fn hand_over(&self) {
        self.handed.store(true, Ordering::SeqCst);
    }

    /// Says that the server refused it without running it.
    pub(crate) fn take_back(&self) {
        self.handed.store(false, Ordering::SeqCst);
    }

    /// Whether it is sure that nothing was done.
    pub(crate) fn is_untouched(&self) -> bool {
        !self.handed.load(Ordering::SeqCst)
    }

    /// The command.
    pub(crate) fn command(&self, form: Form) -> Cmd {
        let mut command = Cmd::new();
        match form {
            Form::Function(name) => command.arg("FCALL").arg(name),
            Form::Sha => command.arg("EVALSHA").arg(self.script.sha.as_str()),
            Form::Text => command.arg("EVAL").arg(self.script.text.as_str()),
        };
        command.arg(self.keys.len());
        for key in &self.keys {
            command.arg(key.as_slice());
        }
        for arg in &self.args {
            match arg {
                Arg::Text(text) => command.arg(text.as_bytes()),
                Arg::Word(word) => command.arg(*word),
                Arg::Number(number) => command.arg(*number),
                Arg::Bytes(bytes) => command.arg(bytes.as_slice()),
            };
        }
        command
    }
}
