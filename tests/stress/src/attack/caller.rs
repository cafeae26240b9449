//! A caller over the Redis protocol, with a token, and many questions in pipelines.

use std::io;
use std::net::SocketAddr;

use crate::serving::{Reply, Resp, push};

/// Questions that are sent before their replies are read.
const DEPTH: u64 = 200;

pub(super) struct Caller(Resp);

/// What a check was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CheckReply {
    Granted(u64),
    Refused,
    /// An error instead of a decision.
    Error(String),
}

impl Caller {
    pub(super) fn connect(to: SocketAddr, token: &str) -> io::Result<Self> {
        let mut resp = Resp::connect(to)?;
        match resp.ask(&["AUTH", token])? {
            Reply::Error(error) => Err(io::Error::other(format!("AUTH: {error}"))),
            _ => Ok(Self(resp)),
        }
    }

    pub(super) fn ask(&mut self, words: &[&str]) -> io::Result<Reply> {
        self.0.ask(words)
    }

    pub(super) fn check(&mut self, key: &str, policy: &str) -> io::Result<CheckReply> {
        Ok(answered(&self.0.ask(&["TG.CHECK", key, policy])?))
    }

    pub(super) fn cost(&mut self, key: &str, policy: &str, units: &str) -> io::Result<CheckReply> {
        Ok(answered(&self.0.ask(&["TG.CHECK", key, policy, "COST", units])?))
    }

    /// Sends bytes as they are.
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.send(bytes)
    }

    pub(super) fn reply(&mut self) -> io::Result<Reply> {
        self.0.reply()
    }

    /// Asks the questions of numbers in pipelines; each answer is told with its number.
    pub(super) fn flood(
        &mut self,
        numbers: std::ops::Range<u64>,
        question: impl Fn(u64) -> Vec<String>,
        mut each: impl FnMut(u64, &Reply),
    ) -> io::Result<()> {
        let mut from = numbers.start;
        let mut bytes = Vec::new();
        while from < numbers.end {
            let to = (from + DEPTH).min(numbers.end);
            bytes.clear();
            (from..to).for_each(|number| push(&mut bytes, &question(number)));
            self.0.send(&bytes)?;
            for number in from..to {
                each(number, &self.0.reply()?);
            }
            from = to;
        }
        Ok(())
    }
}

/// What the reply to a check says.
pub(super) fn answered(reply: &Reply) -> CheckReply {
    match (reply, reply.at(0).int(), reply.at(1).int()) {
        (Reply::Array(_), Some(0), _) => CheckReply::Refused,
        (Reply::Array(_), Some(_), Some(granted)) => CheckReply::Granted(granted.max(0) as u64),
        (Reply::Error(error), ..) => CheckReply::Error(error.clone()),
        (other, ..) => CheckReply::Error(format!("expected a decision, found {other:?}")),
    }
}

/// The words of a check.
pub(super) fn check(key: impl Into<String>, policy: &str) -> Vec<String> {
    vec!["TG.CHECK".to_owned(), key.into(), policy.to_owned()]
}

/// A text of so many limits, all long; texts of other numbers share no limit.
pub(super) fn many_limits(count: u64, number: u64) -> String {
    let limit = |place: u64| format!("{}/{}d", 1_000 + place, 1 + place + number * 40);
    (0..count).map(limit).collect::<Vec<_>>().join(", ")
}
