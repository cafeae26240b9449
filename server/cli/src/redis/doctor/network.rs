//! The connection to the nodes: the duration of a round trip, and the offset of the clocks.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tollgate_kernel::Micros;

use super::finding::DoctorFinding;
use crate::server::{Fleet, FleetNode, ServerError};
use crate::text;

/// The number of round trips measured on each node; the median is shown.
const TRIPS: usize = 21;
/// By default, a store waits 20 ms for a decision.
const SLOW: Duration = Duration::from_millis(10);
const APART_US: i128 = 1_000_000;

/// Returns a finding for each primary of a cluster that cannot be reached.
pub(super) fn lost(away: &[ServerError]) -> Vec<DoctorFinding> {
    let remedy = "its keys are decided by nobody until it answers or a replica takes over";
    away.iter().map(|error| DoctorFinding::problem("reach", error.to_string(), remedy)).collect()
}

/// Returns findings about the slowest node, and the one whose clock is furthest off.
pub(super) fn findings(fleet: &mut Fleet) -> Result<Vec<DoctorFinding>, ServerError> {
    let (mut slowest, mut furthest) = ((Duration::ZERO, String::new()), (0, String::new()));
    for node in &mut fleet.primaries {
        let (trip, offset) = measure(node)?;
        if trip >= slowest.0 {
            slowest = (trip, node.name());
        }
        if offset.abs() >= i128::abs(furthest.0) {
            furthest = (offset, node.name());
        }
    }
    Ok(vec![reach(slowest, fleet.primaries.len()), clock(furthest)])
}

/// Returns the median round trip, and the server's clock minus ours, taken from the fastest trip.
fn measure(node: &mut FleetNode) -> Result<(Duration, i128), ServerError> {
    let mut trips = Vec::new();
    for _ in 0..TRIPS {
        let (began, wall) = (Instant::now(), SystemTime::now());
        let (seconds, micros): (i128, i128) = node.connection.query(&["TIME"])?;
        let trip = began.elapsed();
        let ours = wall.duration_since(UNIX_EPOCH).unwrap_or_default() + trip / 2;
        trips.push((trip, seconds * 1_000_000 + micros - ours.as_micros() as i128));
    }
    trips.sort_unstable();
    let fastest = trips.first().copied().unwrap_or_default();
    let median = trips.get(TRIPS / 2).copied().unwrap_or_default();
    Ok((median.0, fastest.1))
}

fn reach((trip, node): (Duration, String), nodes: usize) -> DoctorFinding {
    let trip_text = span(trip.as_micros());
    let text = match nodes {
        1 => format!("{node} answers in {trip_text}"),
        _ => format!("{nodes} primaries answer, the slowest in {trip_text} ({node})"),
    };
    match trip > SLOW {
        true => DoctorFinding::warning(
            "reach",
            text,
            "a store waits 20ms for a decision: move it nearer to the server, or raise its deadline",
        ),
        false => DoctorFinding::ok("reach", text),
    }
}

fn clock((offset, node): (i128, String)) -> DoctorFinding {
    let side = if offset < 0 { "behind" } else { "ahead of" };
    let text = match offset.unsigned_abs() {
        ..1_000 => format!("{node} is within 1ms of this machine"),
        apart => format!("{node} is {} {side} this machine", span(apart)),
    };
    match offset.abs() > APART_US {
        true => DoctorFinding::warning(
            "clock",
            text,
            "limits are decided by the server's clock and stay right; absolute times and windows decided here while \
             the server is away differ: let both follow NTP",
        ),
        false => DoctorFinding::ok("clock", text),
    }
}

fn span(us: u128) -> String {
    text::wait(tollgate_kernel::Wait::After(Micros::new(u64::try_from(us).unwrap_or(u64::MAX))))
}
