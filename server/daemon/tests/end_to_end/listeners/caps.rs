//! Connections within bounds: of one caller, of all, and some kept for this machine.

use std::net::Ipv4Addr;

use tollgate_daemon::{ConnectionLimits, Server, ServerSettings};

use crate::listeners::support::{Client, TRIES, settings, start};

fn limits(connections: usize, reserved: usize, connections_per_prefix: usize) -> ConnectionLimits {
    ConnectionLimits { connections, reserved, connections_per_prefix, ..ConnectionLimits::default() }
}

#[test]
fn one_caller_has_so_many_connections_and_is_told() {
    let (_server, addr) = start(limits(100, 0, 3));
    let mut held: Vec<_> = (0..3).map(|_| Client::connect(2, addr)).collect();
    assert!(held.iter_mut().all(Client::is_served));
    let mut more = Client::connect(2, addr);
    assert_eq!(more.line(), "-ERR max number of clients reached; expected at most 3 connections of one address");
    assert_eq!(more.line(), "", "and it is closed");
    // Others are served, and this machine has no such limit.
    assert!(Client::connect(3, addr).is_served());
    let mut own: Vec<_> = (0..10).map(|_| Client::connect(1, addr)).collect();
    assert!(own.iter_mut().all(Client::is_served) && held.iter_mut().all(Client::is_served));
    // A place that is left is a place for the next.
    drop(held);
    assert!((0..TRIES).any(|_| Client::connect(2, addr).is_served()));
}

#[test]
fn all_have_so_many_and_some_are_kept_for_this_machine() {
    let (_server, addr) = start(limits(8, 2, 2));
    let mut strangers: Vec<_> =
        (2..5).flat_map(|from| [Client::connect(from, addr), Client::connect(from, addr)]).collect();
    assert!(strangers.iter_mut().all(Client::is_served));
    let refused = Client::connect(9, addr).line();
    assert_eq!(refused, "-ERR max number of clients reached; expected at most 6 connections in all");
    let mut own = [Client::connect(1, addr), Client::connect(1, addr)];
    assert!(own.iter_mut().all(Client::is_served));
    let refused = Client::connect(1, addr).line();
    assert_eq!(refused, "-ERR max number of clients reached; expected at most 8 connections in all");
    assert!(strangers.iter_mut().chain(&mut own).all(Client::is_served), "nobody was sent away");
}

#[test]
fn trusted_proxies_stand_for_many() {
    let trusted_proxies = vec![tollgate_daemon::trusted_proxy("127.0.0.7").unwrap()];
    let server = Server::start(ServerSettings { limits: limits(100, 0, 2), trusted_proxies, ..settings() }).unwrap();
    let addr = server.resp_addr().unwrap();
    let mut proxied: Vec<_> = (0..10).map(|_| Client::connect(7, addr)).collect();
    assert!(proxied.iter_mut().all(Client::is_served));
}

#[test]
fn over_http_a_refusal_is_an_answer_of_http() {
    let http = Some((Ipv4Addr::LOCALHOST, 0).into());
    let server = Server::start(ServerSettings { http, limits: limits(1, 0, 1), ..settings() }).unwrap();
    let mut held = Client::connect(1, server.resp_addr().unwrap());
    assert!(held.is_served());
    let mut refused = Client::connect(1, server.http_addr().unwrap());
    assert_eq!(refused.line(), "HTTP/1.1 503 Service Unavailable");
    assert_eq!(refused.line(), "content-type: application/problem+json");
    assert!(held.is_served());
}

#[test]
fn several_addresses_share_their_places() {
    let more_resp = vec![(Ipv4Addr::LOCALHOST, 0).into(), (Ipv4Addr::new(127, 0, 0, 5), 0).into()];
    let server = Server::start(ServerSettings { more_resp, limits: limits(3, 0, 9), ..settings() }).unwrap();
    let addrs = server.resp_addrs();
    assert_eq!((addrs.len(), Some(addrs[0])), (3, server.resp_addr()));
    let mut clients: Vec<_> = addrs.iter().map(|addr| Client::connect(1, *addr)).collect();
    assert!(clients.iter_mut().all(Client::is_served));
    assert!(Client::connect(1, addrs[2]).line().contains("at most 3 connections in all"));
}
