//! The Redis protocol over TLS: certificates that change, and handshakes that do not end.

use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rcgen::CertifiedKey;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion};
use tollgate_daemon::{ClusterSettings, ConnectionLimits, Server, ServerSettings, StartError, TlsError, TlsFiles};

use crate::listeners::support::{Client, Folder, TRIES, connect, settings};

/// A certificate, its key, and its text for clients.
struct Identity {
    cert: String,
    key: String,
    der: CertificateDer<'static>,
}

fn identity() -> Identity {
    let CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    Identity { cert: cert.pem(), key: signing_key.serialize_pem(), der: cert.der().clone() }
}

fn files(folder: &Folder, identity: &Identity) -> TlsFiles {
    TlsFiles { cert: folder.write("cert.pem", &identity.cert), key: folder.write("key.pem", &identity.key) }
}

fn start(folder: &Folder, identity: &Identity, limits: ConnectionLimits) -> (Server, SocketAddr) {
    let server = Server::start(ServerSettings { tls: Some(files(folder, identity)), limits, ..settings() }).unwrap();
    let addr = server.resp_addr().unwrap();
    (server, addr)
}

/// A client that trusts this certificate alone.
fn client(
    addr: SocketAddr,
    trusted: &Identity,
    versions: &[&'static SupportedProtocolVersion],
) -> Client<StreamOwned<ClientConnection, TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.der.clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    Client(BufReader::new(StreamOwned::new(connection, connect(1, addr))))
}

fn is_served(addr: SocketAddr, trusted: &Identity) -> bool {
    client(addr, trusted, &[&TLS13, &TLS12]).is_served()
}

#[test]
fn commands_are_answered_over_tls_of_either_version() {
    let (folder, identity) = (Folder::new(), identity());
    let (server, addr) = start(&folder, &identity, ConnectionLimits::default());
    for version in [&TLS12, &TLS13] {
        let mut client = client(addr, &identity, &[version]);
        assert!(client.is_served());
        // Long enough for several records.
        let long = "x".repeat(60_000);
        assert_eq!(client.ask(&["ECHO", &long]), format!("${}", long.len()));
        assert_eq!(client.line(), long);
    }
    let mut idle = client(addr, &identity, &[&TLS13]);
    assert!(idle.is_served());
    server.stop();
}

#[test]
fn a_cluster_of_one_node_is_reached_over_tls_by_the_name_of_its_certificate() {
    let (folder, identity) = (Folder::new(), identity());
    let cluster = Some(ClusterSettings { announced: Some("localhost:7379".parse().unwrap()) });
    let tls = Some(files(&folder, &identity));
    let server = Server::start(ServerSettings { tls, cluster, ..settings() }).unwrap();
    let mut client = client(server.resp_addr().unwrap(), &identity, &[&TLS13]);
    assert_eq!(client.ask(&["CLUSTER", "SHARDS"]), "*1");
    let words: Vec<String> = (0..30).map(|_| client.line()).collect();
    let at = |word: &str| words.iter().position(|found| found == word).unwrap_or_else(|| panic!("{word}: {words:?}"));
    assert_eq!(words[at("tls-port") + 1], ":7379");
    assert_eq!(words[at("endpoint") + 2], "localhost");
    assert!(!words.contains(&"port".to_owned()), "{words:?}");
}

#[test]
fn who_speaks_no_tls_is_not_served() {
    let (folder, identity) = (Folder::new(), identity());
    let (_server, addr) = start(&folder, &identity, ConnectionLimits::default());
    assert!(!Client::connect(1, addr).is_served());
    assert!(is_served(addr, &identity));
}

#[test]
fn a_new_certificate_is_taken_on_request_and_a_wrong_one_is_not() {
    let (folder, old, new) = (Folder::new(), identity(), identity());
    let (server, addr) = start(&folder, &old, ConnectionLimits::default());
    let mut before = client(addr, &old, &[&TLS13]);
    assert!(before.is_served() && !is_served(addr, &new));
    // The certificate without its key, then nonsense, then nothing.
    folder.write("cert.pem", &new.cert);
    server.reload();
    assert!(is_served(addr, &old));
    folder.write("key.pem", "nonsense");
    server.reload();
    assert!(is_served(addr, &old));
    std::fs::remove_file(folder.path("cert.pem")).unwrap();
    server.reload();
    assert!(is_served(addr, &old) && !is_served(addr, &new));
    files(&folder, &new);
    server.reload();
    assert!(is_served(addr, &new) && !is_served(addr, &old));
    assert!(before.is_served(), "connections that are there stay");
}

#[test]
fn files_that_change_are_noticed() {
    let (folder, old, new) = (Folder::new(), identity(), identity());
    let limits = ConnectionLimits { tls_watch: Duration::from_millis(1), ..ConnectionLimits::default() };
    let (_server, addr) = start(&folder, &old, limits);
    assert!(is_served(addr, &old));
    files(&folder, &new);
    assert!((0..TRIES).any(|_| is_served(addr, &new)));
    assert!(!is_served(addr, &old));
}

#[test]
fn a_handshake_that_does_not_end_takes_a_place_and_loses_it() {
    let (folder, identity) = (Folder::new(), identity());
    let limits = ConnectionLimits {
        connections: 2,
        reserved: 0,
        handshake: Duration::from_millis(50),
        ..ConnectionLimits::default()
    };
    let (_server, addr) = start(&folder, &identity, limits);
    let mut silent = connect(1, addr);
    let mut slow = connect(1, addr);
    slow.write_all(&[22, 3, 1]).unwrap();
    // Both end, one without a word, one perhaps with an alert; a hang would be an error here.
    for stream in [&mut silent, &mut slow] {
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        assert!(said.len() < 16, "{said:?}");
    }
    assert!((0..TRIES).any(|_| is_served(addr, &identity)));
}

#[test]
fn half_open_handshakes_count_as_connections() {
    let (folder, identity) = (Folder::new(), identity());
    let limits = ConnectionLimits { connections_per_prefix: 2, ..ConnectionLimits::default() };
    let (server, addr) = start(&folder, &identity, limits);
    let held = [connect(2, addr), connect(2, addr)];
    let mut refused = connect(2, addr);
    assert_eq!(refused.read(&mut [0; 9]).unwrap_or(0), 0, "closed without a word that no handshake knows");
    assert!(is_served(addr, &identity), "others are served");
    // They do not keep the server from ending either.
    server.stop();
    drop(held);
}

#[test]
fn a_server_does_not_start_with_a_wrong_certificate() {
    let (folder, one, other) = (Folder::new(), identity(), identity());
    let start = |tls: TlsFiles| match Server::start(ServerSettings { tls: Some(tls), ..settings() }) {
        Err(StartError::Tls(error)) => error,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it started"),
    };
    let good = files(&folder, &one);
    let wrong = folder.write("wrong.pem", "-----BEGIN NONSENSE-----\n");
    let strange = folder.write("strange.pem", &other.key);
    let missing = folder.path("missing.pem");
    assert!(
        matches!(start(TlsFiles { cert: wrong.clone(), ..good.clone() }), TlsError::Certificate(path) if path == wrong)
    );
    assert!(matches!(start(TlsFiles { key: wrong.clone(), ..good.clone() }), TlsError::Key(path) if path == wrong));
    assert!(
        matches!(start(TlsFiles { key: missing.clone(), ..good.clone() }), TlsError::Read(path, _) if path == missing)
    );
    assert!(matches!(start(TlsFiles { key: strange, ..good }), TlsError::Pair(_)));
}
