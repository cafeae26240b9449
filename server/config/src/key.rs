//! Keys of several parts: the values joined by `|`, with `|` and `\` in a value escaped by `\`. A key of one part is
//! the value as it is. So two different lists of the same number of values never make the same key, and patterns stay
//! readable.

use std::borrow::Cow;

/// Returns the key of these values.
///
/// ```
/// assert_eq!(tollgate_config::join(&[b"10.0.0.1", b"a|b"]), br"10.0.0.1|a\|b");
/// assert_eq!(tollgate_config::join(&[b"a|b"]), b"a|b");
/// ```
pub fn join(parts: &[&[u8]]) -> Vec<u8> {
    if let [only] = parts {
        return only.to_vec();
    }
    let mut key = Vec::with_capacity(parts.iter().map(|part| part.len() + 1).sum());
    for (place, part) in parts.iter().enumerate() {
        if place > 0 {
            key.push(b'|');
        }
        for &byte in *part {
            if matches!(byte, b'|' | b'\\') {
                key.push(b'\\');
            }
            key.push(byte);
        }
    }
    key
}

/// Returns the values of a key that was made of several.
pub(crate) fn split(key: &[u8]) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let mut rest = Some(key);
    std::iter::from_fn(move || {
        let from = rest?;
        let mut escaped = false;
        let end = from.iter().position(|&byte| {
            let ends = byte == b'|' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        });
        let (part, next) = match end {
            Some(end) => (&from[..end], Some(&from[end + 1..])),
            None => (from, None),
        };
        rest = next;
        Some(unescaped(part))
    })
}

fn unescaped(part: &[u8]) -> Cow<'_, [u8]> {
    if !part.contains(&b'\\') {
        return Cow::Borrowed(part);
    }
    let mut value = Vec::with_capacity(part.len());
    let mut escaped = false;
    for &byte in part {
        escaped = byte == b'\\' && !escaped;
        if !escaped {
            value.push(byte);
        }
    }
    Cow::Owned(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_joined_can_be_split_again() {
        let values: [&[u8]; 8] = [b"", b"a", b"|", b"\\", b"a|b", b"\\|", b"|\\", b"a\\"];
        let mut seen = std::collections::HashSet::new();
        for one in values {
            for two in values {
                for three in values {
                    let key = join(&[one, two, three]);
                    let parts: Vec<_> = split(&key).map(Cow::into_owned).collect();
                    assert_eq!(parts, [one, two, three]);
                    assert!(seen.insert(key), "two lists of values make one key");
                }
            }
        }
        assert_eq!(join(&[b"a|b\\c"]), b"a|b\\c");
        assert_eq!(join(&[]), b"");
    }
}
