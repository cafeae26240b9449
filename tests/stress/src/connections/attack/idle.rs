//! Connects, sees whether it is served, and says nothing more, or only after a long pipeline. The first address
//! tries more than one may have.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::addresses::{HANGS, connect};
use super::{Attack, Figures};
use crate::Failure;
use crate::connections::client::command;

/// Connections that are made at once.
const AT_ONCE: usize = 64;
/// Questions that make the server use all the room it has for a connection.
pub(super) const PIPELINE: usize = 400;

const PONG: &[u8] = b"+PONG\r\n";

/// What became of a connection.
enum ConnectResult {
    Held(TcpStream),
    Refused,
    Wrong,
}

pub(super) async fn run(attack: Arc<Attack>, questions: usize) -> Result<Figures, Failure> {
    let plan = &attack.plan;
    let (mut figures, mut held) = (Figures::default(), Vec::new());
    let tries = split(plan.count, plan.addresses, plan.prefix);
    // One address after the other, so that places run out at a known one.
    for (address, mut left) in tries.into_iter().enumerate() {
        while left > 0 {
            let some = left.min(AT_ONCE);
            left -= some;
            let mut tasks = JoinSet::new();
            for _ in 0..some {
                let attack = Arc::clone(&attack);
                tasks.spawn(async move { come(&attack, address, questions).await.unwrap_or(ConnectResult::Wrong) });
            }
            while let Some(came) = tasks.join_next().await {
                figures.tried += 1;
                match came? {
                    ConnectResult::Held(stream) => {
                        held.push(stream);
                        figures.held += 1;
                        figures.requests += questions as u64;
                        figures.of_first += u64::from(address == 0);
                    }
                    ConnectResult::Refused => figures.refused += 1,
                    ConnectResult::Wrong => figures.wrong += 1,
                }
            }
        }
    }
    attack.ready()?;
    attack.over().await;
    // Whoever is silent is not sent away.
    let is_cut =
        |stream: &&TcpStream| stream.try_read(&mut [0]).map_err(|error| error.kind()) != Err(io::ErrorKind::WouldBlock);
    figures.cut = held.iter().filter(is_cut).count() as u64;
    Ok(figures)
}

async fn come(attack: &Attack, address: usize, questions: usize) -> io::Result<ConnectResult> {
    let mut stream = connect(attack, attack.plan.from(address)).await?;
    // Who is refused may be gone before this is sent; what it was told is there all the same.
    let question = command(&["TG.CHECK", "rested", "1000000000/h gcra"]);
    let _ = stream.write_all(&[question.repeat(questions), command(&["PING"])].concat()).await;
    let (mut said, mut some) = (Vec::new(), [0; 4_096]);
    while !(said.ends_with(PONG) || said.starts_with(b"-") && said.ends_with(b"\n")) {
        match timeout(HANGS, stream.read(&mut some)).await? {
            // Refused without a word: the reset came before it.
            Ok(0) | Err(_) => return Ok(ConnectResult::Refused),
            Ok(read) => said.extend_from_slice(&some[..read]),
        }
    }
    let answers = said.windows(4).filter(|four| four == b"*6\r\n").count();
    Ok(if said.ends_with(PONG) && answers == questions {
        ConnectResult::Held(stream)
    } else if said.starts_with(b"-ERR max number of clients reached") {
        ConnectResult::Refused
    } else {
        ConnectResult::Wrong
    })
}

/// Tries of each address: the first half as many again as one may have, the others the rest.
pub(in crate::connections) fn split(count: usize, addresses: usize, prefix: usize) -> Vec<usize> {
    let first = (prefix + prefix.div_ceil(2)).min(count);
    let others = addresses.saturating_sub(1);
    let mut tries = vec![first];
    tries.extend((0..others).map(|place| (count - first + place) / others));
    tries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_tried_and_the_first_address_tries_too_many() {
        for (count, addresses, prefix) in [(5_000, 20, 256), (300, 10, 24), (7, 3, 1)] {
            let tries = split(count, addresses, prefix);
            assert_eq!((tries.len(), tries.iter().sum::<usize>()), (addresses, count));
            assert!(tries[0] > prefix);
        }
        assert_eq!(split(10, 1, 256), [10]);
    }
}
