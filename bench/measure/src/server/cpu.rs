//! The processor time of a process, all its threads together, and of the whole machine, as Linux tells it.

use std::time::Duration;

use crate::Failure;

/// Linux tells times in hundredths of a second, whatever its clock does.
const TICK: Duration = Duration::from_millis(10);

/// What a process has used so far, in user code and in the system.
pub(crate) fn used(pid: u32) -> Result<Duration, Failure> {
    let path = format!("/proc/{pid}/stat");
    let stat = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    ticks(&stat).map(|ticks| TICK * ticks).ok_or_else(|| format!("{path}: no processor time in {stat:?}").into())
}

/// What all processes have used so far, and what was taken from this machine by others on the same host.
pub(crate) fn used_by_all() -> Result<Duration, Failure> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    all_ticks(&stat).map(|ticks| TICK * ticks).ok_or_else(|| "no processor time in /proc/stat".into())
}

/// The first line: cpu user nice system idle iowait irq softirq steal.
fn all_ticks(stat: &str) -> Option<u32> {
    let times: Option<Vec<u32>> =
        stat.lines().next()?.split_whitespace().skip(1).take(8).map(|it| it.parse().ok()).collect();
    match times?.as_slice() {
        [user, nice, system, _idle, _waiting, irq, softirq, steal] => {
            Some(user + nice + system + irq + softirq + steal)
        }
        _ => None,
    }
}

/// utime and stime, the 14th and 15th field. The second is the program's name, in parentheses, which may
/// have spaces and parentheses in it.
fn ticks(stat: &str) -> Option<u32> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: u32 = fields.next()?.parse().ok()?;
    let system: u32 = fields.next()?.parse().ok()?;
    user.checked_add(system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_system_are_added() {
        let stat = "7 (a) b)) S 1 7 7 0 -1 4194304 100 0 0 0 250 31 9 9 20 0 5 0 100 0 0";
        assert_eq!(ticks(stat), Some(281));
        assert_eq!(ticks("7 (a) S 1"), None);
        assert!(used(std::process::id()).is_ok());
    }

    #[test]
    fn a_machine_that_waits_uses_nothing() {
        assert_eq!(all_ticks("cpu  1 2 3 400 500 6 7 8 9 10\ncpu0 1"), Some(27));
        assert_eq!(all_ticks("cpu  1 2 3"), None);
        assert!(used_by_all().is_ok());
    }
}
