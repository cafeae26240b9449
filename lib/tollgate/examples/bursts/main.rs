//! What each algorithm admits of the same traffic: a quiet client, a burst on either side of a full
//! minute, then a client that asks twice as often as it may.
//!
//! `cargo run --example bursts` prints it; `--svg FILE` also draws it. The clock is set by hand, so
//! both are the same every time. The traffic is in `traffic.rs`, the drawings are in `text.rs` and
//! `svg.rs`.

mod svg;
mod text;
mod traffic;

use std::error::Error;

use tollgate::Micros;
use traffic::{MINUTE, Run, policies};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let file = match words.as_slice() {
        [] => None,
        ["--svg", file] => Some(*file),
        _ => return Err("usage: bursts [--svg FILE]".into()),
    };

    let runs: Vec<Run> = policies().iter().map(|text| Run::of(text)).collect::<Result<_, _>>()?;
    for run in &runs {
        let promised = run.policy.limits()[0].rule().most_in(Micros::new(MINUTE));
        assert!(run.in_fullest_minute() <= promised, "{} admits more than it promises", run.policy);
    }
    print!("{}", text::plot(&runs));
    if let Some(file) = file {
        std::fs::write(file, svg::plot(&runs))?;
    }
    Ok(())
}
