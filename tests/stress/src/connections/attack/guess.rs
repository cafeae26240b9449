//! Logs in with wrong tokens, as fast as they are refused.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::addresses::{HANGS, all, connect};
use super::{Attack, Figures};
use crate::Failure;
use crate::connections::client::command;

/// Attackers at once.
pub(super) const AT_ONCE: usize = 50;
/// Tokens that are sent at once.
const PIPELINE: usize = 16;

pub(super) async fn run(attack: Arc<Attack>) -> Result<Figures, Failure> {
    all(&attack, one).await
}

async fn one(attack: Arc<Attack>, number: usize) -> Figures {
    let mut figures = Figures { tried: 1, ..Figures::default() };
    let Ok(stream) = connect(&attack, attack.plan.from(number)).await else {
        return Figures { wrong: 1, ..figures };
    };
    figures.held = 1;
    let mut stream = BufReader::new(stream);
    for turn in 0_u64.. {
        if attack.is_over() {
            break;
        }
        let token = format!("tg_{:043}", turn * 1_000 + number as u64);
        match guess(&mut stream, &command(&["AUTH", &token])).await {
            Ok(refused) => {
                figures.requests += PIPELINE as u64;
                figures.wrong += (PIPELINE - refused) as u64;
            }
            Err(_) => {
                figures.cut += 1;
                break;
            }
        }
    }
    figures
}

/// Answers how many were refused.
async fn guess(stream: &mut BufReader<TcpStream>, guess: &[u8]) -> io::Result<usize> {
    stream.get_mut().write_all(&guess.repeat(PIPELINE)).await?;
    let mut refused = 0;
    for _ in 0..PIPELINE {
        let mut line = String::new();
        if timeout(HANGS, stream.read_line(&mut line)).await?? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        refused += usize::from(line.starts_with("-WRONGPASS"));
    }
    Ok(refused)
}
