//! Whether there are files enough: attackers and server need one each for every connection.

use super::Sizes;
use crate::{Failure, machine};

/// Files of a process beside its connections.
const BESIDE: usize = 200;

/// Fails where the system allows too few, and says how to have more: fewer connections would be another
/// campaign.
pub(super) fn judge(sizes: &Sizes) -> Result<(), Failure> {
    let most = sizes.idle.max(3 * sizes.unread).max(sizes.slow).max(sizes.half).max(sizes.caps.connections);
    let Some(limit) = machine::open_files() else { return Ok(()) };
    let needed = (most + BESIDE) as u64;
    if limit >= needed {
        return Ok(());
    }
    Err(Failure(format!(
        "expected at least {needed} open files for each process, found {limit}; ulimit -n {needed} raises it up to \
         what ulimit -Hn says, and LimitNOFILE= or /etc/security/limits.conf raise that"
    )))
}
