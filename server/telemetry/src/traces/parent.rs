//! `traceparent`: `00-TRACE-SPAN-FLAGS` in lower-case hexadecimal digits. Anything else is treated as absent.

/// The identifier of a trace: never all zeros.
pub(crate) type TraceId = [u8; 16];
/// The identifier of a span: never all zeros.
pub(crate) type SpanId = [u8; 8];

/// The span that a request belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceParent {
    pub(crate) trace: TraceId,
    pub(crate) span: SpanId,
    pub(crate) is_sampled: bool,
}

impl TraceParent {
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let (first, rest) = text.split_at_checked(55)?;
        let [b'0', b'0', b'-', trace @ .., b'-', _, _] = first else { return None };
        // Later versions may append fields; version 00 does not. The version ff does not exist.
        if !rest.is_empty() {
            return None;
        }
        let (trace, span) = trace.split_at_checked(32)?;
        let span = span.strip_prefix(b"-")?;
        let trace = number(trace)?.to_be_bytes();
        let span = u64::try_from(number(span)?).ok()?.to_be_bytes();
        let flags = number(first.get(53..)?)?;
        let is_valid = trace != TraceId::default() && span != SpanId::default();
        is_valid.then_some(Self { trace, span, is_sampled: flags & 1 == 1 })
    }
}

/// Parses a number of at most 32 lower-case hexadecimal digits.
fn number(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |number, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const SPAN: &str = "b7ad6b7169203331";

    #[test]
    fn a_parent_is_parsed_exactly() {
        for (flags, is_sampled) in [("00", false), ("01", true), ("02", false), ("03", true), ("ff", true)] {
            let parent = TraceParent::parse(format!("00-{TRACE}-{SPAN}-{flags}").as_bytes()).unwrap();
            let (trace, span) = (u128::from_be_bytes(parent.trace), u64::from_be_bytes(parent.span));
            assert_eq!((format!("{trace:032x}"), format!("{span:016x}")), (TRACE.to_owned(), SPAN.to_owned()));
            assert_eq!(parent.is_sampled, is_sampled, "{flags}");
        }
    }

    #[test]
    fn invalid_headers_are_treated_as_absent() {
        let good = format!("00-{TRACE}-{SPAN}-01");
        let zeros = |text: &str| "0".repeat(text.len());
        for wrong in [
            String::new(),
            good.to_uppercase(),
            good.replacen("00-", "ff-", 1),
            good.replacen("00-", "01-", 1),
            format!("{good}-more"),
            good[1..].to_owned(),
            good[..good.len() - 1].to_owned(),
            good.replace(TRACE, &zeros(TRACE)),
            good.replace(SPAN, &zeros(SPAN)),
            good.replace('-', "_"),
            good.replace("b7", "-7"),
            good.replace("b7", "+7"),
            good.replace("b7", "é"),
        ] {
            assert_eq!(TraceParent::parse(wrong.as_bytes()), None, "{wrong}");
        }
        // A truncated header is refused, and so is one with any byte replaced.
        for place in 0..good.len() {
            assert_eq!(TraceParent::parse(&good.as_bytes()[..place]), None);
            let mut bytes = good.clone().into_bytes();
            bytes[place] = b'x';
            assert_eq!(TraceParent::parse(&bytes), None);
        }
    }
}
