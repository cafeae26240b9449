//! What a comparison prints: tables for people, JSON for programs.

use serde_json::{Value, json};

use crate::args::Options;
use crate::contenders::{BARE, CONTENDERS, Case};
use crate::count::Count;
use crate::inside::How;
use crate::rounds::Measured;
use crate::targets::{Found, Verdict};

/// Where a load is so busy that it, and not the server, may be what is measured.
const DRIVER_FULL: f64 = 0.95;
/// Processors that others may take before figures are doubtful.
const OTHERS: f64 = 0.15;

pub(crate) fn head(options: &Options) {
    if options.quick {
        println!("Quick: one short round. The times say nothing.");
    }
    for contender in CONTENDERS {
        println!("{:<20} {}", contender.name, contender.what);
    }
}

pub(crate) fn counts(counts: &[Count]) {
    for how in How::ALL {
        for case in Case::ALL {
            let those = || counts.iter().filter(|count| count.how == how && count.case == case);
            let bare = those().find(|count| count.contender.name == BARE);
            if those().next().is_none() {
                continue;
            }
            println!("\n{}, {}: instructions a request, without the kernel's", how.name(), case.name());
            for count in those() {
                let over = bare.map_or(String::new(), |bare| format!("{:+.0}", count.instructions - bare.instructions));
                println!("  {:<20} {:>8.0} {over:>8}", count.contender.name, count.instructions);
            }
        }
    }
}

pub(crate) fn measured(options: &Options, all: &[Measured]) {
    for case in Case::ALL {
        let those = || all.iter().filter(|measured| measured.case == case);
        if those().next().is_none() {
            continue;
        }
        println!(
            "\nsockets, {}: {} connections over loopback, a server of one thread; medians of {} x {:?}",
            case.name(),
            options.connections,
            options.rounds,
            options.slice
        );
        println!(
            "  {:<20} {:>10} {:>8} {:>6} {:>12} {:>12}",
            "", "requests/s", "CPU us", "busy", "driver busy", "others busy"
        );
        for one in those() {
            println!(
                "  {:<20} {:>10.0} {:>8.3} {:>6.2} {:>12.2} {:>12.2}",
                one.contender.name,
                one.median(|slice| slice.rate),
                one.median(|slice| slice.cpu),
                one.median(|slice| slice.busy),
                one.median(|slice| slice.driver_busy),
                one.median(|slice| slice.others_busy)
            );
        }
    }
    notes(all).iter().for_each(|note| println!("  {note}"));
}

/// What makes the figures doubtful.
fn notes(all: &[Measured]) -> Vec<String> {
    let most = |of: fn(&Measured) -> f64| all.iter().map(of).fold(0.0, f64::max);
    let driver = most(|one| one.median(|slice| slice.driver_busy));
    let others = most(|one| one.median(|slice| slice.others_busy));
    let mut notes = Vec::new();
    if driver >= DRIVER_FULL {
        notes.push(format!(
            "the load was busy to {driver:.2}: requests/s may be its own, CPU is the servers' in any case"
        ));
    }
    if others >= OTHERS {
        notes.push(format!("others kept {others:.2} processors busy meanwhile: measure again when they are idle"));
    }
    notes
}

pub(crate) fn verdicts(verdicts: &[Verdict]) {
    println!("\ntargets: times as fast (1 is as fast, more is faster), with the 95 % interval of the pairs' median");
    let mut last = "";
    for verdict in verdicts {
        if verdict.why != last {
            println!("  {}: {} / {}, {}", verdict.case.name(), verdict.ours, verdict.theirs, verdict.why);
            last = verdict.why;
        }
        let found = match &verdict.found {
            Found::Within(it) => format!("{:.3} ({:.3} to {:.3})", it.median, it.low, it.high),
            Found::Exactly(ratio) => format!("{ratio:.3}"),
        };
        let bound = verdict.at_least.map_or(String::new(), |bound| format!("of {bound:.2}"));
        println!("    {:<24} {found:<24} {bound:<8} {}", verdict.by, verdict.word());
    }
}

pub(crate) fn json(options: &Options, counts: &[Count], all: &[Measured], verdicts: &[Verdict]) -> Value {
    let contender = |name: &str, what: &str| json!({"name": name, "what": what});
    let counts = counts.iter().map(|count| {
        json!({
            "how": count.how.name(),
            "case": count.case.name(),
            "contender": count.contender.name,
            "instructions": count.instructions,
        })
    });
    let sockets = all.iter().map(|one| {
        let slices = one.slices.iter().map(|slice| {
            json!({
                "requests_per_second": slice.rate,
                "cpu_us": slice.cpu,
                "busy": slice.busy,
                "driver_busy": slice.driver_busy,
                "others_busy": slice.others_busy,
            })
        });
        json!({
            "case": one.case.name(),
            "contender": one.contender.name,
            "requests_per_second": one.median(|slice| slice.rate),
            "cpu_us": one.median(|slice| slice.cpu),
            "rounds": slices.collect::<Value>(),
        })
    });
    json!({
        "quick": options.quick,
        "rounds": options.rounds,
        "seconds": options.slice.as_secs_f64(),
        "connections": options.connections,
        "contenders": CONTENDERS.iter().map(|it| contender(it.name, it.what)).collect::<Value>(),
        "instructions": counts.collect::<Value>(),
        "sockets": sockets.collect::<Value>(),
        "notes": notes(all),
        "targets": verdicts.iter().map(verdict_json).collect::<Value>(),
    })
}

fn verdict_json(verdict: &Verdict) -> Value {
    let (ratio, interval, sure) = match &verdict.found {
        Found::Within(it) => (it.median, Some([it.low, it.high]), Some(it.sure)),
        Found::Exactly(ratio) => (*ratio, None, None),
    };
    json!({
        "case": verdict.case.name(),
        "ours": verdict.ours,
        "theirs": verdict.theirs,
        "by": verdict.by,
        "ratio": ratio,
        "interval": interval,
        "sure": sure,
        "at_least": verdict.at_least,
        "verdict": verdict.word(),
        "why": verdict.why,
    })
}
