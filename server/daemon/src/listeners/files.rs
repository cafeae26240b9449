//! How many connections the system's limit on open files leaves room for.

use std::fs;

use crate::start_error::StartError;

/// Files that are reserved for everything else: stores, certificates, tokens.
const KEPT: u64 = 32;
/// Files of one thread's runtime.
const PER_THREAD: u64 = 4;

/// Returns `wanted`, or fewer if the files that are neither in use nor reserved do not suffice. Returns `wanted` where
/// the system does not report its limit.
pub(crate) fn room(wanted: usize, threads: usize) -> Result<usize, StartError> {
    let limit = fs::read_to_string("/proc/self/limits").ok().and_then(|text| soft_limit(&text));
    let used = fs::read_dir("/proc/self/fd").map_or(0, |files| files.count() as u64);
    fits(wanted, limit, used + PER_THREAD * (threads as u64 + 1))
}

fn fits(wanted: usize, limit: Option<u64>, used: u64) -> Result<usize, StartError> {
    let Some(limit) = limit else { return Ok(wanted) };
    match limit.saturating_sub(used + KEPT) {
        0 => Err(StartError::Files(limit)),
        left => Ok(usize::try_from(left).map_or(wanted, |left| wanted.min(left))),
    }
}

/// Parses the soft limit from a text such as `/proc/self/limits`; `None` if it has none.
fn soft_limit(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_the_system_is_found() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max processes             127235               127235               processes \n\
                    Max open files            1024                 524288               files     \n";
        assert_eq!(soft_limit(text), Some(1_024));
        assert_eq!(soft_limit(&text.replace("1024  ", "unlimited")), None);
        assert_eq!(soft_limit(""), None);
        let own = fs::read_to_string("/proc/self/limits").unwrap();
        assert!(soft_limit(&own).is_some() || own.contains("unlimited"), "{own}");
    }

    #[test]
    fn connections_leave_room_for_everything_else() {
        let fits = |wanted, limit, used| fits(wanted, limit, used).ok();
        assert_eq!(fits(4_096, None, 20), Some(4_096));
        assert_eq!(fits(4_096, Some(1_048_576), 20), Some(4_096));
        assert_eq!(fits(4_096, Some(1_024), 20), Some(972));
        assert_eq!(fits(4_096, Some(53), 20), Some(1));
        assert_eq!(fits(4_096, Some(52), 20), None);
        assert_eq!(fits(4_096, Some(10), 20), None);
    }
}
