//! Redis and Tollgate servers of a test's own that store limits.

use std::net::Ipv4Addr;
use std::time::Duration;

use tollgate::ManualClock;
use tollgate::redis::Redis;
use tollgate_daemon::{Server, ServerSettings};
use tollgate_kernel::Timestamp;

/// Longer than any answer takes, also on a busy machine, so that its speed does not change what decides.
const PATIENCE: Duration = Duration::from_secs(20);

/// Where clocks stand at first.
pub(crate) fn begin() -> ManualClock {
    ManualClock::at(Timestamp::new(1_700_000_000_000_000).unwrap())
}

/// The store at this address.
pub(crate) async fn store(url: &str) -> Redis {
    Redis::builder(url).deadline(PATIENCE).connect().await.unwrap()
}

/// A Tollgate server by this clock, and its address with a token that allows everything.
pub(crate) fn tollgate(clock: &ManualClock) -> (Server, String) {
    let any = (Ipv4Addr::LOCALHOST, 0).into();
    let settings = ServerSettings { resp: Some(any), http: None, threads: 1, ..ServerSettings::default() };
    let server = Server::start_with_clock(settings, clock).unwrap();
    let url = format!("tollgate://{}@{}", server.token().unwrap().text(), server.resp_addr().unwrap());
    (server, url)
}
