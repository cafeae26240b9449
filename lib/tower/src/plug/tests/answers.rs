//! Replies of scripts: headers by position and by name, and every other kind of reply.

use http::HeaderName;
use tollgate_random::Rng;

use super::super::fields::{self, MAX_FIELDS, MAX_VALUE};
use super::super::*;
use super::{NAMES, text};

fn pair(name: &str, value: &str) -> Output {
    Output::List(vec![text(name), text(value)])
}

#[test]
fn headers_are_matched_by_place_renamed_in_place_and_added() {
    let names: Vec<HeaderName> = NAMES[..3].iter().map(|name| HeaderName::from_static(name)).collect();
    let rows = [
        (vec![text("10"), text("60"), text("9")], vec![(NAMES[0], "10"), (NAMES[1], "60"), (NAMES[2], "9")]),
        (
            vec![text("10"), pair("X-Acme-Header", "60"), Output::Integer(9)],
            vec![(NAMES[0], "10"), ("x-acme-header", "60"), (NAMES[2], "9")],
        ),
        (
            vec![text("10"), text("60"), text("0"), pair("retry-after", "5"), pair("x-more", "")],
            vec![(NAMES[0], "10"), (NAMES[1], "60"), (NAMES[2], "0"), ("retry-after", "5"), ("x-more", "")],
        ),
        (vec![text("10")], vec![(NAMES[0], "10")]),
        (vec![], vec![]),
    ];
    for (list, expected) in rows {
        let read = fields::parse_fields(&names, &list).unwrap();
        let read: Vec<_> = read.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(read, expected);
    }
}

#[test]
fn a_script_cannot_break_a_response() {
    let names = [HeaderName::from_static("x-a")];
    let long = "v".repeat(MAX_VALUE + 1);
    let rows = [
        (
            vec![text("1\r\nset-cookie: a=b")],
            r#"header 1: expected a value without line ends and control characters, found "1\r\nset-cookie: a=b""#,
        ),
        (vec![text("1\n")], r#"header 1: expected a value without line ends and control characters, found "1\n""#),
        (vec![text("\0")], r#"header 1: expected a value without line ends and control characters, found "\0""#),
        (vec![pair("x-b\r\nx-c: 1", "2")], r#"header 1: expected the name of a header, found "x-b\r\nx-c: 1""#),
        (vec![pair("", "2")], r#"header 1: expected the name of a header, found """#),
        (vec![pair("x b", "2")], r#"header 1: expected the name of a header, found "x b""#),
        (
            vec![pair("transfer-encoding", "chunked")],
            "header 1: expected a header that does not frame the message, found transfer-encoding",
        ),
        (
            vec![pair("Connection", "close")],
            "header 1: expected a header that does not frame the message, found connection",
        ),
        (
            vec![text("1"), text("2")],
            "header 2: expected a name: 1 are configured; let the script answer a pair {name, value}",
        ),
        (vec![Output::Nothing], "header 1: expected a text or a number"),
        (vec![Output::List(vec![])], "header 1: expected a text or a number"),
        (vec![Output::List(vec![text("x-b")])], "header 1: expected a pair of name and value, found 1 values"),
        (vec![Output::List(vec![text("x-b"), Output::Nothing])], "header 1: expected a text or a number"),
        (vec![Output::List(vec![Output::Nothing, text("1")])], "header 1: expected a pair of name and value"),
        (vec![text(&long)], "header 1: expected at most 4096 bytes, found 4097"),
        (vec![pair("x-b", "1"); MAX_FIELDS + 1], "expected at most 32 headers, found 33"),
    ];
    for (list, expected) in rows {
        assert_eq!(fields::parse_fields(&names, &list).unwrap_err().to_string(), expected);
    }
    assert_eq!(fields::parse_fields(&names, &[text(&long[1..])]).unwrap().len(), 1);
    assert_eq!(fields::parse_fields(&names, &vec![pair("x-b", "1"); MAX_FIELDS]).unwrap().len(), MAX_FIELDS);
}

/// Every reply of a script is either understood or refused, and only what it contains is set.
#[test]
fn any_answer_is_understood_or_refused() {
    let seed = 7u64;
    let mut rng = Rng::new(seed);
    fn any(rng: &mut Rng, depth: u32) -> Output {
        match rng.below(if depth == 0 { 3 } else { 5 }) {
            0 => Output::Nothing,
            1 => Output::Integer(rng.below(1000) as i64 - 500),
            2 => {
                let words: [&[u8]; 8] = [b"allow", b"block", b"x-a", b"10", b"", b"\r\n", b"\xff\x80", b"a: b"];
                Output::Text(rng.pick(&words).to_vec())
            }
            _ => Output::List((0..rng.below(4)).map(|_| any(rng, depth - 1)).collect()),
        }
    }
    let names = [HeaderName::from_static("x-limit"), HeaderName::from_static("x-left")];
    let (mut passed, mut stopped, mut failed) = (0, 0, 0);
    for round in 0..200_000 {
        let output = any(&mut rng, 4);
        match reply::default_answer(&names, &output) {
            Ok(PlugAnswer::Pass(headers)) => {
                passed += 1;
                assert_eq!(output.list()[0], text("allow"), "seed {seed}, round {round}: {output:?}");
                assert_eq!(headers.len(), output.list()[1].list().len());
            }
            Ok(PlugAnswer::Stop(response)) => {
                stopped += 1;
                assert_eq!(response.status(), 429);
                let safe = |byte: &u8| (*byte >= 32 && *byte != 127) || *byte == b'\t';
                assert!(response.headers().values().all(|value| value.as_bytes().iter().all(safe)));
            }
            Err(_) => failed += 1,
        }
    }
    assert!(passed > 10 && stopped > 10 && failed > 10, "{passed} {stopped} {failed}");
}
