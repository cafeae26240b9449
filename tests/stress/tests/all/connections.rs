//! Every attack in small, on a server that takes few connections.

use crate::common::torture;

#[test]
fn a_server_stands_among_clients_that_mean_harm() {
    let sizes = ["--idle", "300", "--unread", "40", "--slow", "40", "--half", "40", "--addresses", "10"];
    let caps = ["--connections", "200", "--reserved", "40", "--prefix", "24", "--handshake", "2"];
    let times = ["--seconds", "1", "--patience", "30"];
    let said = torture(&[&["connections"][..], &sizes, &caps, &times].concat());
    assert!(said.contains("p99 within twice its baseline in "), "{said}");
}
