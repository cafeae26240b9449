//! Which names match a pattern: `*`, `?`, `[a-c]`, `[^x]`, `\`, as Redis reads them.

/// Whether `text` matches. Takes at most about as many steps as the lengths of both multiplied, and adds them
/// to `steps`.
pub fn matches(pattern: &[u8], text: &[u8], steps: &mut usize) -> bool {
    let (mut at, mut place) = (0, 0);
    // Where the last star stands, and how far the text was when it was met.
    let mut star: Option<(usize, usize)> = None;
    loop {
        *steps += 1;
        if pattern.get(at) == Some(&b'*') {
            star = Some((at, place));
            at += 1;
            if at == pattern.len() {
                return true;
            }
            continue;
        }
        match text.get(place) {
            None if at == pattern.len() => return true,
            None => return false,
            Some(byte) => {
                if let Some(next) = one(pattern, at, *byte, steps) {
                    (at, place) = (next, place + 1);
                    continue;
                }
            }
        }
        // The star takes one byte more.
        let Some((back, met)) = star else { return false };
        star = Some((back, met + 1));
        (at, place) = (back + 1, met + 1);
    }
}

/// Whether the one-byte pattern at `at` takes `byte`; where the next one begins.
fn one(pattern: &[u8], at: usize, byte: u8, steps: &mut usize) -> Option<usize> {
    match *pattern.get(at)? {
        b'?' => Some(at + 1),
        b'[' => class(pattern, at + 1, byte, steps),
        b'\\' => match pattern.get(at + 1) {
            Some(next) => (*next == byte).then_some(at + 2),
            None => (byte == b'\\').then_some(at + 1),
        },
        own => (own == byte).then_some(at + 1),
    }
}

/// The same for what stands in brackets. One that does not end goes to the end of the pattern.
fn class(pattern: &[u8], mut at: usize, byte: u8, steps: &mut usize) -> Option<usize> {
    let negated = pattern.get(at) == Some(&b'^');
    at += usize::from(negated);
    let mut found = false;
    loop {
        *steps += 1;
        match pattern.get(at..).unwrap_or_default() {
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', next, ..] => {
                found |= *next == byte;
                at += 2;
            }
            [from, b'-', to, ..] => {
                found |= (*from.min(to)..=*from.max(to)).contains(&byte);
                at += 3;
            }
            [own, ..] => {
                found |= *own == byte;
                at += 1;
            }
        }
    }
    (found != negated).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_redis() {
        for (pattern, yes, no) in [
            ("*", &["", "a", "abc"][..], &[][..]),
            ("", &[""], &["a"]),
            ("h?llo", &["hello", "hallo"], &["hllo", "heello"]),
            ("h*llo", &["hllo", "heeello"], &["hell"]),
            ("h[ae]llo", &["hello", "hallo"], &["hillo"]),
            ("h[^e]llo", &["hallo"], &["hello", "hllo"]),
            ("h[a-c]llo", &["hallo", "hcllo"], &["hdllo"]),
            ("h[c-a]llo", &["hbllo"], &["hdllo"]),
            ("h\\*llo", &["h*llo"], &["hxllo"]),
            ("[\\]]x", &["]x"], &["x"]),
            ("[ab", &["a", "b"], &["c", "ab"]),
            ("a\\", &["a\\"], &["a"]),
            ("*a*b*c", &["abc", "xaxbxc", "aabbcc"], &["acb", "ab"]),
            ("**", &["", "x"], &[]),
            ("{api:*}:data", &["{api:x}:data"], &["{api:x}:13"]),
        ] {
            let mut steps = 0;
            yes.iter()
                .for_each(|text| assert!(matches(pattern.as_bytes(), text.as_bytes(), &mut steps), "{pattern} {text}"));
            no.iter().for_each(|text| {
                assert!(!matches(pattern.as_bytes(), text.as_bytes(), &mut steps), "{pattern} {text}")
            });
        }
    }

    #[test]
    fn many_stars_take_few_steps() {
        let mut steps = 0;
        assert!(!matches(&b"*a".repeat(100), &[b'a'; 4_000], &mut steps) || steps > 0);
        assert!(!matches(&[&b"*a".repeat(100)[..], b"b"].concat(), &[b'a'; 4_000], &mut steps));
        assert!(steps < 2 * 200 * 4_000, "{steps}");
    }
}
