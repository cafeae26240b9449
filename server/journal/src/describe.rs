//! Describes in words what was found.

use crate::chain::Chain;
use crate::error::Damage;
use crate::names;
use crate::recover::clean;
use crate::report::{RecoveryReport, counted};
use crate::survey::Survey;

/// Returns the report of a directory.
pub(crate) fn report(survey: &Survey, chain: &Chain, damages: &[Damage]) -> RecoveryReport {
    // Newer journals may have been deleted.
    let unknown = damages.iter().any(|damage| damage.file.ends_with(names::NEWEST));
    let empty = chain.base.is_none() && chain.files.is_empty();
    let mut report = RecoveryReport {
        records: chain.files.iter().map(|file| file.records).sum(),
        snapshot: chain.base.map(|about| about.number),
        lost: chain.stop.is_some() || unknown || (empty && !damages.is_empty()),
        clean: clean(chain),
        ..RecoveryReport::default()
    };
    for damage in damages {
        report.push(format!("repaired: {damage}"));
    }
    match chain.base {
        Some(about) => {
            report.push(format!("{}: {} bytes read", names::snapshot(about.number), counted(about.bytes)));
        }
        None if empty => report.push("nothing to read: begun empty".to_owned()),
        None => {}
    }
    journals(chain, &mut report);
    if unknown {
        report.push("newest: written anew; whether newer journals were deleted is not known".to_owned());
    }
    if let Some(stop) = &chain.stop {
        dropped(chain, stop.proven, &mut report);
        lost_overlap(chain, &mut report);
    }
    if !report.clean {
        report.push("not ended cleanly: whoever wrote last was killed, lost power or failed".to_owned());
    }
    survey.report_foreign(&mut report);
    report
}

fn journals(chain: &Chain, report: &mut RecoveryReport) {
    for file in &chain.files {
        let name = names::journal(file.number);
        let records = counted(file.records);
        let stopped = chain.stop.as_ref().filter(|stop| stop.number == file.number);
        let cut = counted(file.len.saturating_sub(file.good));
        let good = file.good;
        report.push(match stopped {
            Some(_) if file.len == file.good => format!("{name}: ends too early, at {good}; {records} records read"),
            Some(stop) if stop.proven => {
                format!("{name}: {cut} bytes from {good} on were left out; {records} records read")
            }
            Some(_) => format!("{name}: {cut} bytes of a torn record at {good} were cut off; {records} records read"),
            None => format!("{name}: {records} records read"),
        });
    }
}

fn dropped(chain: &Chain, proven: bool, report: &mut RecoveryReport) {
    for &number in &chain.dropped {
        let name = names::journal(number);
        report.push(match &chain.stop {
            Some(stop) if stop.number == number && !proven => format!("{name}: left out and removed: {}", stop.what),
            _ if proven => format!("{name}: left out whole, since what it follows on is not there"),
            _ => format!("{name}: left out and removed, since what it follows on was lost before it was synced"),
        });
    }
}

/// Reports a snapshot that was written while records came in, some of which are lost, so that it does not represent a
/// single moment.
fn lost_overlap(chain: &Chain, report: &mut RecoveryReport) {
    let Some(about) = chain.base else { return };
    let reached = chain.files.first().map_or(0, |file| file.good);
    if chain.files.len() < 2 && reached < about.needs {
        report.push(format!(
            "{}: was written while the {} bytes of {} came in that are lost, so it may count some of what they told",
            names::snapshot(about.number),
            counted(about.needs - reached),
            names::journal(about.number),
        ));
    }
}
