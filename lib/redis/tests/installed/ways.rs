//! Connections other than plain TCP to Redis: TLS, sentinels, and Valkey.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{command, policy};
use tollgate_kernel::{Request, Source, Store};
use tollgate_kit::Server;
use tollgate_redis::{Packaging, Redis};

/// A folder that is removed when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tollgate-ways-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_string()
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.0.join(name)).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn openssl(folder: &Path, args: &str) {
    let args: Vec<&str> = args.split_whitespace().collect();
    let run = Command::new("openssl").args(args).current_dir(folder).stderr(Stdio::null()).status();
    assert!(run.unwrap().success());
}

/// An authority, and certificates signed by it for localhost and for a client.
fn certificates(folder: &Folder) {
    let path = &folder.0;
    openssl(path, "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.pem");
    std::fs::write(path.join("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1").unwrap();
    for name in ["server", "client"] {
        openssl(path, &format!("req -newkey rsa:2048 -nodes -subj /CN={name} -keyout {name}.key -out {name}.csr"));
        let signed = "-CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names";
        openssl(path, &format!("x509 -req -in {name}.csr {signed} -out {name}.pem"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_with_a_private_authority_and_a_client_certificate() {
    let (folder, port) = (Folder::new("tls"), free_port());
    certificates(&folder);
    let server = Server::builder()
        .option("--tls-port", &port.to_string())
        .option("--tls-cert-file", &folder.file("server.pem"))
        .option("--tls-key-file", &folder.file("server.key"))
        .option("--tls-ca-cert-file", &folder.file("ca.pem"))
        .start()
        .unwrap();
    let builder = |host: &str| Redis::builder(&format!("rediss://{host}:{port}")).deadline(Duration::from_secs(5));
    for host in ["localhost", "127.0.0.1"] {
        let with_ours = builder(host)
            .authority(folder.read("ca.pem"))
            .client_certificate(folder.read("client.pem"), folder.read("client.key"));
        let store = with_ours.connect().await.unwrap();
        assert_eq!(store.check(&policy("5/h"), host.as_bytes(), Request::ONE).await.unwrap().source, Source::Home);
    }
    let unknown = builder("localhost").connect().await.unwrap_err().to_string();
    assert!(unknown.contains("TLS"), "the public roots do not know our authority: {unknown}");
    let anonymous = builder("localhost").authority(folder.read("ca.pem")).connect().await;
    assert!(anonymous.is_err(), "the server asks for a certificate");
    drop(server);
}

struct Sentinel(Child);

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn sentinel(folder: &Folder, port: u16, master: &Server) -> Sentinel {
    let config = format!(
        "port {port}\nbind 127.0.0.1\nrequirepass watch\nsentinel monitor mymaster 127.0.0.1 {} 1\n\
         sentinel down-after-milliseconds mymaster 500\nsentinel failover-timeout mymaster 2000\n",
        master.port()
    );
    std::fs::write(folder.0.join("sentinel.conf"), config).unwrap();
    let child =
        Command::new("redis-server").arg(folder.file("sentinel.conf")).arg("--sentinel").stdout(Stdio::null()).spawn();
    Sentinel(child.unwrap())
}

async fn decided_at_home(store: &Redis, within: Duration) -> Duration {
    let start = Instant::now();
    while store.check(&policy("1000/h"), b"k", Request::ONE).await.unwrap().source != Source::Home {
        assert!(start.elapsed() < within, "{:?}", store.stats());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    start.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_report_the_master_and_its_successor() {
    let (folder, port) = (Folder::new("sentinel"), free_port());
    let (mut master, replica) = (Server::start().unwrap(), Server::start().unwrap());
    command(&replica.url(), &["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    let _sentinel = sentinel(&folder, port, &master);
    // No server listens at the first address; the second sentinel is queried.
    let url = format!("redis+sentinel://127.0.0.1:1,127.0.0.1:{port}/mymaster");
    let store = Redis::builder(&url).sentinel_password("watch").deadline(Duration::from_millis(50)).lazy().unwrap();
    decided_at_home(&store, Duration::from_secs(5)).await;
    // The sentinel looks for replicas every ten seconds; it cannot promote one it has not seen.
    let sentinel_url = format!("redis://:watch@127.0.0.1:{port}");
    let seen = Instant::now();
    while matches!(command(&sentinel_url, &["SENTINEL", "REPLICAS", "mymaster"]), redis::Value::Array(none) if none.is_empty())
    {
        assert!(seen.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    master.kill_hard().unwrap();
    assert_eq!(store.check(&policy("1000/h"), b"k", Request::ONE).await.unwrap().source, Source::Local);
    let took = decided_at_home(&store, Duration::from_secs(20)).await;
    println!("sentinel: decided by the successor {took:?} after the master was killed");
    assert!(Redis::builder(&url.replace("mymaster", "other")).sentinel_password("watch").connect().await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn valkey_decides_alike() {
    let Ok(binary) = tollgate_kit::valkey() else {
        println!("no valkey-server here");
        return;
    };
    for packaging in [Packaging::Function, Packaging::Script, Packaging::Auto] {
        let server = Server::builder().binary(&binary).start().unwrap();
        let store = Redis::builder(&server.url()).packaging(packaging).deadline(Duration::from_secs(5));
        let store = store.connect().await.unwrap();
        for flush in ["SCRIPT", "FUNCTION"] {
            assert_eq!(store.check(&policy("5/h"), b"k", Request::ONE).await.unwrap().source, Source::Home);
            command(&server.url(), &[flush, "FLUSH"]);
        }
        let decision = store.check(&policy("5/h"), b"k", Request::ONE).await.unwrap();
        assert_eq!((decision.source, decision.remaining), (Source::Home, 2), "{packaging:?}");
    }
}
