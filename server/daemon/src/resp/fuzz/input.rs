//! Inputs: valid commands, commands with a fault, random bytes.

use crate::resp::commands::table;
use tollgate_random::Rng;

/// A stream of bytes, and its commands if it is valid.
pub(super) struct Input {
    pub(super) bytes: Vec<u8>,
    pub(super) commands: Option<Vec<Vec<Vec<u8>>>>,
}

/// Decides which commands may occur.
pub(super) type CommandFilter = fn(&str) -> bool;

/// Arguments: valid and invalid ones.
const ARGUMENTS: &[&[u8]] = &[
    b"",
    b"k",
    b"user:42",
    b"100/min",
    b"5/s gcra",
    b"1/parsec",
    b"COST",
    b"3",
    b"MODE",
    b"nary",
    b"NAME",
    b"login",
    b"REST",
    b"FULL",
    b"SOURCE",
    b"AND",
    b"0",
    b"1",
    b"-1",
    b"2",
    b"9",
    b"15",
    b"16",
    b"9223372036854775807",
    b"18446744073709551616",
    b"1e9",
    b"lib-name",
    b"ID",
    b"FILTERBY",
    b"PATTERN",
    b"*",
    b"t*",
    b"[",
    b"\\",
    b"on",
    b"OFF",
    b"AUTH",
    b"SETNAME",
    b"PING",
    b"GET",
    b"EX",
    b"\r\n",
    b"\0\xff\xfe",
    b"$3\r\nfoo\r\n",
    b"a b",
    b"{api:x}:data",
];
/// Lengths to announce, valid and invalid.
const NUMBERS: &[&[u8]] = &[
    b"0",
    b"1",
    b"3",
    b"-1",
    b"-0",
    b"00",
    b"+1",
    b"",
    b" 1",
    b"1 ",
    b"x",
    b"255",
    b"256",
    b"257",
    b"1000",
    b"196608",
    b"196609",
    b"262144",
    b"2147483647",
    b"2147483648",
    b"4294967296",
    b"9223372036854775807",
    b"9223372036854775808",
    b"99999999999999999999999999999999999999999999999999999999999999999999999",
    b"-9999999999",
    b"1\r",
    b"1\n",
];
const SIGNS: &[u8] = b"*$:+-_,(#!=%~>|\r\n\r\n\r\n0123456789-PING \0\xff";

pub(super) fn input(rng: &mut Rng, may: CommandFilter) -> Input {
    match rng.below(20) {
        0 => Input { bytes: (0..rng.below(80)).map(|_| rng.next_u64() as u8).collect(), commands: None },
        1 => Input { bytes: (0..rng.below(60)).map(|_| rng.pick(SIGNS)).collect(), commands: None },
        2..11 => right(rng, may),
        _ => {
            let mut bytes = right(rng, may).bytes;
            for _ in 0..=rng.below(3) {
                harm(rng, &mut bytes);
            }
            Input { bytes, commands: None }
        }
    }
}

/// Returns a valid pipeline.
fn right(rng: &mut Rng, may: CommandFilter) -> Input {
    let (mut bytes, mut commands) = (Vec::new(), Vec::new());
    for _ in 0..=rng.below(5) {
        match rng.below(12) {
            0 => {
                let ping: &[u8] = rng.pick(&[b"PING\r\n", b"ping\n", b"PiNg\r\n"]);
                bytes.extend_from_slice(ping);
                commands.push(vec![ping[..4].to_vec()]);
            }
            1 => bytes.extend_from_slice(rng.pick(&[&b"*0\r\n"[..], b"*-1\r\n", b"\r\n", b"\n", b"*-77\r\n"])),
            _ => {
                let args = command(rng, may);
                bytes.extend(encode(&args));
                commands.push(args);
            }
        }
    }
    Input { bytes, commands: Some(commands) }
}

/// Returns a command of the table or not, with arguments that may fit it.
fn command(rng: &mut Rng, may: CommandFilter) -> Vec<Vec<u8>> {
    let known: Vec<_> = table::every().filter(|command| may(command.name)).collect();
    let command = known[rng.index(known.len())];
    let mut args: Vec<Vec<u8>> = command.name.split('|').map(|word| word.as_bytes().to_vec()).collect();
    if rng.one_in(4) {
        args[0].make_ascii_lowercase();
    }
    if rng.one_in(20) {
        args = vec![b"NOPE".to_vec()];
    }
    let least = command.arity.unsigned_abs() as usize;
    while args.len() < least || rng.one_in(2) {
        args.push(rng.pick(ARGUMENTS).to_vec());
    }
    // Arguments that a check needs, so that some are decided.
    if command.name.starts_with("TG.") && args.len() > 2 && !rng.one_in(4) {
        args[1] = rng.pick(&[&b"a"[..], b"b", b"c"]).to_vec();
        args[2] = rng.pick(&[&b"100/min"[..], b"5/s gcra", b"3/h, 1/s"]).to_vec();
    }
    if rng.one_in(30) {
        args.resize(args.len() + rng.index(60), Vec::new());
    }
    if rng.one_in(300) {
        args.push(vec![b'x'; rng.index(9_000)]);
    }
    args
}

pub(super) fn encode<A: AsRef<[u8]>>(args: &[A]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend_from_slice(format!("${}\r\n", arg.as_ref().len()).as_bytes());
        bytes.extend_from_slice(arg.as_ref());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Makes one fault: a byte that is changed, added or missing, a wrong length, an early end.
fn harm(rng: &mut Rng, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    let at = rng.index(bytes.len());
    match rng.below(8) {
        0 => bytes[at] = rng.next_u64() as u8,
        1 => bytes[at] = rng.pick(SIGNS),
        2 => bytes.insert(at, rng.pick(SIGNS)),
        3 => {
            bytes.remove(at);
        }
        4 => bytes.truncate(at),
        5 => {
            let end = (at + 1 + rng.index(20)).min(bytes.len());
            let again = bytes[at..end].to_vec();
            bytes.splice(at..at, again);
        }
        _ => {
            // A length behind a sign.
            let signs: Vec<usize> = (0..bytes.len()).filter(|at| matches!(bytes[*at], b'*' | b'$')).collect();
            let Some(sign) = (!signs.is_empty()).then(|| signs[rng.index(signs.len())]) else { return };
            let digits = bytes[sign + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            bytes.splice(sign + 1..sign + 1 + digits, rng.pick(NUMBERS).iter().copied());
        }
    }
}
