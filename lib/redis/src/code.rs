//! The Lua behind the calls of the store: functions and scripts by the kind of call, for given policies.

use std::sync::{Arc, LazyLock};

use tollgate_kernel::Policy;

use crate::lua::{self, Names};

pub(crate) use crate::lua::Script;

/// A kind of call that the Lua implements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Check,
    Peek,
    Reset,
    Refund,
    All,
}

impl Word {
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
pub(crate) fn function(word: Word) -> &'static str {
    static NAMES: LazyLock<[String; 5]> =
        LazyLock::new(|| Word::ALL.map(|word| Names::Versioned.function(word.name())));
    &NAMES[word as usize]
}

/// Returns the library of this release.
pub(crate) fn library() -> &'static str {
    lua::library(Names::Versioned)
}

/// Returns the script of a call for these policies. There is one for each set of algorithms, since every call of a
/// script creates its closures again.
pub(crate) fn script(word: Word, policies: &[&Policy]) -> Arc<Script> {
    let algorithms: Vec<&str> = policies.iter().flat_map(|policy| lua::algorithms(policy)).collect();
    let script = lua::script(word.name(), &algorithms);
    // Unreachable: a test covers every word. The server would report that the script is missing.
    script.unwrap_or_else(|| Arc::new(Script::new(String::new())))
}

/// Returns the policy in the form that the Lua reads fastest.
pub(crate) fn compact(policy: &Policy) -> String {
    lua::compact(policy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_has_its_script_and_its_function() {
        let policy: Policy = "100/min, 5/h sliding".parse().unwrap();
        for word in Word::ALL {
            assert!(script(word, &[&policy]).text.contains(word.name()), "{word:?}");
            assert!(library().contains(&format!("'{}'", function(word))), "{word:?}");
        }
    }
}
