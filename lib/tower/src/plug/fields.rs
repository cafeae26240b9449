//! Header fields from a limiter's reply: values matched by position with the configured names, or pairs that
//! contain their own. The output of a script is not trusted: it can neither end a line nor change how a response is
//! framed.

use http::header::{CONNECTION, CONTENT_LENGTH, HeaderName, HeaderValue, TE, TRAILER, TRANSFER_ENCODING, UPGRADE};

use super::Output;
use super::reply::PlugFailure;

/// The maximum number of header fields in one reply.
pub(super) const MAX_FIELDS: usize = 32;
/// The maximum length of a value, in bytes: servers and clients mostly refuse heads beyond 8 KiB or 16 KiB.
pub(super) const MAX_VALUE: usize = 4096;
/// The maximum part of a value that an error repeats, in characters.
const MAX_EXCERPT: usize = 40;

/// Names and values for a response; they replace the fields that it has under these names.
pub type HeaderPairs = Vec<(HeaderName, HeaderValue)>;

/// Parses a name that a limiter may set. The error says why it may not.
pub(super) fn parse_name(text: &[u8]) -> Result<HeaderName, String> {
    let framing = [CONNECTION, CONTENT_LENGTH, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];
    match HeaderName::from_bytes(text) {
        Ok(name) if framing.contains(&name) || matches!(name.as_str(), "keep-alive" | "proxy-connection") => {
            Err(format!("expected a header that does not frame the message, found {name}"))
        }
        Ok(name) => Ok(name),
        Err(_) => Err(format!("expected the name of a header, found {}", excerpt(text))),
    }
}

/// Returns the header fields of a reply's list. Law: an error reports the first invalid one, and then none is set.
pub(super) fn parse_fields(names: &[HeaderName], list: &[Output]) -> Result<HeaderPairs, PlugFailure> {
    if list.len() > MAX_FIELDS {
        return Err(PlugFailure::Script(format!("expected at most {MAX_FIELDS} headers, found {}", list.len())));
    }
    let wrong = |place: usize, why: String| PlugFailure::Script(format!("header {}: {why}", place + 1));
    let field = |(place, output): (usize, &Output)| match (output.list(), names.get(place)) {
        ([own, value], _) => {
            let own = own.text().ok_or_else(|| wrong(place, "expected a pair of name and value".to_owned()))?;
            let own = parse_name(&own).map_err(|why| wrong(place, why))?;
            Ok((own, parse_value(value).map_err(|why| wrong(place, why))?))
        }
        ([], Some(name)) => Ok((name.clone(), parse_value(output).map_err(|why| wrong(place, why))?)),
        ([], None) => {
            let hint = "let the script answer a pair {name, value}";
            Err(wrong(place, format!("expected a name: {} are configured; {hint}", names.len())))
        }
        (other, _) => Err(wrong(place, format!("expected a pair of name and value, found {} values", other.len()))),
    };
    list.iter().enumerate().map(field).collect()
}

fn parse_value(output: &Output) -> Result<HeaderValue, String> {
    let text = output.text().ok_or_else(|| "expected a text or a number".to_owned())?;
    if text.len() > MAX_VALUE {
        return Err(format!("expected at most {MAX_VALUE} bytes, found {}", text.len()));
    }
    let wrong = |_| format!("expected a value without line ends and control characters, found {}", excerpt(&text));
    HeaderValue::from_bytes(&text).map_err(wrong)
}

/// Returns the text escaped and truncated, so that it cannot break a line of a log.
fn excerpt(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut short: String = text.chars().take(MAX_EXCERPT).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("{short:?}")
}
