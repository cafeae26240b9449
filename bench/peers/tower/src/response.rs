//! The load's side of HTTP/1.1: a request that is always the same, and where a response ends.

use memchr::memchr_iter;

use crate::Failure;

/// As clients send it: what a server parses is part of what a request costs.
pub(crate) const REQUEST: &[u8] =
    b"GET / HTTP/1.1\r\nhost: localhost\r\nuser-agent: tollgate-bench\r\naccept: */*\r\n\r\n";
/// Far more than a response here.
pub(crate) const LARGEST: usize = 8 * 1024;

const STATUS: usize = "HTTP/1.1 ".len();
const LENGTH: &[u8] = b"content-length:";

/// The status and the length of the response that `bytes` begin with; `None` while it is not all there.
pub(crate) fn whole(bytes: &[u8]) -> Result<Option<(u16, usize)>, Failure> {
    let (mut start, mut body) = (0, None);
    for end in memchr_iter(b'\n', bytes) {
        let line = &bytes[start..end];
        start = end + 1;
        if line == b"\r" {
            let Some((status, body)) = status(bytes).zip(body) else {
                let head = String::from_utf8_lossy(&bytes[..end]);
                return Err(format!("expected a response with a length, found {head:?}").into());
            };
            let all = start + body;
            return Ok((bytes.len() >= all).then_some((status, all)));
        }
        body = body.or_else(|| length(line));
    }
    Ok(None)
}

fn status(head: &[u8]) -> Option<u16> {
    std::str::from_utf8(head.get(STATUS..STATUS + 3)?).ok()?.parse().ok()
}

fn length(line: &[u8]) -> Option<usize> {
    let (name, value) = line.split_at_checked(LENGTH.len())?;
    if !name.eq_ignore_ascii_case(LENGTH) {
        return None;
    }
    std::str::from_utf8(value).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::whole;

    #[test]
    fn a_response_ends_where_its_length_says() {
        let response = b"HTTP/1.1 429 Too Many Requests\r\ndate: now\r\nContent-Length: 5\r\n\r\nlaterHTTP";
        let all = response.len() - "HTTP".len();
        assert_eq!(whole(response).unwrap(), Some((429, all)));
        assert_eq!(whole(&response[..all - 1]).unwrap(), None);
        assert_eq!(whole(b"HTTP/1.1 200 OK\r\n").unwrap(), None);
        assert!(whole(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
        assert!(whole(b"+OK\r\n\r\n").is_err());
    }
}
