//! `cargo xtask`: everything this repository does, one command each.

mod bench;
mod clients;
mod dropin;
mod gate;
mod guides;
mod install;
mod mutants;
mod names;
mod outsiders;
mod run;
mod steps;
mod tree;

use std::process::ExitCode;

use run::{Failure, run, run_with};

const HELP: &str = "\
cargo xtask COMMAND

  test                 all tests: format, lints, unit tests, laws, vectors, models, mutants, examples, guides
  laws [ARGS]          the laws alone, e.g. cargo xtask laws --cases 1_000_000
  fuzz policy [N]      N random texts into the policy parser (10 million)
  fuzz resp [N]        N random and harmed pipelines into the server's decoder, a tenth into connections (10 million)
  fuzz config [N]      N policy files with random harm into their reader (1 million)
  schema               the policy file's schema against its examples, by a validator that is not ours
  mutants [WORD]       the kernel broken on purpose: every mutant (with WORD) must be caught
  traces [ARGS]        random traces through kernel, Lua script and Lua function (1 million operations)
  lua-faults [WORD]    the Lua broken on purpose: a trace must find every fault (with WORD)
  conformance URL      vectors and traces against a Redis or Valkey of yours; its other keys stay as they are
  valkey               the same against a Valkey server, fetched if there is none
  torture [ARGS]       crowds, clusters, cut connections, outages and clocks against the Redis store;
                       torture connections: hostile ones against the server; torture kills, damage, reloads:
                       a server that is killed or loses its power, finds its files damaged, or its policies changed;
                       torture attack: callers that mean harm and an operator with bad luck, beside honest callers
                       (--minutes N, --memory LIST, --only WORDS, --seed S)
  permits [N]          N requests that hold permits in Redis, cancelled, panicking and killed (100,000)
  clients              the guides' commands and clients of other languages, against a server
  schemathesis [N]     schemathesis against the server's OpenAPI document, N examples an operation (100)
  outsiders            redis-cli, redis-benchmark, redis-py and ioredis as they are, against our server
  dropin [WORD]        clients of the five limiters, written after their documents, against redis-server and our server
                       in every way to run it (--short, or those with WORD in the name of home, program or library)
  install              what the tests need from the machine, installed
  models [N]           every interleaving of slots and shards, and N random schedules of the store (100,000)
  campaign [ARGS]      threads against the embedded store, every interval checked (100 million operations)
  hostile [ARGS]       50 million distinct keys against a cap of 256 MB
  guides               the documents' examples, run
  bench kernel         nanoseconds and instructions a decision (needs valgrind)
  bench replay [N]     lines a second over N lines of 100,000 keys (10 million)
  bench embedded [..]  the embedded store beside its peers: nanoseconds, ratios, bytes, pauses
  bench redis [..]     calls inside a redis-server: CPU against an empty script, logs, bytes (--quick, --only WORD)
  bench server [..]    Tollgate, redis-server and throttlecrab-server under one load (--quick, --only WORD, --json)
  bench tower [..]     the layer, tower_governor's and the bare handler: instructions (needs valgrind), requests/s, CPU
                       (--quick, --only instructions|sockets, --rounds N, --seconds S, --json)
  bench algorithms     nanoseconds a check and bytes a key of each algorithm
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["test"] => steps::test(),
        ["laws", args @ ..] => laws(args),
        ["fuzz", "policy"] => laws(&["--fuzz", "10_000_000"]),
        ["fuzz", "policy", cases] => laws(&["--fuzz", cases]),
        ["fuzz", "resp"] => fuzz_resp("10_000_000"),
        ["fuzz", "resp", inputs] => fuzz_resp(inputs),
        ["fuzz", "config"] => fuzz_config("1_000_000"),
        ["fuzz", "config", inputs] => fuzz_config(inputs),
        ["schema"] => schema(),
        ["mutants"] => mutants::mutants(""),
        ["mutants", word] => mutants::mutants(word),
        ["traces", args @ ..] => tool("traces", args),
        ["lua-faults", args @ ..] => tool("lua-faults", args),
        ["conformance", url] => conformance(url),
        ["valkey"] => valkey(),
        ["torture", args @ ..] => torture(args),
        ["permits"] => permits("100000"),
        ["permits", requests] => permits(requests),
        ["clients"] => build_and_clients(),
        ["schemathesis"] => gate::schemathesis("100"),
        ["schemathesis", examples] => gate::schemathesis(examples),
        ["outsiders"] => build_and_outsiders(),
        ["dropin", args @ ..] => build_and_dropin(args),
        ["install"] => install::install(),
        ["models"] => models("100000"),
        ["models", schedules] => models(schedules),
        ["campaign"] => tool("campaign", &["--operations", "100_000_000"]),
        ["campaign", args @ ..] => tool("campaign", args),
        ["hostile", args @ ..] => tool("hostile", args),
        ["guides"] => build_and_guide(),
        ["bench", "kernel"] => bench::kernel(),
        ["bench", "replay"] => bench::replay("10_000_000"),
        ["bench", "replay", lines] => bench::replay(lines),
        ["bench", "embedded", args @ ..] => bench::embedded(args),
        ["bench", "redis", args @ ..] => bench::redis(args),
        ["bench", "server", args @ ..] => bench::server(args),
        ["bench", "tower", args @ ..] => bench::tower(args),
        ["bench", "algorithms"] => bench::algorithms(),
        _ => {
            eprint!("{HELP}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// As the tests run it, with more inputs: every check is on, and what overflows is a panic.
fn fuzz_resp(inputs: &str) -> Result<(), Failure> {
    let args = ["test", "--quiet", "--package", "tollgate-daemon", "--lib", "fuzz", "--", "--nocapture"];
    run_with("cargo", &args, &[("TOLLGATE_FUZZ", inputs)])
}

/// As the tests run it, with more inputs.
fn fuzz_config(inputs: &str) -> Result<(), Failure> {
    let args =
        ["test", "--quiet", "--package", "tollgate-config", "--test", "policy_file", "fuzz", "--", "--nocapture"];
    run_with("cargo", &args, &[("TOLLGATE_FUZZ", inputs)])
}

/// As the tests run it, with more requests.
fn permits(requests: &str) -> Result<(), Failure> {
    let args = [
        "test",
        "--package",
        "tollgate-permits",
        "--all-features",
        "--test",
        "installed",
        "storm",
        "--",
        "--nocapture",
    ];
    run_with("cargo", &args, &[("TOLLGATE_PERMITS", requests)])
}

/// Good examples are valid by the schema, bad ones are not as far as a schema can see.
pub(crate) fn schema() -> Result<(), Failure> {
    let python = install::jsonschema()?.display().to_string();
    run(&python, &["server/config/tests/schema.py"])
}

/// The model checkers need the store built with their atomics.
pub(crate) fn models(schedules: &str) -> Result<(), Failure> {
    let test = |flag: &str, tests: &str| {
        let flags = format!("--cfg {flag}");
        let set =
            [("RUSTFLAGS", flags.as_str()), ("TOLLGATE_SCHEDULES", schedules), ("CARGO_TARGET_DIR", "target/models")];
        run_with("cargo", &["test", "--quiet", "--package", "tollgate-memory", "--lib", tests], &set)
    };
    test("tollgate_loom", "models")?;
    test("tollgate_shuttle", "schedules")
}

/// A program of conformance, built for speed.
fn tool(name: &str, args: &[&str]) -> Result<(), Failure> {
    let mut all = vec!["run", "--release", "--quiet", "--package", "tollgate-conformance", "--bin", name, "--"];
    all.extend(args);
    run("cargo", &all)
}

/// Vectors and traces against a server that is not ours.
fn conformance(url: &str) -> Result<(), Failure> {
    conformance_with(&[("TOLLGATE_CONFORMANCE_URL", url)])
}

fn conformance_with(set: &[(&str, &str)]) -> Result<(), Failure> {
    let program = ["run", "--release", "--quiet", "--package", "tollgate-conformance", "--bin"];
    for home in ["script", "function"] {
        let mut args = [&program[..], &["vectors", "--", "--home", home, "--check"]].concat();
        let files = vectors()?;
        args.extend(files.iter().map(String::as_str));
        run_with("cargo", &args, set)?;
    }
    run_with("cargo", &[&program[..], &["traces", "--", "--operations", "100_000"]].concat(), set)
}

fn vectors() -> Result<Vec<String>, Failure> {
    let mut files = Vec::new();
    for file in std::fs::read_dir(run::root().join("tests/conformance/vectors"))? {
        let path = file?.path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            files.push(path.display().to_string());
        }
    }
    files.sort();
    Ok(files)
}

/// The homes in Redis on a Valkey server.
fn valkey() -> Result<(), Failure> {
    let path = run::output("cargo", &["run", "--quiet", "--package", "tollgate-kit", "--example", "valkey"])?;
    conformance_with(&[("TOLLGATE_REDIS_SERVER", path.trim())])
}

/// Campaigns against a server process of Tollgate's.
const OF_SERVERS: [&str; 5] = ["connections", "kills", "damage", "reloads", "attack"];

fn torture(args: &[&str]) -> Result<(), Failure> {
    let mut all = vec!["run", "--release", "--quiet", "--package", "tollgate-stress", "--"];
    all.extend(args);
    if !args.first().is_some_and(|campaign| OF_SERVERS.contains(campaign)) {
        return run("cargo", &all);
    }
    // The server as it is installed.
    run("cargo", &["build", "--release", "--quiet", "--package", "tollgate-cli", "--bin", "tollgate"])?;
    let tollgate = run::root().join("target/release/tollgate").display().to_string();
    run_with("cargo", &all, &[("TOLLGATE_BIN", &tollgate)])
}

/// Every example program runs to its end.
pub(crate) fn examples() -> Result<(), Failure> {
    for folder in ["lib/tollgate/examples", "lib/tower/examples"] {
        for file in std::fs::read_dir(run::root().join(folder))? {
            let file = file?.path();
            // A folder without a program is what several of them share.
            let program = file.is_file() || file.join("main.rs").is_file();
            let Some(name) = file.file_stem().and_then(|name| name.to_str()).filter(|_| program) else { continue };
            run(&example(name), &[])?;
        }
    }
    plot()
}

fn example(name: &str) -> String {
    run::root().join("target/debug/examples").join(name).display().to_string()
}

/// Programs and examples as the tests built them: one package by itself has other features, and is built anew with all
/// it depends on.
fn build() -> Result<(), Failure> {
    run("cargo", &["build", "--quiet", "--workspace", "--bins", "--examples"])
}

/// The plot in the guide is the one that its example draws, in words and as a picture.
fn plot() -> Result<(), Failure> {
    let (drawn, guide) = ("target/bursts.svg", run::root().join("docs"));
    let text = run::output(&example("bursts"), &["--svg", drawn])?;
    let same = std::fs::read(run::root().join(drawn))? == std::fs::read(guide.join("bursts.svg"))?;
    let told = std::fs::read_to_string(guide.join("algorithms.md"))?.contains(text.trim());
    if same && told {
        return Ok(());
    }
    Err(Failure("docs/bursts.svg or its text differs: cargo run --example bursts -- --svg docs/bursts.svg".to_owned()))
}

fn build_and_guide() -> Result<(), Failure> {
    build()?;
    guides::guides()
}

fn build_and_clients() -> Result<(), Failure> {
    build()?;
    clients::clients()
}

fn build_and_outsiders() -> Result<(), Failure> {
    build()?;
    outsiders::outsiders()
}

fn build_and_dropin(args: &[&str]) -> Result<(), Failure> {
    build()?;
    dropin::dropin(args)
}

fn laws(args: &[&str]) -> Result<(), Failure> {
    let mut all = vec!["run", "--release", "--quiet", "--package", "tollgate-laws", "--"];
    all.extend(args);
    run("cargo", &all)
}
