//! Makes the server keep bytes: all but the last of a long command, many commands that wait for EXEC, or long
//! replies to an EXEC that are not read.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::addresses::{all, connect};
use super::{Attack, Figures};
use crate::Failure;
use crate::connections::client::command;

/// The longest argument that the server takes, nearly.
const LONG: usize = 190_000;
/// Commands that wait, and how long the key of each is.
const WAITING: usize = 1_000;
const KEY: usize = 200;

pub(super) async fn run(attack: Arc<Attack>) -> Result<Figures, Failure> {
    all(&attack, one).await
}

async fn one(attack: Arc<Attack>, number: usize) -> Figures {
    let mut figures = Figures { tried: 1, ..Figures::default() };
    let Ok(mut stream) = connect(&attack, attack.plan.from(number)).await else {
        return Figures { wrong: 1, ..figures };
    };
    figures.held = 1;
    let (bytes, reads) = match number % 3 {
        0 => (half_of_one(), true),
        1 => (many("TG.CHECK"), true),
        _ => ([many("TG.EXPLAIN"), command(&["EXEC"])].concat(), false),
    };
    let start = Instant::now();
    if stay(&attack, &mut stream, &bytes, reads).await.is_err() {
        figures.cut(start);
    }
    figures
}

/// Sends all, then stays until the end; an error if it is cut off.
async fn stay(attack: &Attack, stream: &mut TcpStream, bytes: &[u8], reads: bool) -> io::Result<()> {
    let (mut reading, mut writing) = stream.split();
    let (mut said, mut left) = ([0; 4_096], bytes);
    loop {
        tokio::select! {
            read = reading.read(&mut said), if reads => if read? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            },
            written = writing.write(left), if !left.is_empty() => left = &left[written?..],
            () = attack.over() => return Ok(()),
        }
    }
}

fn half_of_one() -> Vec<u8> {
    let mut bytes = format!("*2\r\n$4\r\nECHO\r\n${LONG}\r\n").into_bytes();
    bytes.resize(bytes.len() + LONG - 1, b'x');
    bytes
}

fn many(word: &str) -> Vec<u8> {
    let key = "k".repeat(KEY);
    [command(&["MULTI"]), command(&[word, &key, "10/h"]).repeat(WAITING)].concat()
}
