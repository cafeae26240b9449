//! The Lua behind the calls of the store: functions and scripts by the kind of call, for given policies.

use std::sync::{Arc, LazyLock};

use tollgate_kernel::Policy;

use crate::lua::{self, LuaNaming};

pub(crate) use crate::lua::LuaScript;

/// A kind of call: a function and script of the Lua, or a command of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallKind {
    Check,
    Peek,
    Reset,
    Refund,
    All,
}

impl CallKind {
    const ALL: [Self; 5] = [Self::Check, Self::Peek, Self::Reset, Self::Refund, Self::All];

    const fn name(self) -> &'static str {
        match self {
            Self::Check => "tollgate",
            Self::Peek => "tollgate_peek",
            Self::Reset => "tollgate_reset",
            Self::Refund => "tollgate_refund",
            Self::All => "tollgate_all",
        }
    }
}

/// Returns the name of the function in the library of this release.
pub(crate) fn function(kind: CallKind) -> &'static str {
    static NAMES: LazyLock<[String; 5]> =
        LazyLock::new(|| CallKind::ALL.map(|kind| LuaNaming::Versioned.function(kind.name())));
    &NAMES[kind as usize]
}

/// Returns the library of this release.
pub(crate) fn library() -> &'static str {
    lua::library(LuaNaming::Versioned)
}

/// Returns the script of a call for these policies. There is one for each set of algorithms, since every call of a
/// script creates its closures again.
pub(crate) fn script(kind: CallKind, policies: &[&Policy]) -> Arc<LuaScript> {
    let algorithms: Vec<&str> = policies.iter().flat_map(|policy| lua::algorithms(policy)).collect();
    let script = lua::script(kind.name(), &algorithms);
    // Unreachable: a test covers every kind. The server would report that the script is missing.
    script.unwrap_or_else(|| Arc::new(LuaScript::new(String::new())))
}

/// Returns the policy in the form that the Lua reads fastest.
pub(crate) fn compact(policy: &Policy) -> String {
    lua::compact(policy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_script_and_its_function() {
        let policy: Policy = "100/min, 5/h sliding".parse().unwrap();
        for kind in CallKind::ALL {
            assert!(script(kind, &[&policy]).text.contains(kind.name()), "{kind:?}");
            assert!(library().contains(&format!("'{}'", function(kind))), "{kind:?}");
        }
    }
}
