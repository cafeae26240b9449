//! Replies, counted by their lines: no bytes are copied, nothing is allocated.
//!
//! What is measured answers an integer, or an array of integers of a known length, so a reply is a known
//! number of lines that begin with `:` or `*`. Any other line is an error, and stops the measurement. These
//! are plain loops over bytes, which the compiler makes into few instructions.

/// The form of every reply to one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Integer,
    /// An array of so many integers, at most nine; the first is 1 if the request was allowed.
    Array(u8),
}

impl Form {
    /// Lines of one reply.
    pub(crate) fn lines(self) -> usize {
        match self {
            Self::Integer => 1,
            Self::Array(integers) => 1 + usize::from(integers),
        }
    }
}

/// Lines that end in these bytes.
pub(crate) fn lines(bytes: &[u8]) -> usize {
    count(bytes.iter().map(|&byte| byte == b'\n'))
}

/// Whether every line so far is one of a reply of this form: an error of the server is not, and has fewer
/// lines, so it must not be waited for.
pub(crate) fn is_sound(bytes: &[u8], form: Form) -> bool {
    let fits = |byte: u8| byte == b':' || byte == b'*';
    let first = match form {
        Form::Integer => b':',
        Form::Array(_) => b'*',
    };
    let ends = bytes.iter().zip(bytes.iter().skip(1));
    bytes.first().is_none_or(|&byte| byte == first)
        && count(ends.map(|(&end, &begin)| end == b'\n' && !fits(begin))) == 0
}

/// How many of so many whole replies allowed what was asked; `None` if they are of another form.
pub(crate) fn read(bytes: &[u8], form: Form, replies: usize) -> Option<usize> {
    if !is_sound(bytes, form) || !bytes.ends_with(b"\r\n") {
        return None;
    }
    let arrays = count(bytes.iter().map(|&byte| byte == b'*'));
    match form {
        Form::Integer => (arrays == 0).then_some(replies),
        Form::Array(integers) => {
            // `*6\r\n:1\r\n`: the array and its length, then the first integer.
            let heads = bytes.iter().zip(bytes.iter().skip(1)).zip(bytes.iter().skip(5)).zip(bytes.iter().skip(6));
            let (mut headed, mut allowed) = (0, 0);
            for (((&star, &length), &first), &end) in heads {
                let head = u32::from(star == b'*');
                headed += head & u32::from(length == b'0' + integers);
                allowed += head & u32::from(first == b'1') & u32::from(end == b'\r');
            }
            (arrays == replies && headed as usize == replies).then_some(allowed as usize)
        }
    }
}

/// How many are true; 32 bits hold more than any buffer, and take half the work of 64.
fn count(all: impl Iterator<Item = bool>) -> usize {
    all.map(u32::from).sum::<u32>() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_of_the_form_are_counted() {
        let yes = b"*6\r\n:1\r\n:1\r\n:99\r\n:0\r\n:600000\r\n:-1\r\n";
        let no = b"*6\r\n:0\r\n:0\r\n:0\r\n:600000\r\n:600000\r\n:1\r\n";
        let both = [yes.as_slice(), no, yes].concat();
        let form = Form::Array(6);
        assert_eq!(lines(&both), 3 * form.lines());
        assert_eq!(read(&both, form, 3), Some(2));
        assert_eq!(lines(b":1\r\n:20\r\n"), 2 * Form::Integer.lines());
        assert_eq!(read(b":1\r\n:20\r\n", Form::Integer, 2), Some(2));
    }

    #[test]
    fn anything_else_is_refused() {
        let sound = |text: &str, form| is_sound(text.as_bytes(), form);
        assert!(sound("", Form::Integer) && sound("*6\r\n:1\r", Form::Array(6)));
        for text in ["-ERR no\r\n", "*6\r\n-ERR no\r\n", "+OK\r\n", "*1\r\n$1\r\nx\r\n", ":1\r\n:1\r\n"] {
            assert!(!sound(text, Form::Array(6)), "{text:?}");
        }
        for text in ["-ERR no\r\n", "*1\r\n:1\r\n", "_\r\n"] {
            assert!(!sound(text, Form::Integer), "{text:?}");
        }
        // As many lines, and yet another form.
        for text in ["*5\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n", "*6\r\n:1\r\n:1\r\n*1\r\n:1\r\n:1\r\n:1\r\n"] {
            assert_eq!(read(text.as_bytes(), Form::Array(6), 1), None, "{text:?}");
        }
    }
}
