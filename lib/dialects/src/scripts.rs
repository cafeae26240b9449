//! The published scripts and their dialects, by the SHA-1 that clients send with EVALSHA.
//!
//! A server that knows these scripts serves unmodified clients. The functions of the library rdslim are called by
//! name and need no line here.

use crate::call::Wording;

/// A published script.
#[derive(Clone, Copy, Debug)]
pub struct PublishedScript {
    /// The SHA-1 of its text, lower case.
    pub sha1: &'static str,
    /// The name of its dialect.
    pub dialect: &'static str,
    /// The wording that its clients expect.
    pub wording: Wording,
}

/// The published scripts of the limiters that the dialects speak for.
pub static SCRIPTS: &[PublishedScript] = &[
    known("1533c10715a2840138ba6a19f2bbd52e8ba389fd", "slot_window"),
    known("c1099fa79e595bf443041fbc8f72ea50999f6fa6", "ar1"),
    known("31b1d0758f8a955fd4b0eac57648ec1c5575fbb5", "sliding_window"),
    known("55ba4f2b9f5502abca03fca95fc9e3f2e504bd50", "fixed_window"),
    known("4d3e5de585c716fafe1644e512d03e9ea7b35762", "token_bucket"),
    known("1132da6df6e0d836fd4602c66b2a6623c8068413", "rolling"),
];

const fn known(sha1: &'static str, dialect: &'static str) -> PublishedScript {
    PublishedScript { sha1, dialect, wording: Wording::Script }
}

/// Returns the script of that SHA-1, in either case.
pub fn script(sha1: &str) -> Option<&'static PublishedScript> {
    SCRIPTS.iter().find(|script| script.sha1.eq_ignore_ascii_case(sha1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_speaks_a_listed_dialect() {
        for script in SCRIPTS {
            assert!(crate::find(script.dialect).is_some(), "{}", script.dialect);
            assert_eq!(script.sha1.len(), 40);
        }
        assert_eq!(script("1533C10715A2840138BA6A19F2BBD52E8BA389FD").unwrap().dialect, "slot_window");
        assert!(script("").is_none());
    }
}
