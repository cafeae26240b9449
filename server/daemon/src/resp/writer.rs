//! Replies as bytes, in RESP2 or RESP3.

use tollgate_dialects::DialectReply;
use tollgate_kernel::{Decision, Detail};

use tollgate_keyspace::{Fault, FaultCode};

/// The protocol version of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Protocol {
    #[default]
    Resp2,
    Resp3,
}

impl Protocol {
    /// Returns its number in HELLO.
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Resp2 => 2,
            Self::Resp3 => 3,
        }
    }
}

/// Replies to be written.
#[derive(Debug, Default)]
pub(crate) struct RespWriter {
    pub(crate) bytes: Vec<u8>,
    pub(crate) protocol: Protocol,
    /// Error replies that are not counted yet.
    pub(crate) faults: Vec<FaultCode>,
}

impl RespWriter {
    /// Writes an integer.
    #[inline]
    pub(crate) fn int(&mut self, number: i64) {
        self.line(b':', number);
    }

    /// Writes a simple string such as `+OK`.
    pub(crate) fn simple(&mut self, text: &str) {
        self.bytes.push(b'+');
        self.bytes.extend_from_slice(text.as_bytes());
        self.end();
    }

    /// Writes text, or any bytes.
    pub(crate) fn bulk(&mut self, bytes: &[u8]) {
        self.line(b'$', bytes.len() as i64);
        // Reserved at once, or the last two bytes of a long one would double its capacity.
        self.bytes.reserve(bytes.len() + 2);
        self.bytes.extend_from_slice(bytes);
        self.end();
    }

    /// Writes text for people, which is a type of its own in RESP3.
    pub(crate) fn verbatim(&mut self, text: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text.as_bytes()),
            Protocol::Resp3 => {
                self.line(b'=', 4 + text.len() as i64);
                self.bytes.extend_from_slice(b"txt:");
                self.bytes.extend_from_slice(text.as_bytes());
                self.end();
            }
        }
    }

    /// Writes a null.
    pub(crate) fn nil(&mut self) {
        let nil: &[u8] = match self.protocol {
            Protocol::Resp2 => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        };
        self.bytes.extend_from_slice(nil);
    }

    /// Writes the head of an array of that number of replies, which follow.
    #[inline]
    pub(crate) fn array(&mut self, len: usize) {
        self.line(b'*', len as i64);
    }

    /// Writes the head of a map of that number of pairs, which follow; in RESP2 an array of twice as many.
    pub(crate) fn map(&mut self, pairs: usize) {
        match self.protocol {
            Protocol::Resp2 => self.line(b'*', 2 * pairs as i64),
            Protocol::Resp3 => self.line(b'%', pairs as i64),
        }
    }

    /// Writes the head of a set of that number of replies, which follow; in RESP2 an array.
    pub(crate) fn set(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.line(b'*', len as i64),
            Protocol::Resp3 => self.line(b'~', len as i64),
        }
    }

    /// Writes an error. Its text becomes one line.
    pub(crate) fn fault(&mut self, fault: &Fault) {
        self.faults.push(fault.code);
        self.error(&fault.to_string());
    }

    /// Writes an error given as its line.
    pub(crate) fn error(&mut self, line: &str) {
        self.bytes.push(b'-');
        self.bytes.extend(line.bytes().map(|byte| if byte.is_ascii_control() { b' ' } else { byte }));
        self.end();
    }

    /// Writes the flat reply.
    #[inline]
    pub(crate) fn flat(&mut self, decision: &Decision) {
        self.bytes.extend_from_slice(b"*6\r\n");
        for number in decision.flat() {
            self.int(number);
        }
    }

    /// Writes a decision with the requested parts; `source` adds the name of the home or stand-in that decided.
    pub(crate) fn decision(&mut self, decision: &Decision, rest: bool, details: &[Detail], source: bool) {
        self.array(6 + if rest { 3 + 5 * details.len() } else { 0 } + usize::from(source));
        decision.flat().into_iter().for_each(|number| self.int(number));
        if rest {
            decision.flat_rest().into_iter().for_each(|number| self.int(number));
            details.iter().flat_map(Detail::flat).for_each(|number| self.int(number));
        }
        if source {
            self.bulk(decision.source.name().as_bytes());
        }
    }

    /// Writes the reply of a dialect.
    pub(crate) fn reply(&mut self, reply: &DialectReply) {
        match reply {
            DialectReply::Int(number) => self.int(*number),
            DialectReply::Nil => self.nil(),
            DialectReply::Text(text) => self.bulk(text.as_bytes()),
            DialectReply::Array(replies) => {
                self.array(replies.len());
                replies.iter().for_each(|reply| self.reply(reply));
            }
        }
    }

    #[inline]
    fn line(&mut self, sign: u8, number: i64) {
        self.bytes.push(sign);
        // Most numbers of a decision have one digit.
        if let 0..=9 = number {
            self.bytes.push(b'0' + number as u8);
        } else {
            self.bytes.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        }
        self.end();
    }

    #[inline]
    fn end(&mut self) {
        self.bytes.extend_from_slice(b"\r\n");
    }
}
