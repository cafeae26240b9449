//! `vectors --home NAME`: the line protocol of `vectors/README.md` on standard input and output.

use std::io::{self, Write};
use std::process::ExitCode;

use tollgate_conformance::{Adapter, HOMES, HomeInfo, Tally, home, play};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
    let command = match read(&args) {
        Ok(command) => command,
        Err(message) => {
            let _ = writeln!(io::stderr(), "vectors: {message}");
            return ExitCode::from(2);
        }
    };
    let done = match command {
        Command::Help => write!(io::stdout(), "{}", help()).map(|()| true),
        Command::Serve(listed) => serve(listed).map(|()| true),
        Command::Check(listed, files) => check(listed, &files),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        // Whoever read the answers has gone.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "vectors: {error}");
            ExitCode::from(2)
        }
    }
}

enum Command {
    Help,
    Serve(&'static HomeInfo),
    Check(&'static HomeInfo, Vec<String>),
}

fn help() -> String {
    let mut text = "\
vectors [--home NAME] [--check FILE...]

Reads a line of a vector file on standard input and answers it on standard output, until the
input ends. Reasons for errors go to standard error.

  --home NAME       who answers (default: kernel)
  --check FILE...   play these files instead and print what is right, wrong and missing
  --help            this text

homes:
"
    .to_owned();
    for listed in HOMES {
        text += &format!("  {:<16}  {}\n", listed.name, listed.about);
    }
    text
}

fn read(args: &[String]) -> Result<Command, String> {
    let mut listed = HOMES.first().ok_or("there are no homes")?;
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--help" | "-h" => return Ok(Command::Help),
            "--home" => {
                let name = rest.next().ok_or("--home: expected a name")?;
                listed = home(name).ok_or_else(|| {
                    let names: Vec<_> = HOMES.iter().map(|listed| listed.name).collect();
                    format!("--home: expected one of {}, found {name:?}", names.join(", "))
                })?;
            }
            "--check" => {
                let files: Vec<String> = rest.cloned().collect();
                if files.is_empty() {
                    return Err("--check: expected files".to_owned());
                }
                return Ok(Command::Check(listed, files));
            }
            other => return Err(format!("unknown argument {other:?}; see --help")),
        }
    }
    Ok(Command::Serve(listed))
}

fn open(listed: &HomeInfo) -> io::Result<Adapter> {
    (listed.open)().map(Adapter::new).map_err(|refusal| io::Error::other(format!("{}: {refusal}", listed.name)))
}

fn serve(listed: &HomeInfo) -> io::Result<()> {
    open(listed)?.serve(io::stdin().lock(), io::stdout().lock(), io::stderr())
}

fn check(listed: &HomeInfo, files: &[String]) -> io::Result<bool> {
    let mut adapter = open(listed)?;
    let mut out = io::stdout().lock();
    let mut all = Tally::default();
    for file in files {
        let text = std::fs::read_to_string(file).map_err(|error| io::Error::other(format!("{file}: {error}")))?;
        let tally = play(&text, |line| Some(adapter.answer(line.as_bytes()).0.to_string()));
        let tally = tally.map_err(|error| io::Error::other(format!("{file}: {error}")))?;
        writeln!(out, "{file}: {tally}")?;
        all.add(tally);
    }
    for complaint in &all.complaints {
        writeln!(out, "  {complaint}")?;
    }
    writeln!(out, "in all: {all}")?;
    Ok(all.is_clean())
}
