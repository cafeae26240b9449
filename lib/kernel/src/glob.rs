//! Matches names against patterns: `*`, `?`, `[a-c]`, `[^x]` and `\`, as Redis interprets them.

/// The number of positions of a text that count as one step in a search for plain bytes.
const SEARCHED: usize = 8;

/// Returns whether `text` matches, and adds the number of steps to `steps`. It is at most about the product of both
/// lengths. For a pattern whose stars stand before plain bytes, such as `*word*`, it is at most the length of the text.
pub fn matches(pattern: &[u8], text: &[u8], steps: &mut usize) -> bool {
    let (mut at, mut place) = (0, 0);
    // The position of the last star, and the position in the text at which the pattern after it was last tried.
    let mut star: Option<(usize, usize)> = None;
    loop {
        *steps += 1;
        if pattern.get(at) == Some(&b'*') {
            at += 1;
            if at == pattern.len() {
                return true;
            }
            // The pattern after the star can match only where its leading plain bytes occur.
            let Some(found) = find(plain(&pattern[at..]), text, place, steps) else { return false };
            star = Some((at - 1, found));
            place = found;
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
        // The star takes one more byte, or as many as there are before the next occurrence of the plain bytes.
        let Some((back, met)) = star else { return false };
        let Some(found) = find(plain(&pattern[back + 1..]), text, met + 1, steps) else { return false };
        star = Some((back, found));
        (at, place) = (back + 1, found);
    }
}

/// Returns the plain bytes that a pattern begins with.
fn plain(pattern: &[u8]) -> &[u8] {
    let end = pattern.iter().position(|byte| matches!(byte, b'*' | b'?' | b'[' | b'\\'));
    &pattern[..end.unwrap_or(pattern.len())]
}

/// Returns the first position of plain bytes in a text, searching from a position on.
fn find(bytes: &[u8], text: &[u8], from: usize, steps: &mut usize) -> Option<usize> {
    let rest = text.get(from..)?;
    let [first, .., last] = bytes else {
        let [only] = bytes else { return Some(from) };
        let found = rest.iter().position(|byte| byte == only);
        *steps += found.unwrap_or(rest.len()) / SEARCHED;
        return Some(from + found?);
    };
    let is_here = |window: &[u8]| window.first() == Some(first) && window.last() == Some(last) && window == bytes;
    let found = rest.windows(bytes.len()).position(is_here);
    *steps += found.unwrap_or(rest.len()) / SEARCHED;
    Some(from + found?)
}

/// Matches `byte` against the one-byte pattern at `at`, and returns where the next one begins if it matches.
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

/// As [`one`], for a class in brackets. A class without a closing bracket extends to the end of the pattern.
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
            ("*abc", &["abc", "ababc", "abcabc"], &["abcd", "ab", ""]),
            ("*aab", &["aaab", "aab"], &["aaba", "aa"]),
            ("*a?c*", &["xabxabcx", "aac"], &["ab", "xabx"]),
            ("*ab[cd]*e", &["abxabde", "abce"], &["abxe", "abde_"]),
            ("*x", &["x", "axx"], &["", "a"]),
            ("a*", &["a", "ab"], &["", "ba"]),
            ("*a\\*b*", &["xa*by"], &["xaab"]),
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

    /// Matches according to the definition: a star takes nothing, or takes one byte and stays.
    fn by_definition(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern, text) {
            ([], rest) => rest.is_empty(),
            ([b'*', more @ ..], rest) => {
                by_definition(more, rest) || !rest.is_empty() && by_definition(pattern, &rest[1..])
            }
            ([b'?', more @ ..], [_, rest @ ..]) => by_definition(more, rest),
            ([own, more @ ..], [byte, rest @ ..]) => own == byte && by_definition(more, rest),
            (_, []) => false,
        }
    }

    #[test]
    fn all_short_patterns_match_as_they_are_defined() {
        let words = |signs: &'static [u8], longest: u32| {
            let count = |len: u32| signs.len().pow(len);
            let word = move |len: u32, number: usize| {
                (0..len).map(|place| signs[number / signs.len().pow(place) % signs.len()]).collect::<Vec<u8>>()
            };
            (0..=longest).flat_map(move |len| (0..count(len)).map(move |number| word(len, number)))
        };
        let texts: Vec<Vec<u8>> = words(b"ab", 6).collect();
        for pattern in words(b"ab*?", 5) {
            for text in &texts {
                let found = matches(&pattern, text, &mut 0);
                let shown = (pattern.escape_ascii().to_string(), text.escape_ascii().to_string());
                assert_eq!(found, by_definition(&pattern, text), "{shown:?}");
            }
        }
    }

    #[test]
    fn a_thousand_words_in_a_long_key_take_few_steps() {
        // Keys that contain no word: the beginning of each at every position, and all of a word but its end.
        let long = |part: &str| part.as_bytes().iter().copied().cycle().take(512).collect::<Vec<u8>>();
        for key in [long("a"), long("w"), long("word"), long("word-99"), long("w-")] {
            let mut steps = 0;
            for number in 0..1_000 {
                assert!(!matches(format!("*word-{number}x*").as_bytes(), &key, &mut steps));
            }
            // One step for eight bytes, and a few for each pattern; an earlier version took one or more for each byte.
            assert!(steps <= 1_000 * (512 / 8 + 4), "{steps}");
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
