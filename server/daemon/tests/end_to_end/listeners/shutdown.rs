//! The end of a server: what came is answered, nobody else is, and it does come.

use std::io::Write;
use std::time::Duration;

use tollgate_daemon::{ConnectionLimits, Server, ServerSettings};

use crate::listeners::support::{Client, command, connect, settings, start};

#[test]
fn what_came_before_the_end_is_answered() {
    for round in 0..20 {
        let (server, addr) = start(ConnectionLimits::default());
        let mut old: Vec<_> = (0..5).map(|_| Client::connect(1, addr)).collect();
        assert!(old.iter_mut().all(Client::is_served));
        // Connections that nobody has taken yet, too.
        let mut clients: Vec<_> = old.into_iter().chain((0..5).map(|_| Client::connect(1, addr))).collect();
        let pipeline = command(&["TG.CHECK", "user:42", "1000/min"]).repeat(50);
        for client in &mut clients {
            client.0.get_mut().write_all(&pipeline).unwrap();
        }
        server.stop();
        for (number, client) in clients.iter_mut().enumerate() {
            for reply in 0..50 {
                assert_eq!(client.line(), "*6", "round {round}, client {number}, reply {reply}");
                (0..6).for_each(|_| assert!(client.line().starts_with(':')));
            }
            assert_eq!(client.line(), "", "and then it is closed");
        }
    }
}

#[test]
fn idle_connections_are_closed_and_new_ones_not_taken() {
    let (server, addr) = start(ConnectionLimits::default());
    let mut idle: Vec<_> = (0..10).map(|_| Client::connect(1, addr)).collect();
    assert!(idle.iter_mut().all(Client::is_served));
    // Half a command is nothing that came.
    idle[0].0.get_mut().write_all(b"*1\r\n$4\r\nPI").unwrap();
    server.stop();
    assert!(idle.iter_mut().all(|client| client.line().is_empty()));
    assert!(std::net::TcpStream::connect(addr).is_err());
}

#[test]
fn a_client_that_never_reads_does_not_keep_it_from_ending() {
    let limits = ConnectionLimits { stop: Duration::from_millis(50), ..ConnectionLimits::default() };
    let (server, addr) = start(limits);
    let mut stuck = connect(1, addr);
    stuck.set_nonblocking(true).unwrap();
    let echo = command(&["ECHO", &"x".repeat(10_000)]);
    // Until neither side's buffers take more.
    let full = (0..10_000).find(|_| stuck.write_all(&echo).is_err());
    assert!(full.is_some());
    server.stop();
}

#[test]
fn a_server_that_is_dropped_ends_too() {
    let server = Server::start(ServerSettings { threads: 1, ..settings() }).unwrap();
    let addr = server.resp_addr().unwrap();
    assert!(Client::connect(1, addr).is_served());
    drop(server);
    assert!(std::net::TcpStream::connect(addr).is_err());
}
