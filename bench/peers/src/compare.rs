//! The comparison: all contenders on all workloads, then each in processes of its own.

use serde_json::json;

use crate::args::Options;
use crate::child::{self, Figures};
use crate::contenders::{CONTENDERS, Contender};
use crate::workload::{QUICK, WORKLOADS};
use crate::{measure, report, targets};

/// Where bytes are counted: two places in the growth of a table that doubles.
const BYTES_AT: [u64; 2] = [1_000_000, 10_000_000];
const STALL_AT: [u64; 1] = [10_000_000];

pub(crate) fn compare(options: &Options) -> Result<(), String> {
    let contenders: Vec<&Contender> =
        CONTENDERS.iter().filter(|contender| contender.name.contains(&options.only)).collect();
    let wanted = |name: &str| name.contains(&options.workload);
    let workloads = WORKLOADS.iter().filter(|workload| wanted(workload.name));
    if contenders.is_empty() || !(wanted("bytes") || wanted("stall") || workloads.clone().count() > 0) {
        return Err("no contender or no workload has that in its name".to_owned());
    }
    if !options.json {
        report::head(&contenders, options);
    }
    let (mut timed, mut told) = (Vec::new(), Vec::new());
    for workload in workloads {
        let able: Vec<&Contender> =
            contenders.iter().copied().filter(|contender| workload.keys <= contender.most_keys).collect();
        if able.is_empty() {
            continue;
        }
        let workload = if options.quick { workload.quick() } else { *workload };
        let times = measure::measure(&workload, &able, options.repeats);
        if !options.json {
            report::times(&workload, &times);
        }
        told.push(report::times_json(&workload, &times));
        timed.push((workload.name, times));
    }
    let mut bytes = Vec::new();
    if wanted("bytes") {
        bytes = children("bytes", &BYTES_AT, &contenders, options)?;
        if !options.json {
            report::bytes(&bytes);
        }
    }
    let mut stalls = Vec::new();
    if wanted("stall") {
        stalls = children("stall", &STALL_AT, &contenders, options)?;
        if !options.json {
            report::stalls(&stalls);
        }
    }
    if options.json {
        let all = json!({
            "quick": options.quick,
            "repeats": options.repeats,
            "contenders": report::contenders_json(&contenders),
            "workloads": told,
            "bytes": report::figures_json(&bytes),
            "stall": report::figures_json(&stalls),
        });
        println!("{all:#}");
    } else {
        targets::print(&timed, &bytes, &stalls);
    }
    Ok(())
}

fn children(
    command: &str,
    counts: &[u64],
    contenders: &[&'static Contender],
    options: &Options,
) -> Result<Vec<Figures>, String> {
    let part = if options.quick { QUICK } else { 1 };
    let mut all = Vec::new();
    for contender in contenders {
        for keys in counts.iter().filter(|keys| **keys <= contender.most_keys) {
            all.push(child::run(command, contender, keys / part)?);
        }
    }
    Ok(all)
}
