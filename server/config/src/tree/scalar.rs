//! The type of a plain YAML scalar, by the core schema of YAML 1.2: `on`, `off`, `yes` and `no` are texts, and so is a
//! date.

use std::borrow::Cow;

use super::TreeValue;

/// Returns the value of a scalar without quotes.
pub(super) fn plain(text: Cow<'_, str>) -> TreeValue<'_> {
    match text.as_ref() {
        "" | "~" | "null" | "Null" | "NULL" => TreeValue::Nothing,
        "true" | "True" | "TRUE" => TreeValue::Bool(true),
        "false" | "False" | "FALSE" => TreeValue::Bool(false),
        other if is_number(other) => TreeValue::Number(text),
        _ => TreeValue::Text(text),
    }
}

fn is_number(text: &str) -> bool {
    let only = |digits: &str, right: fn(&u8) -> bool| !digits.is_empty() && digits.bytes().all(|byte| right(&byte));
    if let Some(digits) = text.strip_prefix("0x") {
        return only(digits, u8::is_ascii_hexdigit);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return only(digits, |byte| matches!(byte, b'0'..=b'7'));
    }
    if matches!(text, ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        return true;
    }
    let (number, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    if !exponent.is_none_or(|digits| only(digits, u8::is_ascii_digit)) {
        return false;
    }
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_are_those_of_yaml_1_2() {
        for text in
            ["0", "12", "-7", "+1", "0x1F", "0o17", "1.5", ".5", "1.", "1e3", "-1.5E-3", ".inf", "-.INF", ".nan"]
        {
            assert!(matches!(plain(text.into()), TreeValue::Number(_)), "{text}");
        }
        let texts = "on off yes no 5/min 2027-01-31 1_000 0b1 1e . - + e3 .e1 0x 12:30 1.2.3 10.0.0.* nan inf TrUe ٣";
        for text in texts.split(' ') {
            assert!(matches!(plain(text.into()), TreeValue::Text(_)), "{text}");
        }
        assert_eq!(plain("~".into()), TreeValue::Nothing);
        assert_eq!(plain("True".into()), TreeValue::Bool(true));
    }
}
