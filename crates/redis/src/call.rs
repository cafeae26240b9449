//! One call of our Lua or of somebody's own, or of a command of the server, and how it is written: by FCALL,
//! EVALSHA or, where the script is not known, EVAL; or by the name of the command.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redis::Cmd;

use crate::code::Script;

/// What is called, on which keys, with which arguments. Law: the keys of a call lie in one slot.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) code: Code,
    /// None of a command: its keys stand among its arguments.
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) args: Vec<Arg>,
    /// Whether it was handed to a connection and not refused since. See [`Call::hand_over`].
    handed: AtomicBool,
}

/// What does it.
#[derive(Clone, Debug)]
pub(crate) enum Code {
    /// A script, and the name of the function that does the same, if there is one.
    Lua(Option<&'static str>, Arc<Script>),
    /// A command that the server has by itself.
    Command(&'static str),
}

/// An argument.
#[derive(Clone, Debug)]
pub(crate) enum Arg {
    Text(Arc<str>),
    Word(&'static str),
    Number(u64),
    Bytes(Vec<u8>),
}

/// How a call of Lua is written this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Function(&'static str),
    Sha,
    Text,
}

impl Call {
    pub(crate) fn new(function: Option<&'static str>, script: Arc<Script>, keys: Vec<Vec<u8>>, args: Vec<Arg>) -> Self {
        Self { code: Code::Lua(function, script), keys, args, handed: AtomicBool::new(false) }
    }

    /// A call of a command.
    pub(crate) fn of_command(name: &'static str, args: Vec<Arg>) -> Self {
        Self { code: Code::Command(name), keys: Vec::new(), args, handed: AtomicBool::new(false) }
    }

    /// The name of the function that does it, if there is one.
    pub(crate) fn function(&self) -> Option<&'static str> {
        match self.code {
            Code::Lua(function, _) => function,
            Code::Command(_) => None,
        }
    }

    pub(crate) fn is_command(&self) -> bool {
        matches!(self.code, Code::Command(_))
    }

    /// Whether it is of this project: an error then says that nothing was changed.
    pub(crate) fn is_ours(&self) -> bool {
        self.is_command() || self.function().is_some()
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

    /// The command; Lua is called as `form` says.
    pub(crate) fn command(&self, form: Form) -> Cmd {
        let mut command = Cmd::new();
        match (&self.code, form) {
            (Code::Command(name), _) => command.arg(*name),
            (Code::Lua(..), Form::Function(name)) => command.arg("FCALL").arg(name).arg(self.keys.len()),
            (Code::Lua(_, script), Form::Sha) => command.arg("EVALSHA").arg(script.sha.as_str()).arg(self.keys.len()),
            (Code::Lua(_, script), Form::Text) => command.arg("EVAL").arg(script.text.as_str()).arg(self.keys.len()),
        };
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
