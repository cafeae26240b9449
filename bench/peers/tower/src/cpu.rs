//! The processor time of a process, all its threads together, and of the whole machine, as Linux tells it.

use std::time::Duration;

use crate::Failure;

/// Linux tells the machine's times in hundredths of a second.
const TICK: Duration = Duration::from_millis(10);

/// What a process has used so far, in user code and in the system, to the nanosecond: the first number of its
/// threads' `schedstat`. Ticks would be a fiftieth of a short slice.
pub(crate) fn used(pid: u32) -> Result<Duration, Failure> {
    let mut used = Duration::ZERO;
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let path = thread?.path().join("schedstat");
        let stat = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let nanos = stat.split_whitespace().next().and_then(|nanos| nanos.parse().ok());
        used += nanos.map(Duration::from_nanos).ok_or_else(|| format!("no processor time in {stat:?}"))?;
    }
    Ok(used)
}

/// What all processes have used so far, and what was taken from this machine by others on the same host.
pub(crate) fn used_by_all() -> Result<Duration, Failure> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    ticks(&stat).map(|ticks| TICK * ticks).ok_or_else(|| "no processor time in /proc/stat".into())
}

/// The first line: cpu user nice system idle iowait irq softirq steal.
fn ticks(stat: &str) -> Option<u32> {
    let times = stat.lines().next()?.split_whitespace().skip(1).take(8).map(|it| it.parse().ok());
    match times.collect::<Option<Vec<u32>>>()?.as_slice() {
        [user, nice, system, _idle, _waiting, irq, softirq, steal] => {
            Some(user + nice + system + irq + softirq + steal)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_waits_uses_nothing() {
        assert_eq!(ticks("cpu  1 2 3 400 500 6 7 8 9 10\ncpu0 1"), Some(27));
        assert_eq!(ticks("cpu  1 2 3"), None);
        assert!(used_by_all().is_ok());
    }

    #[test]
    fn this_process_has_used_some() {
        assert!(used(std::process::id()).unwrap() > Duration::ZERO);
        assert!(used(0).is_err());
    }
}
