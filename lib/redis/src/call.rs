//! One call of our Lua, of a user's own script or of a command of the server, and its form on the wire: FCALL,
//! EVALSHA or, where the server does not have the script, EVAL; or the name of the command.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redis::Cmd;

use crate::code::Script;

/// What is called, with which keys and arguments. Law: the keys of a call are in one slot.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) code: Code,
    /// Empty for a command, whose keys are among its arguments.
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) args: Vec<Arg>,
    /// Whether the call was handed to a connection and has not been refused since. See [`Call::hand_over`].
    handed: AtomicBool,
}

/// What a call executes.
#[derive(Clone, Debug)]
pub(crate) enum Code {
    /// A script, and the name of the equivalent function, if there is one.
    Lua(Option<&'static str>, Arc<Script>),
    /// A command that the server itself provides.
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

/// The form in which a call of Lua is sent.
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

    /// Creates a call of a command.
    pub(crate) fn of_command(name: &'static str, args: Vec<Arg>) -> Self {
        Self { code: Code::Command(name), keys: Vec::new(), args, handed: AtomicBool::new(false) }
    }

    /// Returns the name of the function that the call executes, if there is one.
    pub(crate) fn function(&self) -> Option<&'static str> {
        match self.code {
            Code::Lua(function, _) => function,
            Code::Command(_) => None,
        }
    }

    pub(crate) fn is_command(&self) -> bool {
        matches!(self.code, Code::Command(_))
    }

    /// Returns whether the code is part of this project: an error then means that nothing was changed.
    pub(crate) fn is_ours(&self) -> bool {
        self.is_command() || self.function().is_some()
    }

    /// Marks the call as about to be sent. The sender calls this before it checks whether the receiver is closed,
    /// and the receiver closes before it calls [`Call::is_untouched`]. In this order, a call that counts as
    /// untouched is not sent.
    pub(crate) fn hand_over(&self) {
        self.handed.store(true, Ordering::SeqCst);
    }

    /// Marks the call as refused by the server without having run.
    pub(crate) fn take_back(&self) {
        self.handed.store(false, Ordering::SeqCst);
    }

    /// Returns whether it is certain that the call did not run.
    pub(crate) fn is_untouched(&self) -> bool {
        !self.handed.load(Ordering::SeqCst)
    }

    /// Returns the command to send; calls of Lua take the given `form`.
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
