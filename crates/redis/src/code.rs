//! The Lua behind the calls, as the store asks for it: by the word of a call, for some policies.

use std::sync::{Arc, LazyLock};

use tollgate_core::Policy;

use crate::lua::{self, Names};

pub(crate) use crate::lua::Script;

/// What the Lua can do.
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

/// The name of the function in the library of this release.
pub(crate) fn function(word: Word) -> &'static str {
    static NAMES: LazyLock<[String; 5]> =
        LazyLock::new(|| Word::ALL.map(|word| Names::Versioned.function(word.name())));
    &NAMES[word as usize]
}

/// The library of this release.
pub(crate) fn library() -> &'static str {
    lua::library(Names::Versioned)
}

/// The script of a call for these policies: one for each set of algorithms, since every call of a script
/// builds its closures anew.
pub(crate) fn script(word: Word, policies: &[&Policy]) -> Arc<Script> {
    let algorithms: Vec<&str> = policies.iter().flat_map(|policy| lua::algorithms(policy)).collect();
    let script = lua::script(word.name(), &algorithms);
    // Never so: a test asks for each. The server would answer that there is no such text.
    script.unwrap_or_else(|| Arc::new(Script::new(String::new())))
}

/// The policy as the Lua reads it fastest.
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
