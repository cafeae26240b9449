//! One input into the decoder: however it is split, the same commands result, and they are the ones that another
//! decoder finds.

use redis_protocol::resp2::decode::decode as other_decode;
use redis_protocol::resp2::types::OwnedFrame;

use super::campaign;
use super::input::{Input, input};
use crate::resp::decode::{ArgSpan, CommandBounds, MAX_INLINE, RespFrame, RespProtocolError, decode};
use tollgate_random::Rng;

/// The result of a decoder for the first bytes: a command or nothing, and its length; a protocol error; or that more
/// bytes are needed.
type DecodeOutcome = Result<(RespFrame, Vec<ArgSpan>), RespProtocolError>;

fn read(bytes: &[u8], bounds: &CommandBounds, spans: &mut Vec<ArgSpan>) -> DecodeOutcome {
    let frame = decode(bytes, bounds, spans)?;
    assert!(spans.capacity() <= bounds.args.next_power_of_two(), "room for more arguments than there may be");
    match frame {
        RespFrame::Command(len) => {
            assert!(len > 0 && len <= bytes.len(), "it takes bytes that did not come");
            assert!(!spans.is_empty() && spans.len() <= bounds.args);
            let mut end = 0;
            for span in spans.iter() {
                assert!(end <= span.start && span.start <= span.end && span.end <= len, "arguments overlap");
                assert!(span.len() <= bounds.arg);
                end = span.end;
            }
        }
        RespFrame::Nothing(len) => assert!(len > 0 && len <= bytes.len() && spans.is_empty()),
        RespFrame::Incomplete => {
            assert!(bytes.len() <= bounds.command + MAX_INLINE, "more is waited for than a command may be");
            return Ok((frame, Vec::new()));
        }
    }
    Ok((frame, spans.clone()))
}

/// Asserts that every prefix yields that more is needed, or the result of the whole; from there on so does every longer
/// one.
fn cut(rng: &mut Rng, bytes: &[u8], whole: &DecodeOutcome, bounds: &CommandBounds, spans: &mut Vec<ArgSpan>) {
    let len = match whole {
        Ok((RespFrame::Command(len) | RespFrame::Nothing(len), _)) => Some(*len),
        _ => None,
    };
    let mut ends = false;
    let mut at = 0;
    while at < bytes.len().min(len.unwrap_or(usize::MAX).saturating_add(8)) {
        let said = read(&bytes[..at], bounds, spans);
        let more = matches!(said, Ok((RespFrame::Incomplete, _)));
        assert!(more || said == *whole, "cut at {at}: {said:?}, whole: {whole:?}");
        assert!(!(more && ends), "cut at {at}: it was known before");
        // A command is complete exactly when its last byte has arrived.
        assert!(len.is_none_or(|len| more == (at < len)), "cut at {at}: {said:?}");
        ends = !more;
        at += if bytes.len() < 512 { 1 } else { 1 + rng.index(bytes.len() / 128) };
    }
}

/// Compares with another decoder's result for a frame that begins with an array.
fn beside(bytes: &[u8], said: &DecodeOutcome) {
    let strings = |frame: OwnedFrame| match frame {
        OwnedFrame::Array(frames) => frames
            .into_iter()
            .map(|frame| match frame {
                OwnedFrame::BulkString(bytes) => Some(bytes),
                _ => None,
            })
            .collect::<Option<Vec<Vec<u8>>>>()
            .filter(|strings| !strings.is_empty()),
        _ => None,
    };
    let other = || other_decode(bytes).ok().flatten().and_then(|(frame, len)| Some((strings(frame)?, len)));
    match said {
        Ok((RespFrame::Command(len), spans)) => {
            let args = spans.iter().map(|span| bytes[span.clone()].to_vec()).collect();
            assert_eq!(other(), Some((args, *len)));
        }
        Ok((RespFrame::Incomplete, _)) | Err(RespProtocolError::Dollar(_)) => {
            assert_eq!(other(), None, "{said:?}: {}", bytes.escape_ascii())
        }
        // Lengths beyond our bounds, or such as `01`, which it accepts and Redis does not; and the end of an argument,
        // which it does not check.
        _ => {}
    }
}

fn one(rng: &mut Rng) {
    let Input { bytes, commands } = input(rng, |_| true);
    let bounds = if rng.one_in(4) { CommandBounds::UNKNOWN } else { CommandBounds::KNOWN };
    let mut spans = Vec::new();
    let (mut at, mut seen, mut right) = (0, Vec::new(), true);
    while at < bytes.len() {
        let rest = &bytes[at..];
        let said = read(rest, &bounds, &mut spans);
        cut(rng, rest, &said, &bounds, &mut spans);
        if rest[0] == b'*' {
            beside(rest, &said);
        }
        match said {
            Ok((RespFrame::Command(len), spans)) => {
                seen.push(spans.iter().map(|span| rest[span.clone()].to_vec()).collect::<Vec<_>>());
                at += len;
            }
            Ok((RespFrame::Nothing(len), _)) => at += len,
            Ok((RespFrame::Incomplete, _)) | Err(_) => {
                right = false;
                break;
            }
        }
    }
    if let Some(commands) = commands {
        let fits = |command: &Vec<Vec<u8>>| {
            command.len() <= bounds.args
                && command.iter().all(|arg| arg.len() <= bounds.arg)
                && super::input::encode(command).len() <= bounds.command
        };
        assert_eq!(right, commands.iter().all(fits));
        let taken = commands.iter().take_while(|command| fits(command));
        assert!(seen.iter().eq(taken), "{seen:?}, and not {commands:?}");
    }
    fed(rng, &bytes, &bounds, &seen);
}

/// Decodes the same in chunks of any length, by a reader that keeps what is not complete yet.
fn fed(rng: &mut Rng, bytes: &[u8], bounds: &CommandBounds, seen: &[Vec<Vec<u8>>]) {
    let (mut kept, mut spans, mut again, mut rest) = (Vec::new(), Vec::new(), Vec::new(), bytes);
    'chunks: while !rest.is_empty() {
        let (chunk, behind) = rest.split_at((1 + rng.index(24)).min(rest.len()));
        rest = behind;
        kept.extend_from_slice(chunk);
        loop {
            match read(&kept, bounds, &mut spans) {
                Ok((RespFrame::Command(len), spans)) => {
                    again.push(spans.iter().map(|span| kept[span.clone()].to_vec()).collect::<Vec<_>>());
                    kept.drain(..len);
                }
                Ok((RespFrame::Nothing(len), _)) => drop(kept.drain(..len)),
                Ok((RespFrame::Incomplete, _)) => break,
                Err(_) => break 'chunks,
            }
        }
    }
    assert_eq!(again, seen);
}

#[test]
fn commands_are_the_same_however_their_bytes_are_cut() {
    campaign("decoder", 1, one);
}
