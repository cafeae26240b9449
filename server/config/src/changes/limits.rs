//! Changes of limits, and whether past consumption still counts. It does if the id of the limit stays the same, which
//! is its name or, without one, its algorithm, period, resolution, align and factor.

use tollgate_kernel::{Limit, Policy};

use super::ChangeReport;

/// Reports the change of each limit.
pub(super) fn compare(report: &mut ChangeReport, what: &str, old: &Policy, new: &Policy) {
    let of = |policy: &Policy, id: &Limit| policy.limits().iter().find(|limit| limit.id() == id.id()).cloned();
    // A limit with another id in the same place counts as changed, as people see it.
    let mut gone: Vec<_> = old.limits().iter().filter(|limit| of(new, limit).is_none()).collect();
    for limit in new.limits() {
        match of(old, limit) {
            Some(was) if was == *limit => {}
            Some(was) => report.add(format!("{what} {was} -> {limit}; what was consumed counts on")),
            None if gone.is_empty() => report.add(format!("{what} {limit} added; it begins anew")),
            None => {
                let was = gone.remove(0);
                report.add(format!("{what} {was} -> {limit}; begins anew, what was consumed no longer counts"));
            }
        }
    }
    for limit in gone {
        report.add(format!("{what} {limit} removed"));
    }
    let order = |policy: &Policy| policy.limits().iter().map(|limit| limit.id().clone()).collect::<Vec<_>>();
    let (mut before, mut after) = (order(old), order(new));
    let same_order = before == after;
    before.sort();
    after.sort();
    if before == after && !same_order {
        report.add(format!("{what} order {old} -> {new}"));
    }
}
