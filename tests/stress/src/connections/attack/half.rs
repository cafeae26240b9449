//! Begins a handshake and does not end it: silence, half of a first message, or a byte of it now and then.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::sleep;

use super::addresses::{all, connect};
use super::{Attack, Figures};
use crate::Failure;

/// A record of 512 bytes with the beginning of a ClientHello of TLS 1.2 or later.
const HELLO: &[u8] = &[22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7];
/// Between two bytes of the slow ones.
const PAUSE: Duration = Duration::from_millis(500);

pub(super) async fn run(attack: Arc<Attack>) -> Result<Figures, Failure> {
    all(&attack, one).await
}

async fn one(attack: Arc<Attack>, number: usize) -> Figures {
    let mut figures = Figures { tried: 1, ..Figures::default() };
    let Ok(mut stream) = connect(&attack, attack.plan.from(number)).await else {
        return Figures { wrong: 1, ..figures };
    };
    figures.held = 1;
    let start = Instant::now();
    let (at_once, mut slowly) = match number % 3 {
        0 => HELLO.split_at(0),
        1 => HELLO.split_at(HELLO.len()),
        _ => HELLO.split_at(1),
    };
    if number.is_multiple_of(3) {
        slowly = &[];
    }
    let _ = stream.write_all(at_once).await;
    let mut said = [0; 64];
    while !attack.is_over() {
        tokio::select! {
            // An alert may come before the end.
            read = stream.read(&mut said) => if let Ok(0) | Err(_) = read {
                figures.cut(start);
                break;
            },
            () = sleep(PAUSE) => if let Some((first, rest)) = slowly.split_first() {
                slowly = rest;
                let _ = stream.write_all(&[*first]).await;
            },
        }
    }
    figures
}
