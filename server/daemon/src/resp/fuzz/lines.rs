//! One input into two servers' connections, whole into one and in pieces into the other: both reply the same, one reply
//! to each command.

use std::collections::VecDeque;

use super::campaign;
use super::input::{Input, input};
use super::wire::FuzzServer;
use crate::access::{Scope, Scopes};
use crate::resp::decode::{CommandBounds, RespFrame, decode};
use tollgate_random::Rng;

/// Commands whose replies show what differs between two servers, such as the order of a table.
const OTHERS: [&str; 2] = ["INFO", "SCAN"];

/// Returns where the first reply ends; `None` if it is not a reply.
pub(super) fn reply(bytes: &[u8]) -> Option<usize> {
    let line = bytes.windows(2).position(|two| two == b"\r\n")?;
    let number = || std::str::from_utf8(bytes.get(1..line)?).ok()?.parse::<i64>().ok();
    let mut end = line + 2;
    match bytes.first()? {
        b'+' | b'-' => {}
        b':' => _ = number()?,
        b'_' if line == 1 => {}
        b'$' | b'=' => {
            if let Ok(len) = usize::try_from(number()?) {
                end += len + 2;
                return (bytes.get(end - 2..end)? == b"\r\n").then_some(end);
            }
        }
        sign @ (b'*' | b'%' | b'~') => {
            let inner = number()?.max(0) * if *sign == b'%' { 2 } else { 1 };
            for _ in 0..inner {
                end += reply(bytes.get(end..)?)?;
            }
        }
        _ => return None,
    }
    Some(end)
}

/// Returns the number of replies due: one to each command up to QUIT, and one to a protocol error.
fn due(bytes: &[u8], mut bounds: CommandBounds) -> usize {
    let (mut at, mut count, mut places) = (0, 0, Vec::new());
    loop {
        match decode(&bytes[at..], &bounds, &mut places) {
            Ok(RespFrame::Command(len)) => {
                count += 1;
                let name = &bytes[at..][places[0].clone()];
                if name.eq_ignore_ascii_case(b"QUIT") {
                    return count;
                }
                // RESET restores what is free on loopback.
                if name.eq_ignore_ascii_case(b"RESET") && places.len() == 1 {
                    bounds = CommandBounds::KNOWN;
                }
                at += len;
            }
            Ok(RespFrame::Nothing(len)) => at += len,
            Ok(RespFrame::Incomplete) => return count,
            Err(_) => return count + 1,
        }
    }
}

#[test]
fn a_connection_answers_the_same_however_its_bytes_are_cut() {
    let (whole, pieces) = (FuzzServer::new(), FuzzServer::new());
    campaign("connections", 10, |rng: &mut Rng| {
        let Input { bytes, .. } = input(rng, |name| !OTHERS.contains(&name));
        // A login would change the bounds on the way; without a token, none can succeed.
        let scopes = rng.pick(&[Scopes::ALL, Scopes::FREE, Scopes::NONE, Scopes::NONE.with(Scope::Read)]);
        let mut chunks = VecDeque::new();
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let (chunk, behind) = rest.split_at((1 + rng.index(30)).min(rest.len()));
            chunks.push_back(chunk.to_vec());
            rest = behind;
        }
        let one = whole.serve(VecDeque::from([bytes.clone()]), scopes, true);
        let two = pieces.serve(chunks, scopes, true);
        let (one, two) = (&one.borrow().bytes, &two.borrow().bytes);
        assert_eq!(String::from_utf8_lossy(one), String::from_utf8_lossy(two));
        let (mut at, mut count) = (0, 0);
        while at < one.len() {
            at += reply(&one[at..]).unwrap_or_else(|| panic!("no reply: {}", one[at..].escape_ascii()));
            count += 1;
        }
        let bounds = if scopes.is_none() { CommandBounds::UNKNOWN } else { CommandBounds::KNOWN };
        assert_eq!(count, due(&bytes, bounds), "{} answered by {}", bytes.escape_ascii(), one.escape_ascii());
    });
}
