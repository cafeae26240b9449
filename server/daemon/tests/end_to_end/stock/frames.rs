//! Frames at the edge of the protocol, and mistakes in it: answered, and the connection kept or closed, as a
//! redis-server does it. Where we differ, it is on purpose, and stands here.

use crate::stock::wire::{Reply, ask, command, start, tell};

/// Frames after which both answer the same, and both go on or both hang up.
const SAME: &[&[u8]] = &[
    b"*1\r\n$4\r\nPING\r\n",
    b"*1\r\n$4\r\nping\r\n",
    b"PING\r\n",
    b"ping\n",
    b"PING\r\nPING\r\n*1\r\n$4\r\nPING\r\nPING\r\n",
    b"\r\n",
    b"\n\r\n\n",
    b"*0\r\n",
    b"*-1\r\n",
    b"*-2147483649\r\n",
    b"*-9999999999999\r\n",
    b"*0\r\n*0\r\n*1\r\n$4\r\nPING\r\n",
    b"*1\r\n$0\r\n\r\n",
    b"*2\r\n$4\r\nECHO\r\n$0\r\n\r\n",
    b"*2\r\n$4\r\nECHO\r\n$7\r\na\r\nb\0\xffc\r\n",
    b"*2\r\n$4\r\nECHO\r\n$4\r\n*1\r\n\r\n",
    // Counts and lengths that are none, or that nobody takes.
    b"*\r\n",
    b"*x\r\n",
    b"*1x\r\n",
    b"* 1\r\n",
    b"*+1\r\n",
    b"*01\r\n",
    b"*-0\r\n",
    b"*-01\r\n",
    b"*--1\r\n",
    b"*1.0\r\n",
    b"*2147483648\r\n",
    b"*4294967297\r\n",
    b"*9223372036854775807\r\n",
    b"*9223372036854775808\r\n",
    b"*99999999999999999999999999\r\n",
    b"*1\r\n$\r\n",
    b"*1\r\n$x\r\n",
    b"*1\r\n$-1\r\n",
    b"*1\r\n$-2\r\n",
    b"*1\r\n$+4\r\nPING\r\n",
    b"*1\r\n$04\r\nPING\r\n",
    b"*1\r\n$ 4\r\nPING\r\n",
    b"*1\r\n$4294967300\r\nPING\r\n",
    b"*1\r\n$9223372036854775807\r\n",
    b"*1\r\n$18446744073709551620\r\nPING\r\n",
    // Arguments of another kind.
    b"*1\r\n:4\r\n",
    b"*1\r\n+PING\r\n",
    b"*1\r\n*1\r\n$4\r\nPING\r\n",
    b"*1\r\n%1\r\n",
    b"*2\r\n$4\r\nECHO\r\n_\r\n",
    // What came before a mistake is answered.
    b"*1\r\n$4\r\nPING\r\nPING\r\n*x\r\n*1\r\n$4\r\nPING\r\n",
    b"*1\r\n$5\r\nMULTI\r\n*1\r\n$4\r\nPING\r\n*1\r\n$-5\r\n",
];

/// What the replies are: errors by what Redis says, since ours may say more.
fn agree(ours: &[Reply], theirs: &[Reply]) -> bool {
    ours.len() == theirs.len()
        && ours.iter().zip(theirs).all(|both| match both {
            (Reply::Error(ours), Reply::Error(theirs)) => ours.starts_with(theirs.trim_end()),
            (ours, theirs) => ours == theirs,
        })
}

#[test]
fn frames_at_the_edge_are_answered_as_redis_does() {
    let (ours, theirs) = (start(), tollgate_kit::Server::start().unwrap());
    for frame in SAME {
        let (our, their) = (ask(ours.resp_addr().unwrap(), &[frame]), ask(theirs.addr(), &[frame]));
        let same = agree(&our.replies, &their.replies) && our.closed == their.closed;
        assert!(same, "{}\n  ours   {our:?}\n  theirs {their:?}", frame.escape_ascii());
    }
}

#[test]
fn a_pipeline_cut_anywhere_is_answered_as_redis_does() {
    let (ours, theirs) = (start(), tollgate_kit::Server::start().unwrap());
    let lines: [&[&str]; 7] = [
        &["PING"],
        &["SELECT", "9"],
        &["MULTI"],
        &["ECHO", "one\r\n$3\r\ntwo"],
        &["EXEC"],
        &["NOPE", "a"],
        &["CLIENT", "SETNAME", "x"],
    ];
    let mut whole: Vec<u8> = lines.iter().flat_map(|words| command(words)).collect();
    whole.extend_from_slice(b"PING\r\n*0\r\nPING\r\n");
    let theirs = theirs.addr();
    let expected = ask(theirs, &[&whole]);
    for cut in 0..=whole.len() {
        let (first, second) = whole.split_at(cut);
        for addr in [ours.resp_addr().unwrap(), theirs] {
            let found = ask(addr, &[first, second]);
            assert!(agree(&found.replies, &expected.replies) && !found.closed, "cut at {cut}: {found:?}");
        }
        // The end of what was sent is the end: what was whole is answered, and half a command is not.
        let (our, their) = (tell(ours.resp_addr().unwrap(), first), tell(theirs, first));
        assert!(agree(&our, &their), "cut at {cut}\n  ours   {our:?}\n  theirs {their:?}");
    }
}

/// Where we differ on purpose: what is sent, our last error, and why.
const DIFFERENT: &[(&[u8], &str, &str)] = &[
    (b"ECHO hello\r\n", "expected an array of bulk strings", "browsers can be made to send lines"),
    (b"GET key\r\n", "expected an array of bulk strings", "of lines, PING, AUTH and SELECT alone are taken"),
    (b" PING\r\n", "expected an array of bulk strings", "a line begins with its command"),
    (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "expected an array of bulk strings", "Redis hangs up without a word"),
    (b"POST / HTTP/1.1\r\n\r\n", "expected an array of bulk strings", "Redis hangs up without a word"),
    (b"$4\r\nPING\r\n", "expected an array of bulk strings", "to Redis it is a line, an unknown command"),
    (b"*257\r\n", "invalid multibulk length", "256 arguments are the most"),
    (b"*1\r\n$196609\r\n", "invalid bulk length", "192 KB are the most"),
    (b"*2\r\n$196608\r\n", "expected CRLF", "256 KB of a command are the most, and an argument ends with CRLF"),
    (b"*1\r\n$4\r\nPINGxx", "expected CRLF after an argument", "Redis does not look at the two bytes"),
    (b"*1\rx$4\r\nPING\r\n", "invalid multibulk length", "Redis does not look at the byte behind CR"),
    (b"*1\r\nx", "expected '$', got 'x'", "Redis waits for the line's end"),
    (
        b"*1111111111111111111111111111111111111111111111111111111111111111111111",
        "too big mbulk count",
        "64 bytes, not 64 KB",
    ),
];

#[test]
fn where_we_differ_we_say_why_and_hang_up() {
    let server = start();
    for (bytes, error, why) in DIFFERENT {
        let mut sent = bytes.to_vec();
        if bytes.ends_with(b"$196608\r\n") {
            sent.extend_from_slice(&[b'x'; 196_612]);
        }
        let found = ask(server.resp_addr().unwrap(), &[&sent]);
        let said = matches!(found.replies.as_slice(), [Reply::Error(said)] if said.starts_with("ERR Protocol error: ") && said.contains(error));
        assert!(said && found.closed, "{}: {found:?} ({why})", bytes.escape_ascii());
    }
}
