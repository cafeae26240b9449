//! `--decisions`: every decision, a JSON object a line, in the order of the file and the policies.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use tollgate_kernel::{Decision, Policy};

use super::feed::ReplayItem;
use crate::error::CliError;
use crate::text;

/// The output of decisions, if requested.
pub(crate) struct DecisionWriter {
    out: Option<BufWriter<File>>,
    /// The names of each policy's limits as JSON strings.
    names: Vec<Vec<String>>,
    line: Vec<u8>,
}

impl DecisionWriter {
    /// Returns an output that writes nothing.
    pub(crate) fn none() -> Self {
        Self { out: None, names: Vec::new(), line: Vec::new() }
    }

    /// Creates `path`, unless it is the `input`.
    pub(crate) fn create(path: &Path, input: &str, policies: &[Policy]) -> Result<Self, CliError> {
        let out = Some(create(path, input)?);
        let names = |policy: &Policy| policy.limits().iter().map(|limit| quoted(&limit.name())).collect();
        Ok(Self { out, names: policies.iter().map(names).collect(), line: Vec::new() })
    }

    /// Writes one decision of the policy at `place`.
    #[inline]
    pub(crate) fn write(&mut self, place: usize, key: &[u8], item: &ReplayItem, decision: &Decision) -> io::Result<()> {
        if self.out.is_none() { Ok(()) } else { self.write_line(place, key, item, decision) }
    }

    fn write_line(&mut self, place: usize, key: &[u8], item: &ReplayItem, decision: &Decision) -> io::Result<()> {
        let Some(out) = &mut self.out else { return Ok(()) };
        let line = &mut self.line;
        line.clear();
        write!(line, "{{\"line\":{},\"t_us\":{},\"key\":", item.line, decision.at.get())?;
        write_string(line, key);
        write!(line, ",\"cost\":{}", item.cost)?;
        if self.names.len() > 1 {
            // Counted from 1, as the report does.
            write!(line, ",\"policy\":{}", place + 1)?;
        }
        write!(
            line,
            ",\"allowed\":{},\"granted\":{},\"remaining\":{},\"retry_after_us\":{},\"reset_after_us\":{},\"limited_by\":",
            decision.allowed,
            decision.granted,
            decision.remaining,
            decision.retry_after.as_flat(),
            decision.reset_after.get(),
        )?;
        let name = decision.limited_by.and_then(|limit| self.names[place].get(limit));
        line.extend_from_slice(name.map_or("null", String::as_str).as_bytes());
        line.extend_from_slice(b"}\n");
        out.write_all(line)
    }

    /// Flushes what is still buffered.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.out.as_mut().map_or(Ok(()), BufWriter::flush)
    }
}

fn create(path: &Path, input: &str) -> Result<BufWriter<File>, CliError> {
    let shown = || path.display().to_string();
    // Creating the file would empty it before it is read.
    let same = fs::canonicalize(path).is_ok_and(|own| fs::canonicalize(input).is_ok_and(|input| own == input));
    if same || path.as_os_str() == "-" {
        return Err(CliError::DecisionsPlace { path: shown() });
    }
    let file = File::create(path).map_err(|source| CliError::Decisions { path: shown(), source })?;
    Ok(BufWriter::with_capacity(1 << 16, file))
}

/// Writes a key as a JSON string.
fn write_string(line: &mut Vec<u8>, key: &[u8]) {
    if key.iter().all(|&byte| (0x20..0x7f).contains(&byte) && byte != b'"' && byte != b'\\') {
        line.push(b'"');
        line.extend_from_slice(key);
        line.push(b'"');
    } else {
        line.extend_from_slice(quoted(&text::key(key)).as_bytes());
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
