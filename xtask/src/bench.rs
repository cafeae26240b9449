//! Benchmarks: what a decision costs, and how fast a log is replayed.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::run::{Failure, output, root, run, run_with};

const KERNEL: &str = "target/dist/bench-kernel";
/// Decisions between the two runs whose instructions are compared.
const COUNTED: u64 = 20_000;

/// `cargo xtask bench kernel`: nanoseconds and instructions a decision.
pub(crate) fn kernel() -> Result<(), Failure> {
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        return Err(Failure("valgrind counts the instructions: apt-get install valgrind".to_owned()));
    }
    run("cargo", &["build", "--profile", "dist", "--quiet", "--package", "tollgate-bench"])?;
    let mut nanos = BTreeMap::new();
    println!("\n{:<9} {:>9} {:<8} {:>12} {:>13}", "algorithm", "count", "traffic", "ns/decision", "instructions");
    for line in output(KERNEL, &["time"])?.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let &[algorithm, count, traffic, ns] = words.as_slice() else { continue };
        let instructions = instructions(algorithm, count, traffic)?;
        println!("{algorithm:<9} {count:>9} {traffic:<8} {ns:>12} {instructions:>13}");
        let ns: f64 = ns.parse().unwrap_or(f64::NAN);
        nanos.insert((algorithm.to_owned(), count.to_owned(), traffic.to_owned()), (ns, instructions as f64));
    }
    let cost = |algorithm: &str, count: &str, traffic: &str| {
        let key = (algorithm.to_owned(), count.to_owned(), traffic.to_owned());
        nanos.get(&key).copied().unwrap_or((f64::NAN, f64::NAN))
    };
    let (small, large) = (cost("sliding", "100", "steady"), cost("sliding", "1000000", "steady"));
    println!("\nsliding in steady traffic, a count of 1000000 over one of 100 (at most 1.3):");
    println!("  {:.2} in time, {:.2} in instructions", large.0 / small.0, large.1 / small.1);
    let (low, high) = (cost("sliding", "100", "worst"), cost("sliding", "1000000", "worst"));
    println!("sliding at worst, the same (logarithmic: log2 of 500000 over log2 of 50 is 3.4):");
    println!("  {:.2} in time, {:.2} in instructions", high.0 / low.0, high.1 / low.1);
    println!("gcra on a warm state (at most 25 ns): {:.1} ns", cost("gcra", "100", "steady").0);
    println!("\nlongest single call on a sliding log of a million events, in microseconds (at most 1000):");
    print!("{}", output(KERNEL, &["longest"])?);
    Ok(())
}

/// Instructions a decision, from two runs that differ in nothing but their number.
fn instructions(algorithm: &str, count: &str, traffic: &str) -> Result<u64, Failure> {
    let none = counted(&["run", algorithm, count, traffic, "0"])?;
    let some = counted(&["run", algorithm, count, traffic, &COUNTED.to_string()])?;
    Ok(some.saturating_sub(none) / COUNTED)
}

fn counted(args: &[&str]) -> Result<u64, Failure> {
    let counter = ["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"];
    let output = Command::new("valgrind").args(counter).arg(root().join(KERNEL)).args(args).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let refs = said.lines().find(|line| line.contains("I   refs:")).and_then(|line| line.split_whitespace().last());
    let refs = refs.and_then(|refs| refs.replace(',', "").parse().ok());
    refs.ok_or_else(|| Failure(format!("valgrind counted nothing: {said}")))
}

/// `cargo xtask bench replay`: lines a second under `100/min, 1000/h`, and memory.
pub(crate) fn replay(lines: &str) -> Result<(), Failure> {
    run("cargo", &["build", "--profile", "dist", "--quiet", "--package", "tollgate-cli", "--bins", "--examples"])?;
    let count: f64 = lines.replace('_', "").parse().map_err(|_| Failure("expected a number of lines".to_owned()))?;
    let dir = root().join("target/bench");
    fs::create_dir_all(&dir)?;
    println!("\n{:<22} {:>12} {:>10} {:>12} {:>12}", "traffic", "lines", "seconds", "lines/s", "peak memory");
    for spread in ["uniform", "zipf"] {
        for length in [count / 4.0, count] {
            let file = dir.join(format!("{spread}.jsonl"));
            let made = Command::new(root().join("target/dist/examples/make_log"))
                .args(["json", &format!("{length}"), "100000", spread])
                .stdout(fs::File::create(&file)?)
                .status()?;
            if !made.success() {
                return Err(Failure("make_log failed".to_owned()));
            }
            let started = Instant::now();
            let mut child = Command::new(root().join("target/dist/tollgate"))
                .arg("replay")
                .arg(&file)
                .args(["--policy", "100/min, 1000/h"])
                .stdout(Stdio::null())
                .spawn()?;
            let mut peak = 0;
            while child.try_wait()?.is_none() {
                peak = peak.max(peak_memory(child.id()).unwrap_or(0));
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            let seconds = started.elapsed().as_secs_f64();
            println!("{spread:<22} {length:>12} {seconds:>10.2} {:>12.0} {:>9} MB", length / seconds, peak / 1_000);
            fs::remove_file(file)?;
        }
        std::io::stdout().flush()?;
    }
    Ok(())
}

/// Where the peers are built: they are no dependencies of the project.
const PEERS: [(&str, &str); 1] = [("CARGO_TARGET_DIR", "target/bench-peers")];

/// `cargo xtask bench embedded`: the store beside its peers, in one run on the same keys.
pub(crate) fn embedded(args: &[&str]) -> Result<(), Failure> {
    let mut all = vec!["run", "--release", "--quiet", "--manifest-path", "bench/peers/Cargo.toml", "--"];
    all.extend(args);
    run_with("cargo", &all, &PEERS)
}

/// `cargo xtask bench tower`: the layer beside tower_governor's and the bare handler.
pub(crate) fn tower(args: &[&str]) -> Result<(), Failure> {
    let package = ["--manifest-path", "bench/peers/Cargo.toml", "--package", "tollgate-tower-peers"];
    run_with("cargo", &[["run", "--release", "--quiet"].as_slice(), &package, &["--"], args].concat(), &PEERS)
}

/// `cargo xtask bench redis`: what a call costs inside one redis-server.
pub(crate) fn redis(args: &[&str]) -> Result<(), Failure> {
    let mut all =
        vec!["run", "--profile", "dist", "--quiet", "--package", "tollgate-bench", "--bin", "bench-redis", "--"];
    all.extend(args);
    run("cargo", &all)
}

/// The version of throttlecrab-server that is compared, and where it and its helper are kept.
const THROTTLECRAB: &str = "0.4.40";
const THROTTLECRAB_HOME: &str = "target/bench-peers/throttlecrab";
const NODELAY: &str = "target/bench-peers/nodelay.so";

/// `cargo xtask bench server`: Tollgate beside redis-server and throttlecrab-server, under the same load.
pub(crate) fn server(args: &[&str]) -> Result<(), Failure> {
    run("cargo", &["build", "--profile", "dist", "--quiet", "--package", "tollgate-bench", "--bin", "bench-server"])?;
    let only = args.iter().skip_while(|&&word| word != "--only").nth(1);
    let wants = |names: &str| only.is_none_or(|word| names.contains(word));
    let mut all: Vec<String> = args.iter().map(|&word| word.to_owned()).collect();
    let mut give = |flag: &str, path: &str| all.extend([flag.to_owned(), root().join(path).display().to_string()]);
    if wants("tollgate 100/min gcra, journal") {
        run("cargo", &["build", "--profile", "dist", "--quiet", "--package", "tollgate-cli", "--bin", "tollgate"])?;
        give("--tollgate", "target/dist/tollgate");
    }
    if wants("throttlecrab as shipped") || wants("throttlecrab TCP_NODELAY") {
        throttlecrab()?;
        give("--throttlecrab", &format!("{THROTTLECRAB_HOME}/bin/throttlecrab-server"));
        if nodelay()? {
            give("--nodelay", NODELAY);
        }
    }
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    run("target/dist/bench-server", &all)
}

/// throttlecrab-server from the package registry, built as its users build it, unless it is there.
fn throttlecrab() -> Result<(), Failure> {
    let installed = fs::read_to_string(root().join(THROTTLECRAB_HOME).join(".crates.toml")).unwrap_or_default();
    if installed.contains(&format!("throttlecrab-server {THROTTLECRAB} ")) {
        println!("throttlecrab-server {THROTTLECRAB} is there");
        return Ok(());
    }
    println!("throttlecrab-server {THROTTLECRAB} is missing: installing it into {THROTTLECRAB_HOME}, some minutes");
    if !answers("protoc") {
        println!("it is built with protoc, which is missing: package protobuf-compiler");
        run("apt-get", &["install", "-y", "--no-install-recommends", "--quiet", "protobuf-compiler"])
            .map_err(|failure| Failure(format!("{failure}; throttlecrab-server needs protoc to build")))?;
    }
    let build = format!("{THROTTLECRAB_HOME}/build");
    // A build that failed for want of protoc is not tried again by cargo.
    let _ = fs::remove_dir_all(root().join(&build));
    let package = ["throttlecrab-server", "--locked", "--version", THROTTLECRAB];
    let args = [["install", "--quiet"].as_slice(), &package, &["--root", THROTTLECRAB_HOME]].concat();
    run_with("cargo", &args, &[("CARGO_TARGET_DIR", &build)])
}

/// Builds what forces TCP_NODELAY on a server; whether it could be built.
fn nodelay() -> Result<bool, Failure> {
    if !answers("cc") {
        println!("there is no C compiler (cc): throttlecrab-server is measured as shipped only");
        return Ok(false);
    }
    let flags = ["-shared", "-fPIC", "-O2", "-Wall", "-o", NODELAY];
    run("cc", &[flags.as_slice(), &["bench/peers/nodelay.c", "-ldl"]].concat())?;
    Ok(true)
}

fn answers(program: &str) -> bool {
    let status = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// The comparison still builds.
pub(crate) fn check_peers() -> Result<(), Failure> {
    run_with("cargo", &["fmt", "--manifest-path", "bench/peers/Cargo.toml", "--all", "--check"], &PEERS)?;
    let args = ["clippy", "--quiet", "--locked", "--manifest-path", "bench/peers/Cargo.toml", "--workspace"];
    run_with("cargo", &[args.as_slice(), &["--", "-D", "warnings"]].concat(), &PEERS)
}

/// `cargo xtask bench algorithms`: what each costs in the embedded store.
pub(crate) fn algorithms() -> Result<(), Failure> {
    run("cargo", &["run", "--profile", "dist", "--quiet", "--package", "tollgate-bench", "--bin", "bench-memory"])
}

/// The most memory a process has taken so far, in kilobytes.
fn peak_memory(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
