//! Paths in their normal form, so that all spellings of one path are one key: RFC 3986, section 6.2.2, with empty
//! segments removed, as most services treat them.

/// Returns the path of a URI: without query and fragment, `%41` as `A` and other escapes in upper case, `.` and `..`
/// resolved, and `//` as `/`. An escaped `/` stays escaped, since services distinguish it from a plain one.
pub(super) fn normalize(uri: &[u8]) -> Vec<u8> {
    let path = uri.split(|byte| matches!(byte, b'?' | b'#')).next().unwrap_or_default();
    let path = unescaped(without_authority(path));
    let mut kept: Vec<&[u8]> = Vec::new();
    for segment in path.split(|byte| *byte == b'/') {
        match segment {
            b"" | b"." => {}
            b".." => drop(kept.pop()),
            _ => kept.push(segment),
        }
    }
    let mut normal = Vec::with_capacity(path.len() + 1);
    for segment in kept {
        normal.push(b'/');
        normal.extend_from_slice(segment);
    }
    let is_folder = [&b"/"[..], b"/.", b"/.."].iter().any(|end| path.ends_with(end));
    if normal.is_empty() || is_folder {
        normal.push(b'/');
    }
    normal
}

/// Removes `http://host`: a proxy may be sent `http://host/path`, and pass it on as it is.
fn without_authority(path: &[u8]) -> &[u8] {
    let Some(at) = path.windows(3).position(|window| window == b"://") else { return path };
    if !path[..at].iter().all(u8::is_ascii_alphabetic) || at == 0 {
        return path;
    }
    let rest = &path[at + 3..];
    rest.iter().position(|byte| *byte == b'/').map_or(&[], |start| &rest[start..])
}

/// Decodes the escapes that are not needed, and writes the others in upper case.
fn unescaped(path: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(path.len());
    let mut rest = path;
    while let [first, more @ ..] = rest {
        let escaped = match rest {
            [b'%', high, low, ..] => hex(*high).zip(hex(*low)).map(|(high, low)| 16 * high + low),
            _ => None,
        };
        rest = match escaped {
            Some(byte) if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => {
                plain.push(byte);
                &rest[3..]
            }
            Some(_) => {
                plain.extend(rest[..3].iter().map(u8::to_ascii_uppercase));
                &rest[3..]
            }
            None => {
                plain.push(*first);
                more
            }
        };
    }
    plain
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ways_to_write_a_path_are_one() {
        for (uri, path) in [
            ("/a/b", "/a/b"),
            ("/a/b?x=/../c#d", "/a/b"),
            ("//a///b", "/a/b"),
            ("/./a/./b", "/a/b"),
            ("/x/../a/b", "/a/b"),
            ("/../../a/b", "/a/b"),
            ("/%2e/a/%2E%2e/a/b", "/a/b"),
            ("/%61/%62", "/a/b"),
            ("http://example.org:80/a/b", "/a/b"),
            ("a/b", "/a/b"),
            ("/a/b/", "/a/b/"),
            ("/a/b/.", "/a/b/"),
            ("/a/b/c/..", "/a/b/"),
            ("/a%2fb", "/a%2Fb"),
            ("/a%2Fb", "/a%2Fb"),
            ("/a%20b", "/a%20b"),
            ("/100%", "/100%"),
            ("/%zz", "/%zz"),
            ("/a://b", "/a:/b"),
            ("", "/"),
            ("/", "/"),
            ("http://example.org", "/"),
            ("/..", "/"),
        ] {
            let found = normalize(uri.as_bytes());
            assert_eq!(String::from_utf8(found.clone()).unwrap(), path, "{uri}");
            assert_eq!(normalize(&found), found, "{uri}: normal twice");
        }
    }
}
