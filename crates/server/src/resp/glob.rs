//! Patterns of names, as Redis has them: `*`, `?`, `[a-c]`, `[^a]` and `\` before a sign that is meant.

/// Whether a name fits a pattern, in either case. A star is tried again where it was last, never deeper, so
/// the time is at most the product of both lengths.
pub(super) fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let (mut pattern_at, mut name_at) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while name_at < name.len() {
        if pattern.get(pattern_at) == Some(&b'*') {
            pattern_at += 1;
            star = Some((pattern_at, name_at));
        } else if let Some(next) = one(&pattern[pattern_at..], name[name_at]) {
            pattern_at += next;
            name_at += 1;
        } else if let Some((behind, from)) = star {
            star = Some((behind, from + 1));
            (pattern_at, name_at) = (behind, from + 1);
        } else {
            return false;
        }
    }
    pattern[pattern_at..].iter().all(|sign| *sign == b'*')
}

/// How many signs of the pattern a byte takes; none if it does not fit them.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    let same = |sign: u8| sign.eq_ignore_ascii_case(&byte);
    match pattern {
        [b'?', ..] => Some(1),
        [b'\\', sign, ..] => same(*sign).then_some(2),
        [b'[', rest @ ..] => {
            let (not, list) = match rest {
                [b'^', list @ ..] => (true, list),
                list => (false, list),
            };
            let end = list.iter().position(|sign| *sign == b']').unwrap_or(list.len());
            let found = within(&list[..end], byte.to_ascii_lowercase());
            (found != not).then_some(1 + usize::from(not) + (end + 1).min(list.len()))
        }
        [sign, ..] => same(*sign).then_some(1),
        [] => None,
    }
}

fn within(mut list: &[u8], byte: u8) -> bool {
    loop {
        list = match list {
            [] => return false,
            [b'\\', sign, rest @ ..] if sign.to_ascii_lowercase() != byte => rest,
            [from, b'-', to, rest @ ..] => {
                let (from, to) = (from.to_ascii_lowercase(), to.to_ascii_lowercase());
                if (from.min(to)..=from.max(to)).contains(&byte) {
                    return true;
                }
                rest
            }
            [sign, rest @ ..] if sign.to_ascii_lowercase() != byte => rest,
            _ => return true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn patterns_fit_as_in_redis() {
        for (pattern, name, fit) in [
            ("*", "", true),
            ("*", "save", true),
            ("SA*E", "save", true),
            ("s?ve", "save", true),
            ("s?ve", "sve", false),
            ("*a*b*c", "xxaxxbxxbxc", true),
            ("*a*b*c", "xxaxxbxxbx", false),
            ("[a-c]x", "Bx", true),
            ("[^a-c]x", "bx", false),
            ("[^a-c]x", "dx", true),
            ("\\*", "*", true),
            ("\\*", "x", false),
            ("[", "x", false),
            ("", "x", false),
        ] {
            assert_eq!(fits(pattern.as_bytes(), name.as_bytes()), fit, "{pattern:?} {name:?}");
        }
        // Many stars are no more work than one.
        assert!(!fits("*a".repeat(50).as_bytes(), "a".repeat(49).as_bytes()));
        assert!(!fits(("*a".repeat(50) + "b").as_bytes(), "a".repeat(1_000).as_bytes()));
    }
}
