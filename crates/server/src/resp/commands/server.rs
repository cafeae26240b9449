//! What clients ask of a server.

use super::Turn;
use crate::fault::Fault;

/// The time that decisions are made by, in seconds and microseconds.
pub(super) fn time(turn: &mut Turn<'_>) -> Result<(), Fault> {
    let now = turn.shared.desk.clock.now().get();
    turn.out.array(2);
    turn.out.bulk((now / 1_000_000).to_string().as_bytes());
    turn.out.bulk((now % 1_000_000).to_string().as_bytes());
    Ok(())
}
