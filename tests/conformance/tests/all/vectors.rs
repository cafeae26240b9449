//! All vectors through the homes in this process, and through the built program.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use tollgate_conformance::{Adapter, HOMES, LIMITERS, Tally, home, play};

fn files() -> Vec<(String, String)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("vectors");
    let mut files: Vec<PathBuf> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "jsonl"));
    files.sort();
    let read = |file: PathBuf| {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        (name, std::fs::read_to_string(file).unwrap())
    };
    files.into_iter().map(read).collect()
}

fn play_all(mut ask: impl FnMut(&str) -> Option<String>) -> Tally {
    let mut all = Tally::default();
    for (name, text) in files() {
        let tally = play(&text, &mut ask).unwrap();
        println!("{name}: {tally}");
        all.add(tally);
    }
    println!("in all: {all}");
    all
}

fn in_process() -> Tally {
    played_by("kernel")
}

fn played_by(name: &str) -> Tally {
    let mut adapter = Adapter::new((home(name).unwrap().open)().unwrap());
    play_all(|line| Some(adapter.answer(line.as_bytes()).0.to_string()))
}

#[test]
fn the_kernel_answers_every_vector() {
    let all = in_process();
    assert!(all.is_clean(), "{all}\n{}", all.complaints.join("\n"));
    assert_eq!((all.wrong, all.missing), (0, 0));
    // Nothing was left out on the way.
    assert_eq!(files().len(), 12);
    let lines: usize = files().iter().map(|(_, text)| text.lines().count()).sum();
    assert_eq!(all.scenarios + all.operations + all.unjudged, lines as u64);
    assert_eq!((all.scenarios, all.operations), (174, 7_141));
    // Costs stop at 2^53 - 1, and a leaky bucket at what leaks out in ten years.
    assert_eq!((all.big, all.big_refused, all.unjudged), (10, 5, 175));
}

#[test]
fn the_embedded_store_answers_every_vector_as_the_kernel_does() {
    let (kernel, memory) = (played_by("kernel"), played_by("memory"));
    assert!(memory.is_clean(), "{memory}\n{}", memory.complaints.join("\n"));
    assert_eq!(memory.to_string(), kernel.to_string());
}

#[test]
fn the_server_answers_every_vector_as_the_kernel_does() {
    let (kernel, server) = (played_by("kernel"), played_by("server"));
    assert!(server.is_clean(), "{server}\n{}", server.complaints.join("\n"));
    assert_eq!((server.wrong, server.missing, server.scenarios), (0, 0, kernel.scenarios));
    // One more is refused: a policy of the vectors that has no text.
    assert_eq!((server.big, server.big_refused), (kernel.big, kernel.big_refused + 1));
}

#[test]
fn every_limiter_of_the_vectors_is_listed_and_played() {
    let mut played: Vec<String> = Vec::new();
    for (_, text) in files() {
        for line in text.lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            played.extend(line.get("limiter").map(|limiter| limiter.as_str().unwrap().to_owned()));
        }
    }
    played.sort();
    played.dedup();
    let mut listed: Vec<_> = LIMITERS.iter().map(|limiter| limiter.name()).collect();
    listed.sort_unstable();
    assert_eq!(played, listed);
}

/// The program with its pipes; ended by closing its input.
struct Program {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Program {
    fn start(args: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_vectors"))
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, input, output }
    }

    /// One line and its answer, which must come before the next line is sent.
    fn ask(&mut self, line: &str) -> Option<String> {
        writeln!(self.input.as_mut()?, "{line}").ok()?;
        let mut answer = String::new();
        let read = self.output.read_line(&mut answer).ok()?;
        (read > 0 && answer.ends_with('\n')).then_some(answer)
    }

    /// Closes the input; the rest of the output and the exit code.
    fn end(mut self) -> (String, Option<i32>) {
        drop(self.input.take());
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.output, &mut rest).unwrap();
        (rest, self.child.wait().unwrap().code())
    }
}

#[test]
fn the_program_gives_the_same_over_pipes() {
    let mut program = Program::start(&["--home", "kernel"]);
    let piped = play_all(|line| program.ask(line));
    assert_eq!(piped, in_process());
    assert_eq!(program.end(), (String::new(), Some(0)));
}

#[test]
fn every_line_is_answered_by_a_line_whatever_it_is() {
    let mut program = Program::start(&[]);
    let error = "{\"error\":true}\n";
    for line in [
        "",
        "nonsense",
        "[]",
        "{}",
        r#"{"t": 1, "key": "k"}"#,
        r#"{"scenario": "x", "limiter": "none", "policy": {}}"#,
        r#"{"scenario": "x", "limiter": "gcra", "policy": {"limit": 1}}"#,
    ] {
        assert_eq!(program.ask(line).as_deref(), Some(error), "{line}");
    }
    let open =
        r#"{"scenario": "x", "limiter": "gcra", "policy": {"limit": 1, "period_s": 1, "burst": 0}, "t_unit": "us"}"#;
    assert_eq!(program.ask(open).as_deref(), Some("{}\n"));
    let answer = program.ask(r#"{"t": 1700000000000000, "key": "k"}"#).unwrap();
    assert!(answer.contains("\"allowed\":true"), "{answer}");
    // A refused scenario is no scenario: the one before it is over.
    assert_eq!(program.ask(r#"{"scenario": "x", "limiter": "gcra", "policy": {}}"#).as_deref(), Some(error));
    assert_eq!(program.ask(r#"{"t": 1700000000000000, "key": "k"}"#).as_deref(), Some(error));
    assert_eq!(program.end(), (String::new(), Some(0)));
}

#[test]
fn a_scenario_begins_with_fresh_state() {
    let mut program = Program::start(&[]);
    let open =
        r#"{"scenario": "x", "limiter": "plug_fixed_window", "policy": {"limit": 1, "window_s": 9}, "t_unit": "ms"}"#;
    for _ in 0..2 {
        program.ask(open);
        let answers: Vec<_> =
            (0..2).map(|_| program.ask(r#"{"t": 1700000000000, "key": "k", "n": 1}"#).unwrap()).collect();
        assert!(answers[0].contains("allow") && answers[1].contains("block"), "{answers:?}");
    }
}

fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_vectors")).args(args).stdin(Stdio::null()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn wrong_arguments_are_told_with_what_is_right() {
    let (code, out, err) = run(&["--home", "moon"]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert_eq!(
        err,
        "vectors: --home: expected one of kernel, memory, script, function, server, server-store, found \"moon\"\n"
    );
    assert_eq!(run(&["--home"]).2, "vectors: --home: expected a name\n");
    assert_eq!(run(&["--check"]).2, "vectors: --check: expected files\n");
    assert_eq!(run(&["--frob"]).2, "vectors: unknown argument \"--frob\"; see --help\n");
    let (code, help, _) = run(&["--help"]);
    assert_eq!(code, Some(0));
    assert!(HOMES.iter().all(|listed| help.contains(listed.about)), "{help}");
}

#[test]
fn check_prints_the_counts_and_tells_by_its_exit() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/vectors/redis_limiter.jsonl");
    let (code, out, _) = run(&["--home", "kernel", "--check", file]);
    assert_eq!(code, Some(0));
    assert!(out.contains("679 operations judged; 694 right, 0 wrong, 0 missing"), "{out}");
    let bad = std::env::temp_dir().join(format!("tollgate-vectors-{}.jsonl", std::process::id()));
    let text = std::fs::read_to_string(file).unwrap().replace("\"count\": 2", "\"count\": 3");
    std::fs::write(&bad, text).unwrap();
    let (code, out, _) = run(&["--check", bad.to_str().unwrap()]);
    std::fs::remove_file(&bad).unwrap();
    assert_eq!(code, Some(1));
    assert!(out.contains("count: expected 3, found 2"), "{out}");
}
