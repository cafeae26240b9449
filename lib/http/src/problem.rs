//! Response bodies as defined by RFC 9457 (`application/problem+json`): a type and a status for programs, a sentence
//! for people. No body contains the key.

use http::StatusCode;

use crate::report::DecisionReport;

/// The problem type of a refusal by a limit.
pub const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

/// Returns the body of a refusal: status 429, with the names of the limits that refuse.
///
/// ```
/// # use tollgate_kernel::{KeyState, Policy, Request, Timestamp};
/// # let policy: Policy = "1/min".parse()?;
/// # let (mut key, now) = (KeyState::default(), Timestamp::saturating(1_790_000_000_000_000));
/// # let _ = key.decide_full(&policy, now, &Request::ONE);
/// let (decision, details) = key.decide_full(&policy, now, &Request::ONE);
/// let report = tollgate_http::DecisionReport { policy: &policy, decision: &decision, details: &details };
/// let body = tollgate_http::problem(&report);
/// assert_eq!(
///     String::from_utf8(body)?,
///     r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded","#.to_owned()
///         + r#""status":429,"detail":"refused by 1/min","violated-policies":["1/min"]}"#
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn problem(report: &DecisionReport<'_>) -> Vec<u8> {
    let violated = report.violated();
    let detail = match violated.as_slice() {
        [] => "refused".to_owned(),
        names => format!("refused by {}", names.join(", ")),
    };
    quota_exceeded(StatusCode::TOO_MANY_REQUESTS, &detail, &violated)
}

/// Returns the body of a refusal with the given status, sentence and list of limits.
pub fn quota_exceeded(status: StatusCode, detail: &str, violated: &[String]) -> Vec<u8> {
    body(QUOTA_EXCEEDED, "Quota exceeded", status, detail, violated)
}

/// Returns the body of any other error: its status, the standard phrase of the status, and a sentence.
///
/// ```
/// let body = tollgate_http::blank_problem(http::StatusCode::BAD_REQUEST, "expected the header \"x-api-key\"");
/// let text = r#"{"type":"about:blank","title":"Bad Request","status":400,"detail":"expected the header \"x-api-key\""}"#;
/// assert_eq!(body, text.as_bytes());
/// ```
pub fn blank_problem(status: StatusCode, detail: &str) -> Vec<u8> {
    body("about:blank", status.canonical_reason().unwrap_or("Error"), status, detail, &[])
}

fn body(kind: &str, title: &str, status: StatusCode, detail: &str, violated: &[String]) -> Vec<u8> {
    let mut json = Vec::with_capacity(192 + detail.len());
    json.extend_from_slice(b"{\"type\":");
    string(kind, &mut json);
    json.extend_from_slice(b",\"title\":");
    string(title, &mut json);
    json.extend_from_slice(b",\"status\":");
    json.extend_from_slice(status.as_str().as_bytes());
    json.extend_from_slice(b",\"detail\":");
    string(detail, &mut json);
    for (place, name) in violated.iter().enumerate() {
        json.extend_from_slice(if place == 0 { b",\"violated-policies\":[" } else { b"," });
        string(name, &mut json);
    }
    json.extend_from_slice(if violated.is_empty() { b"}" } else { b"]}" });
    json
}

/// Appends a JSON string.
fn string(text: &str, json: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    json.push(b'"');
    // There is no early exit, so that the loop can be vectorized: hardly any text contains one of these bytes.
    if !text.bytes().fold(false, |found, byte| found | (byte < 0x20) | (byte == b'"') | (byte == b'\\')) {
        json.extend_from_slice(text.as_bytes());
        json.push(b'"');
        return;
    }
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => json.extend([b'\\', byte]),
            b'\n' => json.extend_from_slice(b"\\n"),
            b'\r' => json.extend_from_slice(b"\\r"),
            b'\t' => json.extend_from_slice(b"\\t"),
            0..0x20 => {
                json.extend_from_slice(b"\\u00");
                json.extend([HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
            _ => json.push(byte),
        }
    }
    json.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_is_json() {
        let letters = [
            'a',
            '"',
            '\\',
            '/',
            '\n',
            '\r',
            '\t',
            '\u{8}',
            '\u{c}',
            '\0',
            '\u{1f}',
            '\u{7f}',
            '\u{e9}',
            '\u{2028}',
            '\u{1f600}',
        ];
        for first in letters {
            for second in letters {
                let text: String = [first, second, 'z'].iter().collect();
                for status in
                    [StatusCode::BAD_REQUEST, StatusCode::SERVICE_UNAVAILABLE, StatusCode::from_u16(599).unwrap()]
                {
                    let read: serde_json::Value = serde_json::from_slice(&blank_problem(status, &text)).unwrap();
                    let title = status.canonical_reason().unwrap_or("Error");
                    let expected = serde_json::json!({"type": "about:blank", "title": title, "status": status.as_u16(), "detail": text});
                    assert_eq!(read, expected);
                }
                let violated = [text.clone(), "b".to_owned()];
                let body = quota_exceeded(StatusCode::FORBIDDEN, &text, &violated);
                let read: serde_json::Value = serde_json::from_slice(&body).unwrap();
                assert_eq!(read["violated-policies"], serde_json::json!(violated));
                assert_eq!((&read["detail"], &read["status"]), (&serde_json::json!(text), &serde_json::json!(403)));
            }
        }
    }
}
