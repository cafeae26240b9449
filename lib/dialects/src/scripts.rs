//! The published scripts and libraries, and their dialects.
//!
//! Clients send the SHA-1 of a script with EVALSHA, and its text with SCRIPT LOAD, EVAL or FUNCTION LOAD. A published
//! SHA-1 identifies one text; the SHA-1 of a text in [normal form](normalized) also identifies texts that differ from
//! the published one in line ends and in blanks at the ends of lines only. A server that knows these scripts serves
//! unmodified clients.

use std::borrow::Cow;

use crate::call::Wording;

/// The home of a published text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishedKind {
    /// A script, for EVAL and EVALSHA.
    Script,
    /// A library of functions, for FUNCTION LOAD.
    Library,
    /// A library of triggers, for TFUNCTION LOAD.
    Triggers,
}

/// A revision of a published script or library.
#[derive(Clone, Copy, Debug)]
pub struct PublishedScript {
    /// The kind of its text.
    pub kind: PublishedKind,
    /// The SHA-1 of its text, lower case.
    pub sha1: &'static str,
    /// The SHA-1 of its text in normal form, lower case.
    pub normalized_sha1: &'static str,
    /// The name of its dialect.
    pub dialect: &'static str,
    /// The wording that its clients expect.
    pub wording: Wording,
}

/// The published texts of the limiters that the dialects speak for.
pub static SCRIPTS: &[PublishedScript] = &[
    revision("slot_window", "1533c10715a2840138ba6a19f2bbd52e8ba389fd", "6d642f54341aebe24507d69fb54d62f3fe816835"),
    revision("ar1", "c1099fa79e595bf443041fbc8f72ea50999f6fa6", "7bb72efeb39a9ddb0d20f62beb6ac298bfda5dbf"),
    triggers("1e29df89d3a78e21e43efe6d243e67d76d2d86d6", "d89922949e69f47f639eacc2e3ae8ce6ad8ef0d3"),
    triggers("a4ed93b0aecca5481770b6e5c7dfe619ff85c202", "e3ad6459547b0cd8c43284e9a99817154abeb322"),
    triggers("b0481b7ec90e20314ea56f10ffc6c9f67e7486e4", "086fe495f9bdaeca0bc23f6df880902da37f73cc"),
    revision("sliding_window", "31b1d0758f8a955fd4b0eac57648ec1c5575fbb5", "602f2906f400d70107fd315c8bfaa2dd053a1726"),
    revision("sliding_window", "db96c59e09ed9a0f906f5258ac1c6f24633bf893", "9ce7f2cf727bc1543212214ce938455743ee5d38"),
    library("87613a9e5929aa39174139ffd5a204b9dcf75c6b", "0e64ee0bf407dd57d9bfa7a9287b2a0ec9c4978a"),
    library("a76abb40daa98221b181268a836300c49fafb141", "be3cc9605e55fefc69016e6251dd9ebb03f265a1"),
    revision("fixed_window", "55ba4f2b9f5502abca03fca95fc9e3f2e504bd50", "4f7600d3ce49af0522fa55cc584b326919fe6d09"),
    blocking("fixed_window", "74ef5ffac2da91ee3348aa0fc36460ccf4e026e6", "f111278e93fbb8d0343005c4bb75570a7027c0a0"),
    revision("token_bucket", "4d3e5de585c716fafe1644e512d03e9ea7b35762", "e4e569cd2b9502ccad00bfd9e5356290fe52b6fc"),
    blocking("token_bucket", "e94ec70d014de3d05d42fa2a73e3fa43b5d321d0", "2e93a5e1bfbc47d019c4a8e2e08dc782d7230750"),
    revision("rolling", "1132da6df6e0d836fd4602c66b2a6623c8068413", "7ad872e93be1ec522bf43008ca3618dd1122389a"),
];

/// Returns a revision whose clients expect the wording of the script.
const fn revision(dialect: &'static str, sha1: &'static str, normalized_sha1: &'static str) -> PublishedScript {
    let (kind, wording) = (PublishedKind::Script, Wording::Script);
    PublishedScript { kind, sha1, normalized_sha1, dialect, wording }
}

/// Returns a revision that refuses in the word of the document, "block".
const fn blocking(dialect: &'static str, sha1: &'static str, normalized_sha1: &'static str) -> PublishedScript {
    PublishedScript { wording: Wording::Document, ..revision(dialect, sha1, normalized_sha1) }
}

/// Returns a revision of the library rdslim.
const fn library(sha1: &'static str, normalized_sha1: &'static str) -> PublishedScript {
    PublishedScript { kind: PublishedKind::Library, ..revision("sliding_window", sha1, normalized_sha1) }
}

/// Returns a revision of the library that keeps usage data by a trigger.
const fn triggers(sha1: &'static str, normalized_sha1: &'static str) -> PublishedScript {
    PublishedScript { kind: PublishedKind::Triggers, ..revision("api_counter", sha1, normalized_sha1) }
}

/// Returns the published text of that kind and SHA-1, as published or in normal form, in either case.
pub fn published(kind: PublishedKind, sha1: &str) -> Option<&'static PublishedScript> {
    let is = |known: &str| known.eq_ignore_ascii_case(sha1);
    SCRIPTS.iter().find(|script| script.kind == kind && (is(script.sha1) || is(script.normalized_sha1)))
}

/// Returns a text in normal form: lines end with one line feed and without blanks or tabs before it, and there are no
/// empty lines at either end, and no final line feed.
pub fn normalized(text: &str) -> String {
    let text = if text.contains('\r') {
        Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n"))
    } else {
        Cow::Borrowed(text)
    };
    let lines: Vec<&str> = text.split('\n').map(|line| line.trim_end_matches([' ', '\t'])).collect();
    let has_text = |line: &&str| !line.is_empty();
    let first = lines.iter().position(has_text).unwrap_or(lines.len());
    let end = lines.iter().rposition(has_text).map_or(first, |last| last + 1);
    lines.get(first..end).unwrap_or_default().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_speaks_a_listed_dialect_and_is_listed_once() {
        let mut all: Vec<&str> = Vec::new();
        for script in SCRIPTS {
            assert!(crate::find(script.dialect).is_some(), "{}", script.dialect);
            for sha1 in [script.sha1, script.normalized_sha1] {
                assert!(sha1.len() == 40 && sha1.bytes().all(|digit| b"0123456789abcdef".contains(&digit)), "{sha1}");
                assert_eq!(published(script.kind, &sha1.to_ascii_uppercase()).unwrap().sha1, script.sha1);
                all.push(sha1);
            }
        }
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 2 * SCRIPTS.len());
        assert!(published(PublishedKind::Script, "").is_none());
        assert!(published(PublishedKind::Script, "87613a9e5929aa39174139ffd5a204b9dcf75c6b").is_none(), "a library");
    }

    #[test]
    fn texts_in_normal_form_have_neither_blanks_nor_lines_too_many() {
        let normal = "local a = 1\n\n  return a  - 1";
        for text in [
            normal.to_owned(),
            format!("{normal}\n"),
            format!("\n\n{normal}\n\n \n"),
            format!("\t\n{normal} \t"),
            normal.replace('\n', "\r\n"),
            normal.replace('\n', "\r"),
            normal.replace('\n', " \t\n"),
        ] {
            assert_eq!(normalized(&text), normal, "{text:?}");
        }
        for other in [normal.replace("  -", " -"), normal.replace("  return", "return"), normal.replace("\n\n", "\n")] {
            assert_ne!(normalized(&other), normal);
        }
        assert_eq!((normalized(""), normalized(" \n\r\n\t")), (String::new(), String::new()));
    }
}
