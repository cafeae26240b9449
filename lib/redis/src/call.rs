//! One call of our Lua, of a user's own script or of a command of the server, and its form on the wire: FCALL,
//! EVALSHA or, where the server does not have the script, EVAL; or the name of the command.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redis::Cmd;

use crate::code::LuaScript;

/// What is called, with which keys and arguments. Law: the keys of a call are in one slot.
#[derive(Debug)]
pub(crate) struct RedisCall {
    pub(crate) code: CallCode,
    /// Empty for a command, whose keys are among its arguments.
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) args: Vec<CallArg>,
    /// The database; 0 for the one that the URL names.
    pub(crate) db: u8,
    /// Whether the code is part of this project: an error then means that nothing was changed.
    is_ours: bool,
    /// Whether the call may have been sent and has not been refused since. See [`RedisCall::mark_sent`].
    sent: AtomicBool,
}

/// What a call executes.
#[derive(Clone, Debug)]
pub(crate) enum CallCode {
    /// A script, and the name of the equivalent function, if there is one.
    Lua(Option<&'static str>, Arc<LuaScript>),
    /// A command that a Tollgate server provides.
    Command(&'static str),
    /// A command of a caller, passed on as it is; its keys are among its arguments too.
    Forwarded(&'static str),
}

/// An argument.
#[derive(Clone, Debug)]
pub(crate) enum CallArg {
    Text(Arc<str>),
    Word(&'static str),
    Number(u64),
    Bytes(Vec<u8>),
}

/// The form in which a call of Lua is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LuaForm {
    Function(&'static str),
    Sha,
    Text,
}

impl RedisCall {
    pub(crate) fn new(
        function: Option<&'static str>,
        script: Arc<LuaScript>,
        keys: Vec<Vec<u8>>,
        args: Vec<CallArg>,
    ) -> Self {
        Self::of(CallCode::Lua(function, script), keys, args, function.is_some())
    }

    fn of(code: CallCode, keys: Vec<Vec<u8>>, args: Vec<CallArg>, is_ours: bool) -> Self {
        Self { code, keys, args, db: 0, is_ours, sent: AtomicBool::new(false) }
    }

    /// Creates a call of a script of this project for which there is no function.
    pub(crate) fn of_script(script: Arc<LuaScript>, keys: Vec<Vec<u8>>, args: Vec<CallArg>) -> Self {
        Self::of(CallCode::Lua(None, script), keys, args, true)
    }

    /// Creates a call of a command of a caller. `keys` say where it is sent.
    pub(crate) fn forwarded(name: &'static str, keys: Vec<Vec<u8>>, args: Vec<CallArg>) -> Self {
        Self::of(CallCode::Forwarded(name), keys, args, false)
    }

    /// Returns the same call in a database.
    pub(crate) fn in_database(self, db: u8) -> Self {
        Self { db, ..self }
    }

    /// Creates a call of a command.
    pub(crate) fn of_command(name: &'static str, args: Vec<CallArg>) -> Self {
        Self::of(CallCode::Command(name), Vec::new(), args, true)
    }

    /// Returns the name of the function that the call executes, if there is one.
    pub(crate) fn function(&self) -> Option<&'static str> {
        match self.code {
            CallCode::Lua(function, _) => function,
            CallCode::Command(_) | CallCode::Forwarded(_) => None,
        }
    }

    pub(crate) fn is_command(&self) -> bool {
        matches!(self.code, CallCode::Command(_))
    }

    pub(crate) fn is_forwarded(&self) -> bool {
        matches!(self.code, CallCode::Forwarded(_))
    }

    /// Returns whether the code is part of this project: an error then means that nothing was changed.
    pub(crate) fn is_ours(&self) -> bool {
        self.is_ours
    }

    /// Marks the call as about to be sent. The sender calls this before it checks whether the receiver is closed,
    /// and the receiver closes before it calls [`RedisCall::is_untouched`]. In this order, a call that counts as
    /// untouched is not sent.
    pub(crate) fn mark_sent(&self) {
        self.sent.store(true, Ordering::SeqCst);
    }

    /// Marks the call as refused by the server without having run.
    pub(crate) fn mark_refused(&self) {
        self.sent.store(false, Ordering::SeqCst);
    }

    /// Returns whether it is certain that the call did not run.
    pub(crate) fn is_untouched(&self) -> bool {
        !self.sent.load(Ordering::SeqCst)
    }

    /// Returns the command to send; calls of Lua take the given `form`.
    pub(crate) fn command(&self, form: LuaForm) -> Cmd {
        let mut command = Cmd::new();
        match (&self.code, form) {
            (CallCode::Command(name) | CallCode::Forwarded(name), _) => command.arg(*name),
            (CallCode::Lua(..), LuaForm::Function(name)) => command.arg("FCALL").arg(name).arg(self.keys.len()),
            (CallCode::Lua(_, script), LuaForm::Sha) => {
                command.arg("EVALSHA").arg(script.sha.as_str()).arg(self.keys.len())
            }
            (CallCode::Lua(_, script), LuaForm::Text) => {
                command.arg("EVAL").arg(script.text.as_str()).arg(self.keys.len())
            }
        };
        for key in self.keys.iter().filter(|_| !self.is_forwarded()) {
            command.arg(key.as_slice());
        }
        for arg in &self.args {
            match arg {
                CallArg::Text(text) => command.arg(text.as_bytes()),
                CallArg::Word(word) => command.arg(*word),
                CallArg::Number(number) => command.arg(*number),
                CallArg::Bytes(bytes) => command.arg(bytes.as_slice()),
            };
        }
        command
    }
}
