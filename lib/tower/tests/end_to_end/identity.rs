//! A client cannot get more by claiming other addresses: only those that trusted proxies report are believed.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use http::Request;
use tollgate_tower::testing::TestClock;
use tollgate_tower::{ClientIp, GateLayer, Peer, Proxies};

use crate::support::in_process::{gated, now};
use crate::support::web::{curl, serve};

const MANY: u32 = 100_000;

fn from(peer: SocketAddr, forwarded: Option<&str>) -> Request<()> {
    let mut request = Request::get("/").body(()).unwrap();
    if let Some(forwarded) = forwarded {
        request.headers_mut().insert("x-forwarded-for", forwarded.parse().unwrap());
    }
    request.extensions_mut().insert(Peer(peer));
    request
}

fn behind(proxies: &[&str]) -> ClientIp {
    ClientIp::behind(Proxies::new(proxies).unwrap())
}

/// How many of many requests pass a limit of 50, and how many keys that makes.
fn passing(key: ClientIp, request: impl Fn(u32) -> Request<()>) -> (usize, u64) {
    let gate = TestClock::new().gate("50/d").unwrap();
    let mut service = gated(&GateLayer::new(gate.clone()).key(key));
    let passed = (0..MANY).filter(|number| now(&mut service, request(*number)).status() == 200).count();
    (passed, gate.stats().keys as u64)
}

#[test]
fn an_untrusted_peer_that_rotates_x_forwarded_for_is_one_client() {
    let peer = SocketAddr::from(([198, 51, 100, 1], 4711));
    let rotating = |number: u32| from(peer, Some(&Ipv4Addr::from_bits(number).to_string()));
    assert_eq!(passing(behind(&["10.0.0.0/8"]), rotating), (50, 1));
    assert_eq!(passing(ClientIp::peer(), rotating), (50, 1));
}

#[test]
fn behind_a_trusted_proxy_its_clients_are_many() {
    let proxy = SocketAddr::from(([10, 1, 2, 3], 4711));
    let address = |number: u32| Ipv4Addr::from_bits(0xcb00_7100 ^ number.rotate_left(8)).to_string();
    let (passed, keys) = passing(behind(&["10.0.0.0/8"]), |number| from(proxy, Some(&address(number))));
    assert_eq!((passed, keys), (MANY as usize, u64::from(MANY)));
}

#[test]
fn a_client_behind_a_trusted_proxy_that_rotates_what_it_sends_is_one_client() {
    let proxy = SocketAddr::from(([10, 1, 2, 3], 4711));
    let appended = |number: u32| from(proxy, Some(&format!("{}, 198.51.100.1", Ipv4Addr::from_bits(number))));
    assert_eq!(passing(behind(&["10.0.0.0/8"]), appended), (50, 1));
}

#[test]
fn the_addresses_of_one_network_are_one_client() {
    let network = 0x2001_0db8_0001_0002_u128 << 64;
    let spread = |number: u32| (u128::from(number) * 0x9e37_79b9_7f4a_7c15) & u128::from(u64::MAX);
    let peer = |number| SocketAddr::from((Ipv6Addr::from_bits(network | spread(number)), 4711));
    assert_eq!(passing(ClientIp::peer(), |number| from(peer(number), None)), (50, 1));
    // Networks of other clients are others.
    let other = |number: u32| SocketAddr::from((Ipv6Addr::from_bits(network + (u128::from(number) << 64)), 4711));
    assert_eq!(passing(ClientIp::peer(), |number| from(other(number), None)), (MANY as usize, u64::from(MANY)));
    // An address of IPv4 that is written as one of IPv6 is the same client, whatever its neighbours do.
    let mapped = |number: u32| match number % 2 {
        0 => SocketAddr::from((Ipv4Addr::new(198, 51, 100, 1).to_ipv6_mapped(), 4711)),
        _ => SocketAddr::from(([198, 51, 100, 1], 4711)),
    };
    assert_eq!(passing(ClientIp::peer(), |number| from(mapped(number), None)), (50, 1));
}

/// A real nginx as the trusted proxy, as it is mostly set up: it appends its client to what that sent.
#[tokio::test]
async fn behind_nginx_clients_are_told_apart_and_none_is_two() {
    let clock = TestClock::new();
    let layer = GateLayer::new(clock.gate("3/min").unwrap()).key(behind(&["127.0.0.1"]));
    let server = serve(Router::new().route("/", get(async || "hello")).layer(layer)).await;
    let nginx = Nginx::start(server.addr).await;
    let url = format!("http://{}/", nginx.addr);
    for (client, statuses) in [("127.0.0.2", [200, 200, 200, 429, 429]), ("127.0.0.3", [200, 200, 200, 429, 429])] {
        for (number, status) in statuses.into_iter().enumerate() {
            let spoofed = format!("x-forwarded-for: 10.0.0.{number}");
            let answer = curl(&url, &["--interface", client, "-H", &spoofed]).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{client} {number}: {answer}");
        }
    }
    // A client that connects directly, past the proxy, is not believed.
    let url = server.url("/");
    for (number, status) in [200, 200, 200, 429].into_iter().enumerate() {
        let spoofed = format!("x-forwarded-for: 10.0.0.{number}");
        let answer = curl(&url, &["--interface", "127.0.0.4", "-H", &spoofed]).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{number}: {answer}");
    }
}

/// nginx in a folder of its own, gone when it is dropped.
struct Nginx {
    child: Child,
    folder: PathBuf,
    addr: SocketAddr,
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Nginx {
    /// A free port may be taken before nginx has it, so this is tried a few times.
    async fn start(upstream: SocketAddr) -> Self {
        for attempt in 0..5 {
            let addr = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
            let folder = std::env::temp_dir().join(format!("tollgate-tower-nginx-{}-{attempt}", std::process::id()));
            let mut nginx = Self { child: spawn(&folder, addr, upstream), folder, addr };
            if nginx.answers().await {
                return nginx;
            }
        }
        panic!("nginx does not start");
    }

    /// Returns whether it listens within ten seconds.
    async fn answers(&mut self) -> bool {
        for _ in 0..200 {
            if tokio::net::TcpStream::connect(self.addr).await.is_ok() {
                return true;
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                let said = std::fs::read_to_string(self.folder.join("error.log")).unwrap_or_default();
                assert!(said.contains("Address already in use"), "nginx ended with {status}: {said}");
                return false;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        false
    }
}

fn spawn(folder: &std::path::Path, addr: SocketAddr, upstream: SocketAddr) -> Child {
    std::fs::create_dir_all(folder).unwrap();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|what| format!("{what}_temp_path {};\n", folder.join(what).display()))
        .concat();
    let config = format!(
        "daemon off;\nmaster_process off;\npid {0}/pid;\nerror_log {0}/error.log;\nevents {{}}\nhttp {{\naccess_log off;\n\
         {temporary}server {{\nlisten {addr};\nlocation / {{\nproxy_pass http://{upstream};\n\
         proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;\n}}\n}}\n}}\n",
        folder.display()
    );
    let file = folder.join("nginx.conf");
    std::fs::write(&file, config).unwrap();
    let start = |program: &str| {
        let mut command = Command::new(program);
        command.arg("-p").arg(folder).arg("-e").arg(folder.join("error.log")).arg("-c").arg(&file);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()
    };
    let started = start("nginx").or_else(|_| start("/usr/sbin/nginx"));
    started.unwrap_or_else(|error| panic!("nginx: {error}; cargo xtask install brings it"))
}
