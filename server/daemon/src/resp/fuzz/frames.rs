//! One input into the decoder: however it is split, the same commands result, and they are the ones that another
//! decoder finds.

use redis_protocol::resp2::decode::decode as other_decode;
use redis_protocol::resp2::types::OwnedFrame;

use super::campaign;
use super::input::{Input, input};
use super::rng::Rng;
use crate::resp::decode::{Bounds, Frame, MAX_LINE, Mistake, Place, decode};

/// The result of a decoder for the first bytes: a command or nothing, and its length; a protocol error; or that more
/// bytes are needed.
type Said = Result<(Frame, Vec<Place>), Mistake>;

fn read(bytes: &[u8], bounds: &Bounds, places: &mut Vec<Place>) -> Said {
    let frame = decode(bytes, bounds, places)?;
    assert!(places.capacity() <= bounds.args.next_power_of_two(), "room for more arguments than there may be");
    match frame {
        Frame::Command(len) => {
            assert!(len > 0 && len <= bytes.len(), "it takes bytes that did not come");
            assert!(!places.is_empty() && places.len() <= bounds.args);
            let mut end = 0;
            for place in places.iter() {
                assert!(end <= place.start && place.start <= place.end && place.end <= len, "arguments overlap");
                assert!(place.len() <= bounds.arg);
                end = place.end;
            }
        }
        Frame::Nothing(len) => assert!(len > 0 && len <= bytes.len() && places.is_empty()),
        Frame::Incomplete => {
            assert!(bytes.len() <= bounds.command + MAX_LINE, "more is waited for than a command may be");
            return Ok((frame, Vec::new()));
        }
    }
    Ok((frame, places.clone()))
}

/// Asserts that every prefix yields that more is needed, or the result of the whole; from there on so does every longer
/// one.
fn cut(rng: &mut Rng, bytes: &[u8], whole: &Said, bounds: &Bounds, places: &mut Vec<Place>) {
    let len = match whole {
        Ok((Frame::Command(len) | Frame::Nothing(len), _)) => Some(*len),
        _ => None,
    };
    let mut ends = false;
    let mut at = 0;
    while at < bytes.len().min(len.unwrap_or(usize::MAX).saturating_add(8)) {
        let said = read(&bytes[..at], bounds, places);
        let more = matches!(said, Ok((Frame::Incomplete, _)));
        assert!(more || said == *whole, "cut at {at}: {said:?}, whole: {whole:?}");
        assert!(!(more && ends), "cut at {at}: it was known before");
        // A command is complete exactly when its last byte has arrived.
        assert!(len.is_none_or(|len| more == (at < len)), "cut at {at}: {said:?}");
        ends = !more;
        at += if bytes.len() < 512 { 1 } else { 1 + rng.below(bytes.len() / 128) };
    }
}

/// Compares with another decoder's result for a frame that begins with an array.
fn beside(bytes: &[u8], said: &Said) {
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
        Ok((Frame::Command(len), places)) => {
            let args = places.iter().map(|place| bytes[place.clone()].to_vec()).collect();
            assert_eq!(other(), Some((args, *len)));
        }
        Ok((Frame::Incomplete, _)) | Err(Mistake::Dollar(_)) => {
            assert_eq!(other(), None, "{said:?}: {}", bytes.escape_ascii())
        }
        // Lengths beyond our bounds, or such as `01`, which it accepts and Redis does not; and the end of an argument,
        // which it does not check.
        _ => {}
    }
}

fn one(rng: &mut Rng) {
    let Input { bytes, commands } = input(rng, |_| true);
    let bounds = if rng.one_of(4) { Bounds::UNKNOWN } else { Bounds::KNOWN };
    let mut places = Vec::new();
    let (mut at, mut seen, mut right) = (0, Vec::new(), true);
    while at < bytes.len() {
        let rest = &bytes[at..];
        let said = read(rest, &bounds, &mut places);
        cut(rng, rest, &said, &bounds, &mut places);
        if rest[0] == b'*' {
            beside(rest, &said);
        }
        match said {
            Ok((Frame::Command(len), places)) => {
                seen.push(places.iter().map(|place| rest[place.clone()].to_vec()).collect::<Vec<_>>());
                at += len;
            }
            Ok((Frame::Nothing(len), _)) => at += len,
            Ok((Frame::Incomplete, _)) | Err(_) => {
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
fn fed(rng: &mut Rng, bytes: &[u8], bounds: &Bounds, seen: &[Vec<Vec<u8>>]) {
    let (mut kept, mut places, mut again, mut rest) = (Vec::new(), Vec::new(), Vec::new(), bytes);
    'chunks: while !rest.is_empty() {
        let (chunk, behind) = rest.split_at((1 + rng.below(24)).min(rest.len()));
        rest = behind;
        kept.extend_from_slice(chunk);
        loop {
            match read(&kept, bounds, &mut places) {
                Ok((Frame::Command(len), places)) => {
                    again.push(places.iter().map(|place| kept[place.clone()].to_vec()).collect::<Vec<_>>());
                    kept.drain(..len);
                }
                Ok((Frame::Nothing(len), _)) => drop(kept.drain(..len)),
                Ok((Frame::Incomplete, _)) => break,
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
