//! What a comparison prints: tables for people, JSON for programs.

use serde_json::{Value, json};

use crate::args::Options;
use crate::child::Figures;
use crate::contenders::{BASELINES, Contender};
use crate::measure::{THREADS, Times};
use crate::workload::Workload;
use crate::{bytes as count, stall};

pub(crate) fn head(contenders: &[&Contender], options: &Options) {
    if options.quick {
        println!("Quick: a twentieth of the keys and checks. The figures say nothing.");
    }
    for contender in contenders {
        println!("{:<16} {:<8} {}", contender.name, version(contender).unwrap_or("-"), contender.what);
    }
    println!("\nns: nanoseconds a check and thread, median of {}.", options.repeats);
    println!("x str, x inline: times as fast as {} and {}.", BASELINES[0], BASELINES[1]);
}

pub(crate) fn times(workload: &Workload, all: &[Times]) {
    println!("\n{}: {} (keys {}, checks a thread {})", workload.name, workload.what, workload.keys, workload.checks);
    println!("{:<16} {:>26} {:>27}", "", "one thread", "two threads");
    let columns = format!("{:>9} {:>7} {:>8}", "ns", "x str", "x inline");
    println!("{:<16} {columns}  {columns} {:>9}", "", "allowed");
    for times in all {
        print!("{:<16}", times.contender.name);
        for threads in 1..=THREADS {
            print!(" {:>9.1}", times.median(threads));
            for (baseline, width) in BASELINES.iter().zip([7, 8]) {
                print!(" {:>width$}", faster(times, baseline, threads, all));
            }
            print!(" ");
        }
        println!("{:>8.1}%", 100.0 * times.allowed);
    }
}

/// How many times as fast as a contender that may not take part.
fn faster(times: &Times, baseline: &str, threads: usize, all: &[Times]) -> String {
    match all.iter().find(|times| times.contender.name == baseline) {
        Some(baseline) => format!("{:.2}", baseline.median(threads) / times.median(threads)),
        None => "-".to_owned(),
    }
}

pub(crate) fn bytes(all: &[Figures]) {
    println!("\nbytes: resident bytes a key, in a process of its own");
    println!("{:<16} {:>10} {:>10} {:>15}", "", "keys", "bytes", "at their peak");
    for figures in all {
        let (now, peak) = (figures.get(count::NOW), figures.get(count::PEAK));
        println!("{:<16} {:>10} {now:>10.1} {peak:>15.1}", figures.contender.name, figures.keys);
    }
}

pub(crate) fn stalls(all: &[Figures]) {
    println!("\nstall: single calls while keys come, and as long of nothing but reading the clock");
    println!(
        "{:<16} {:>10} {:>12} {:>10} {:>14} {:>10}",
        "", "keys", "longest us", "over 1 ms", "clock longest", "over 1 ms"
    );
    for figures in all {
        let (longest, over) = (figures.get(stall::LONGEST_FIELD), figures.get(stall::OVER));
        let (clock_longest, clock_over) = (figures.get(stall::CLOCK_LONGEST), figures.get(stall::CLOCK_OVER));
        print!("{:<16} {:>10} {longest:>12.1} {over:>10}", figures.contender.name, figures.keys);
        println!(" {clock_longest:>14.1} {clock_over:>10}");
    }
}

pub(crate) fn contenders_json(contenders: &[&Contender]) -> Value {
    let list = contenders.iter().map(|contender| {
        json!({
            "name": contender.name,
            "package": contender.package,
            "version": version(contender),
            "what": contender.what,
        })
    });
    list.collect()
}

pub(crate) fn times_json(workload: &Workload, all: &[Times]) -> Value {
    let results = all.iter().map(|times| {
        let threads = (1..=THREADS).map(
            |threads| json!({"threads": threads, "median_ns": times.median(threads), "ns": times.nanos[threads - 1]}),
        );
        json!({
            "contender": times.contender.name,
            "checks": workload.checks / times.contender.slow as u64,
            "times": threads.collect::<Value>(),
            "allowed": times.allowed,
        })
    });
    json!({
        "name": workload.name,
        "what": workload.what,
        "keys": workload.keys,
        "limit": format!("{}/{}s", workload.limit.count, workload.limit.seconds),
        "results": results.collect::<Value>(),
    })
}

pub(crate) fn figures_json(all: &[Figures]) -> Value {
    let list = all.iter().map(|figures| {
        let mut object = json!({"contender": figures.contender.name, "keys": figures.keys});
        for (name, number) in figures.numbers() {
            object[name] = json!(number);
        }
        object
    });
    list.collect()
}

/// The version of a contender's package that was built, from the lock file.
fn version(contender: &Contender) -> Option<&'static str> {
    let name = format!("name = \"{}\"", contender.package?);
    let mut lines = include_str!("../Cargo.lock").lines().skip_while(|line| *line != name);
    lines.nth(1)?.strip_prefix("version = \"")?.strip_suffix('"')
}
