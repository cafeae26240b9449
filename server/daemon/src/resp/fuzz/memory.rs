//! The memory of a connection: at most twice the bytes that arrived and 64 KB, besides the replies that wait to be
//! written, whatever lengths are announced.

use std::collections::VecDeque;

use allocation_counter::measure;

use super::campaign;
use super::input::{encode, input};
use super::wire::FuzzServer;
use crate::access::Scopes;

const SLACK: usize = 64 << 10;

/// Returns whether a command keeps nothing beyond the connection: neither keys nor texts.
fn keeps_nothing(name: &str) -> bool {
    ["PING", "ECHO", "MULTI", "EXEC", "DISCARD", "SELECT", "HELLO", "RESET", "TIME", "ROLE"].contains(&name)
        || ["CLIENT", "COMMAND", "CONFIG", "CLUSTER"].iter().any(|word| name.starts_with(word))
}

fn within(bench: &FuzzServer, bytes: Vec<u8>, scopes: Scopes) {
    let received = bytes.len();
    let shown = bytes[..received.min(200)].escape_ascii().to_string();
    let chunks = VecDeque::from([bytes]);
    let mut written = None;
    let taken = measure(|| written = Some(bench.serve(chunks, scopes, false)));
    let replies = written.map_or(0, |written| written.borrow().longest);
    // While a buffer grows, both the old one and one twice as long exist.
    let bound = 2 * received + SLACK + 3 * replies;
    assert!(taken.bytes_max <= bound as u64, "{} bytes for {received} that came: {shown}", taken.bytes_max);
}

#[test]
fn memory_is_bounded_by_the_bytes_that_came() {
    let bench = FuzzServer::new();
    let empty = |count: usize| encode(&[vec![b"PING".to_vec()], vec![Vec::new(); count - 1]].concat());
    let multi = encode(&[b"MULTI"]);
    let hostile: [Vec<u8>; 12] = [
        b"*1000000\r\n".to_vec(),
        b"*256\r\n".to_vec(),
        b"*256\r\n$196608\r\n".to_vec(),
        b"*1\r\n$2147483647\r\n".to_vec(),
        [b"*1\r\n$196608\r\n".as_slice(), &[b'x'; 190_000]].concat(),
        encode(&[b"ECHO".as_slice(), &[b'x'; 196_608]]),
        [b"PING\r".as_slice(), &[b'x'; 1 << 20]].concat(),
        vec![b'*'; 1 << 20],
        b"PING\r\n".repeat(100_000),
        empty(256).repeat(1_000),
        [multi.clone(), empty(256).repeat(160)].concat(),
        [multi, encode(&[b"PING"]).repeat(2_000)].concat(),
    ];
    for bytes in hostile {
        for scopes in [Scopes::NONE, Scopes::FREE, Scopes::ALL] {
            within(&bench, bytes.clone(), scopes);
        }
    }
    campaign("memory", 10, |rng| {
        let bytes = input(rng, keeps_nothing).bytes;
        within(&bench, bytes, rng.pick(&[Scopes::NONE, Scopes::FREE, Scopes::ALL]));
    });
}
