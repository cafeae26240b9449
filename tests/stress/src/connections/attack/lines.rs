//! Sends what a page can make a browser send, with a command in what is posted. It must be cut off with an
//! error, and the command must not be run.

use std::sync::Arc;
use std::time::Instant;

use tokio::io::AsyncWriteExt;

use super::addresses::{all, connect, rest};
use super::{Attack, Figures};
use crate::Failure;

/// Attackers at once.
pub(super) const AT_ONCE: usize = 16;
/// The key that they try to charge.
pub(in crate::connections) const VICTIM: &str = "victim";

const BEGINNINGS: &[&str] = &[
    "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\nContent-Length: 52\r\n\r\n",
    "Host: 127.0.0.1\r\n",
    "POST /\r\n",
    "PUT / HTTP/1.1\r\n",
    "OPTIONS * HTTP/1.1\r\n\r\n",
    "GET / HTTP/1.1",
];
const COMMAND: &str = "*3\r\n$8\r\nTG.CHECK\r\n$6\r\nvictim\r\n$4\r\n10/h\r\n";
/// More than the error is long.
const MAX_SAID: usize = 512;

pub(super) async fn run(attack: Arc<Attack>) -> Result<Figures, Failure> {
    all(&attack, one).await
}

async fn one(attack: Arc<Attack>, number: usize) -> Figures {
    let mut figures = Figures::default();
    for turn in number.. {
        if attack.is_over() {
            break;
        }
        let Ok(mut stream) = connect(&attack, attack.plan.from(turn)).await else {
            figures.wrong += 1;
            continue;
        };
        figures.tried += 1;
        figures.held += 1;
        let start = Instant::now();
        let line = BEGINNINGS[turn % BEGINNINGS.len()];
        let _ = stream.write_all(format!("{line}{COMMAND}").as_bytes()).await;
        figures.requests += 1;
        match rest(&mut stream, MAX_SAID).await {
            // One line, or none if the reset was faster.
            Some(said) if said.is_empty() || is_one_error(&said) => figures.cut(start),
            _ => figures.wrong += 1,
        }
    }
    figures
}

fn is_one_error(said: &[u8]) -> bool {
    said.starts_with(b"-ERR Protocol error") && said.iter().filter(|byte| **byte == b'\n').count() == 1
}
