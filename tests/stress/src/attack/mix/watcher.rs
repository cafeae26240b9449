//! Watches a server while it is up: health and gate are asked all the time, and its memory is looked at.

use std::time::{Duration, Instant};

use super::state::{RoundState, ServerAddress};
use crate::attack::http;
use crate::attack::stage::{Caps, Tokens, judge_counted, over_resident};
use crate::attack::watch::{longest, paths};
use crate::machine;

const PAUSE: Duration = Duration::from_millis(10);
/// How often bytes that are counted are read.
const COUNTED: Duration = Duration::from_millis(500);
/// How long the metrics may take, which are not judged by time.
const METRICS: Duration = Duration::from_secs(20);

/// What was seen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WatchFigures {
    pub(super) asked: u64,
    pub(super) slowest: Duration,
    /// Kilobytes.
    pub(super) most: u64,
}

/// What the server may have, in kilobytes: idle, and at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemoryBounds {
    pub(super) idle: u64,
    pub(super) most: u64,
}

pub(super) fn run(state: &RoundState, tokens: &Tokens, caps: Caps, memory: MemoryBounds) -> WatchFigures {
    let mut seen = WatchFigures::default();
    let mut counted = Instant::now();
    while !state.is_stopped() {
        let Some(place) = state.place() else {
            std::thread::sleep(PAUSE);
            continue;
        };
        answers(state, tokens, place, &mut seen);
        resident(state, place, caps, memory, &mut seen);
        if counted.elapsed() > COUNTED {
            counted = Instant::now();
            if let Ok(metrics) = http::ask(place.http, &tokens.operator, "GET /metrics", "", METRICS) {
                state.judge(|report| judge_counted(report, &metrics, caps));
            }
        }
        std::thread::sleep(PAUSE);
    }
    seen
}

fn answers(state: &RoundState, tokens: &Tokens, place: ServerAddress, seen: &mut WatchFigures) {
    for (path, token) in paths(tokens) {
        let answer = http::ask(place.http, token, path, "", longest());
        // A server that was stopped meanwhile need not answer.
        if state.place() != Some(place) {
            return;
        }
        seen.asked += 1;
        match answer {
            Ok(answer) if answer.status == 200 => seen.slowest = seen.slowest.max(answer.took),
            Ok(answer) => state.found(format!("{path} is answered {}: {}", answer.status, answer.body)),
            Err(error) => state.found(format!("{path} does not answer within {:?}: {error}", longest())),
        }
    }
}

fn resident(state: &RoundState, place: ServerAddress, caps: Caps, memory: MemoryBounds, seen: &mut WatchFigures) {
    let now = machine::memory_of(&place.id.to_string());
    // Told once: it stays so.
    if now > memory.most && seen.most <= memory.most {
        state.found(over_resident(now, memory.most, memory.idle, caps));
    }
    seen.most = seen.most.max(now);
}
