//! Sends a byte now and then, and never comes to an end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::sleep;

use super::addresses::{all, connect};
use super::{Attack, Figures};
use crate::Failure;

/// A head whose last line does not end.
pub(super) const HEAD: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-slow: ";
/// A command whose last argument is long.
pub(super) const COMMAND: &[u8] = b"*3\r\n$8\r\nTG.CHECK\r\n$9000\r\n";
/// Between two bytes.
const PAUSE: Duration = Duration::from_millis(250);

pub(super) async fn run(attack: Arc<Attack>, begin: &'static [u8]) -> Result<Figures, Failure> {
    all(&attack, |attack, number| one(attack, number, begin)).await
}

/// A byte at a time until it is cut off, or answered, or told to end.
async fn one(attack: Arc<Attack>, number: usize, begin: &'static [u8]) -> Figures {
    let mut figures = Figures { tried: 1, ..Figures::default() };
    let Ok(mut stream) = connect(&attack, attack.plan.from(number)).await else {
        return Figures { wrong: 1, ..figures };
    };
    figures.held = 1;
    let start = Instant::now();
    let mut bytes = begin.iter().chain(std::iter::repeat(&b'x'));
    let mut said = [0; 64];
    while !attack.is_over() {
        tokio::select! {
            read = stream.read(&mut said) => match read {
                Ok(0) | Err(_) => {
                    figures.cut(start);
                    break;
                }
                // A refusal is fine; an answer cannot be.
                Ok(_) if said.starts_with(b"HTTP/1.1 2") || said.starts_with(b"*6") => figures.wrong += 1,
                Ok(_) => {}
            },
            () = sleep(PAUSE) => {
                figures.requests += 1;
                if stream.write_all(&[*bytes.next().unwrap_or(&b'x')]).await.is_err() {
                    figures.cut(start);
                    break;
                }
            }
        }
    }
    figures
}
