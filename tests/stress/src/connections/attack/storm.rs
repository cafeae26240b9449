//! Connects and leaves, over and over: in silence, in the middle of a command, with a reset.

use std::sync::Arc;

use tokio::io::AsyncWriteExt;

use super::addresses::{all, connect, reset};
use super::{Attack, Figures};
use crate::Failure;

/// Attackers at once.
pub(super) const AT_ONCE: usize = 64;

pub(super) async fn run(attack: Arc<Attack>) -> Result<Figures, Failure> {
    all(&attack, one).await
}

async fn one(attack: Arc<Attack>, number: usize) -> Figures {
    let mut figures = Figures::default();
    for turn in number.. {
        if attack.is_over() {
            break;
        }
        figures.tried += 1;
        match connect(&attack, attack.plan.from(turn)).await {
            Ok(mut stream) => {
                if turn % 3 == 1 {
                    let _ = stream.write_all(b"*3\r\n$8\r\nTG.CH").await;
                }
                if turn % 3 != 0 {
                    reset(stream);
                }
            }
            // Refused by the system: it has no port left.
            Err(_) => figures.refused += 1,
        }
        tokio::task::yield_now().await;
    }
    figures
}
