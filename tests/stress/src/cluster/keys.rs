//! The keys: their policies, their slots, and what each was offered and admitted.

use std::sync::atomic::{AtomicU32, Ordering};

use tollgate_kernel::{Decision, OnError, Policy, Source};
use tollgate_kit::slot;

use crate::Failure;

/// Five an hour by several algorithms; half of them let this process decide while their node does not.
pub(super) const COUNT: u64 = 5;
const ALGORITHMS: [&str; 4] = ["fixed", "gcra", "sliding", "bucket burst=5"];

pub(super) struct Keys {
    pub(super) all: Vec<Key>,
    policies: Vec<Policy>,
}

pub(super) struct Key {
    pub(super) bytes: Vec<u8>,
    pub(super) slot: u16,
    policy: usize,
    pub(super) offered: AtomicU32,
    /// Units admitted by the server, and by this process.
    pub(super) home: AtomicU32,
    pub(super) local: AtomicU32,
    /// Times its primary was killed.
    pub(super) deaths: AtomicU32,
}

impl Keys {
    pub(super) fn new(count: usize) -> Result<Self, Failure> {
        let mut policies = Vec::new();
        for on_error in [OnError::Local, OnError::Deny] {
            for algorithm in ALGORITHMS {
                policies.push(format!("{COUNT}/h {algorithm}").parse::<Policy>()?.with_on_error(on_error));
            }
        }
        let all = (0..count).map(|number| Key::new(number, policies.len())).collect();
        Ok(Self { all, policies })
    }

    /// The policy of a key.
    pub(super) fn policy(&self, key: &Key) -> Option<&Policy> {
        self.policies.get(key.policy)
    }
}

impl Key {
    fn new(number: usize, policies: usize) -> Self {
        let bytes = bytes(number);
        let slot = slot(state_key(&bytes));
        let [offered, home, local, deaths] = [const { AtomicU32::new(0) }; 4];
        // Beside the form of the key, so that every form meets every policy.
        Self { bytes, slot, policy: number / FORMS % policies, offered, home, local, deaths }
    }

    pub(super) fn note(&self, decision: &Decision) {
        self.offered.fetch_add(1, Ordering::Relaxed);
        let admitted = match decision.source {
            Source::Home => &self.home,
            Source::Local => &self.local,
            Source::Open | Source::Closed => return,
        };
        admitted.fetch_add(decision.granted as u32, Ordering::Relaxed);
    }
}

const FORMS: usize = 8;

/// Keys of every form: text, braces in every order, percent signs, bytes that are no text, long ones.
fn bytes(number: usize) -> Vec<u8> {
    let text = match number % FORMS {
        0 => format!("user:{number}"),
        1 => format!("{{{number}}}"),
        2 => format!("a{{b}}c{{{number}}}"),
        3 => format!("}}{number}{{"),
        4 => format!("%7B{number}%"),
        5 => format!("{{}}{number}{}", "x".repeat(200)),
        _ => return [&[0xff, 0xfe, 0, b'{', b'\r', b'\n'][..number % FORMS - 2], &number.to_le_bytes()].concat(),
    };
    text.into_bytes()
}

/// The name of a key's state in the server, as its documentation has it.
fn state_key(key: &[u8]) -> Vec<u8> {
    let mut state = b"tg:{".to_vec();
    for byte in key {
        match byte {
            b'{' | b'}' | b'%' => state.extend_from_slice(format!("%{byte:02X}").as_bytes()),
            byte => state.push(*byte),
        }
    }
    state.push(b'}');
    state
}
