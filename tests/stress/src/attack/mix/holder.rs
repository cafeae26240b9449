//! The attacker's connections that hold something and are idle: MULTI queues, half-sent bodies, nothing at all.

use std::io::{self, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::state::RoundState;
use crate::attack::caller::Caller;
use crate::attack::http;
use crate::serving::push;
use tollgate_random::Rng;

const QUEUES: u64 = 100;
const BODIES: u64 = 1_000;
const IDLE: u64 = 300;
/// How long what is held is held.
const HOLDS: Duration = Duration::from_millis(1_500);
const LOOK: Duration = Duration::from_millis(20);

pub(super) fn run(state: &RoundState, token: &str, seed: u64) {
    let mut rng = Rng::of_part(seed, 300);
    while !state.is_stopped() {
        let _ = match rng.below(3) {
            0 => queues(state, token),
            1 => bodies(state, token),
            _ => idle(state),
        };
        std::thread::sleep(LOOK);
    }
}

fn hold(state: &RoundState) {
    let until = Instant::now() + HOLDS;
    while !state.is_stopped() && Instant::now() < until {
        std::thread::sleep(LOOK);
    }
}

fn queues(state: &RoundState, token: &str) -> io::Result<()> {
    let Some(place) = state.place() else { return Ok(()) };
    let mut held = Vec::new();
    let mut bytes = Vec::new();
    push(&mut bytes, &["MULTI"]);
    let value = "x".repeat(1_500);
    (0..80).for_each(|_| push(&mut bytes, &["ECHO", &value]));
    for _ in 0..QUEUES {
        if state.is_stopped() {
            break;
        }
        let mut caller = Caller::connect(place.resp, token)?;
        caller.send(&bytes)?;
        held.push(caller);
    }
    hold(state);
    Ok(())
}

fn bodies(state: &RoundState, token: &str) -> io::Result<()> {
    let Some(place) = state.place() else { return Ok(()) };
    let whole = http::request(place.http, token, "POST /v1/check", "{\"key\":\"u\",\"policy\":\"100/h\"}");
    let half = &whole.as_bytes()[..whole.len() - 10];
    let mut held = Vec::new();
    for _ in 0..BODIES {
        if state.is_stopped() {
            break;
        }
        let mut stream = TcpStream::connect_timeout(&place.http, HOLDS)?;
        stream.write_all(half)?;
        held.push(stream);
    }
    hold(state);
    Ok(())
}

fn idle(state: &RoundState) -> io::Result<()> {
    let Some(place) = state.place() else { return Ok(()) };
    let held = (0..IDLE).map(|number| {
        let to = if number % 2 == 0 { place.resp } else { place.http };
        TcpStream::connect_timeout(&to, HOLDS)
    });
    let held = held.collect::<io::Result<Vec<_>>>()?;
    hold(state);
    drop(held);
    Ok(())
}
