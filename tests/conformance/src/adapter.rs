//! The line protocol: one JSON line in, one JSON line out.

use std::io::{self, BufRead, Write};

use serde_json::{Value, json};

use crate::home::{Home, Refusal};
use crate::line::Line;

/// Answers lines for a home.
pub struct Adapter {
    home: Box<dyn Home>,
}

impl Adapter {
    /// An adapter for `home`.
    pub fn new(home: Box<dyn Home>) -> Self {
        Self { home }
    }

    /// The answer to one line, and the reason if it is an error.
    pub fn answer(&mut self, line: &[u8]) -> (Value, Option<Refusal>) {
        let answer = match Line::read(line) {
            Ok(Line::Scenario(scenario)) => self.home.scenario(&scenario).map(|()| json!({})),
            Ok(Line::Operation(operation)) => self.home.operation(&operation).map(Value::Object),
            Err(refusal) => Err(refusal),
        };
        match answer {
            Ok(answer) => (answer, None),
            Err(refusal) => (json!({"error": true}), Some(refusal)),
        }
    }

    /// Answers each line of `input` on `output` at once, until the input ends. Reasons for errors
    /// go to `reasons`, with the number of the line.
    pub fn serve(
        &mut self,
        mut input: impl BufRead,
        mut output: impl Write,
        mut reasons: impl Write,
    ) -> io::Result<()> {
        let mut line = Vec::new();
        for number in 1u64.. {
            line.clear();
            if input.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            let (answer, reason) = self.answer(&line);
            writeln!(output, "{answer}")?;
            output.flush()?;
            if let Some(reason) = reason {
                // Nobody may be listening; the answers are what counts.
                let _ = writeln!(reasons, "line {number}: {reason}");
            }
        }
        Ok(())
    }
}
