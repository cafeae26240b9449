//! Makes logs to replay, the same on every machine.
//!
//! `cargo run --example make_log access > examples/access_log.txt` makes the example log of the
//! repository; `make_log json LINES KEYS [zipf] [us]` makes JSON Lines of any length for
//! measuring: keys evenly spread or by Zipf's law, times in seconds or whole microseconds.

mod access;
mod dice;
mod json;

use std::io::{self, BufWriter, ErrorKind, Write};
use std::process::ExitCode;

const USAGE: &str = "usage: make_log access | make_log json LINES KEYS [zipf] [us]";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let written = match words.as_slice() {
        ["access"] => out.write_all(access::log().as_bytes()),
        ["json", lines, keys, options @ ..] => match (lines.parse(), keys.parse()) {
            (Ok(lines), Ok(keys)) if keys > 0 => {
                let even = !options.contains(&"zipf");
                let unit = if options.contains(&"us") { json::Unit::Micros } else { json::Unit::Seconds };
                json::write(&mut out, lines, &json::Keys::new(keys, even), unit)
            }
            _ => return usage(),
        },
        _ => return usage(),
    };
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
        _ => ExitCode::SUCCESS,
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}
