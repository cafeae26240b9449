//! The documents' examples, run: every `console` block of the README and the guides.
//!
//! A line `$ tollgate …` is run in the root; the lines below it, up to the next command, must be
//! what it prints, to the letter.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::run::{Failure, root};

/// One command of a document and what it is said to print.
struct Example {
    place: String,
    command: String,
    printed: String,
}

pub(crate) fn guides() -> Result<(), Failure> {
    let mut examples = Vec::new();
    for file in documents()? {
        examples.extend(read(&file)?);
    }
    for example in &examples {
        check(example)?;
    }
    println!("guides: {} commands print what the documents say", examples.len());
    if examples.is_empty() { Err(Failure("no document has an example".to_owned())) } else { Ok(()) }
}

fn documents() -> Result<Vec<PathBuf>, Failure> {
    let mut files = vec![root().join("README.md")];
    for entry in fs::read_dir(root().join("docs"))?.chain(fs::read_dir(root().join("docs/tower"))?) {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn read(file: &PathBuf) -> Result<Vec<Example>, Failure> {
    let mut examples: Vec<Example> = Vec::new();
    let mut inside = false;
    for (number, line) in fs::read_to_string(file)?.lines().enumerate() {
        if line.starts_with("```") {
            inside = line == "```console";
        } else if let (true, Some(command)) = (inside, line.strip_prefix("$ tollgate ")) {
            let place = format!("{}:{}", file.file_name().unwrap_or_default().to_string_lossy(), number + 1);
            examples.push(Example { place, command: command.to_owned(), printed: String::new() });
        } else if inside {
            let Some(example) = examples.last_mut() else {
                return Err(Failure(format!("{}:{}: expected a command: {line}", file.display(), number + 1)));
            };
            example.printed += line;
            example.printed.push('\n');
        }
    }
    Ok(examples)
}

fn check(example: &Example) -> Result<(), Failure> {
    let program = root().join("target/debug/tollgate");
    // A shell reads the quotes as a reader's would; standard error is part of what one sees.
    let script = format!("{} {} 2>&1", program.display(), example.command);
    let output = Command::new("sh").args(["-c", &script]).current_dir(root()).output()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    if printed.trim_end() == example.printed.trim_end() {
        return Ok(());
    }
    Err(Failure(format!(
        "{}: $ tollgate {}\n--- the document says\n{}\n--- it prints\n{printed}",
        example.place, example.command, example.printed
    )))
}
