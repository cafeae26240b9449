//! A real nginx with the recipe of `docs/gate.md` in front of a service: what the guide says is what is run.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tollgate_daemon::{Server, ServerSettings, trusted_proxy};
use tollgate_memory::ManualClock;

/// The block of that language in the guide.
fn recipe(language: &str) -> String {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/gate.md");
    let text = fs::read_to_string(guide).unwrap();
    let (_, behind) = text.split_once(&format!("```{language}\n")).expect("the guide has a block");
    behind.split_once("\n```").expect("the block ends").0.to_owned()
}

/// A service that says how many requests it has had.
struct Upstream {
    addr: SocketAddr,
    had: Arc<AtomicUsize>,
}

impl Upstream {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (addr, had) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&had);
        // It ends with the test's process.
        thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                count.fetch_add(1, Ordering::Relaxed);
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nhi\n");
            }
        });
        Self { addr, had }
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
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Nginx {
    /// The recipe with these addresses in place of those it speaks of. A free port may be taken before nginx
    /// has it, so this is tried a few times.
    fn start(recipe: &str, gate: SocketAddr, upstream: SocketAddr) -> Self {
        for attempt in 0..5 {
            let addr = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
            let port = addr.port();
            let folder = std::env::temp_dir().join(format!("tollgate-nginx-{}-{port}-{attempt}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            let mut server = recipe.to_owned();
            for (spoken, ours) in [
                ("listen 80;", format!("listen {addr};")),
                ("127.0.0.1:7380", gate.to_string()),
                ("127.0.0.1:8080", upstream.to_string()),
                ("policy=100/min", "policy=3/min".to_owned()),
            ] {
                assert_eq!(server.matches(spoken).count(), 1, "{spoken}");
                server = server.replace(spoken, &ours);
            }
            let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
                .map(|what| format!("{what}_temp_path {};\n", folder.join(what).display()))
                .concat();
            let whole = format!(
                "daemon off;\nmaster_process off;\npid {0}/pid;\nerror_log {0}/error.log;\n\
                 events {{}}\nhttp {{\naccess_log off;\n{temporary}{server}\n}}\n",
                folder.display()
            );
            let file = folder.join("nginx.conf");
            fs::write(&file, whole).unwrap();
            let child = spawn(&file, &folder);
            let mut nginx = Self { child, folder, addr };
            if nginx.answers() {
                return nginx;
            }
        }
        panic!("nginx does not start");
    }

    /// Whether it listens before it gives up, within ten seconds.
    fn answers(&mut self) -> bool {
        for _ in 0..100 {
            if TcpStream::connect(self.addr).is_ok() {
                return true;
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                let said = fs::read_to_string(self.folder.join("error.log")).unwrap_or_default();
                assert!(said.contains("Address already in use"), "nginx ended with {status}: {said}");
                return false;
            }
            thread::sleep(Duration::from_millis(100));
        }
        false
    }

    /// The head of the answer to a request of a client.
    fn get(&self, headers: &str) -> String {
        let mut stream = TcpStream::connect(self.addr).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        write!(stream, "GET /page HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n{headers}\r\n").unwrap();
        let mut told = String::new();
        stream.read_to_string(&mut told).unwrap();
        told.split("\r\n\r\n").next().unwrap_or_default().to_owned()
    }
}

fn spawn(file: &Path, folder: &Path) -> Child {
    let start = |program: &str| {
        let mut command = Command::new(program);
        command.arg("-p").arg(folder).arg("-e").arg(folder.join("error.log")).arg("-c").arg(file);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()
    };
    let started = start("nginx").or_else(|_| start("/usr/sbin/nginx"));
    started.unwrap_or_else(|error| panic!("nginx: {error}; cargo xtask install brings it"))
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

/// A server that believes the nginx beside it.
fn start(clock: &ManualClock) -> Server {
    let settings = ServerSettings {
        resp: None,
        http: Some("127.0.0.1:0".parse().unwrap()),
        threads: 1,
        trusted_proxies: vec![trusted_proxy("127.0.0.1").unwrap()],
        ..ServerSettings::default()
    };
    Server::start_with_clock(settings, clock).unwrap()
}

fn clock() -> ManualClock {
    ManualClock::at(tollgate_kernel::Timestamp::new(1_790_000_000_000_000).unwrap())
}

#[test]
fn nginx_passes_what_fits_and_answers_429_with_the_wait_for_the_rest() {
    let clock = clock();
    let server = start(&clock);
    let upstream = Upstream::start();
    let nginx = Nginx::start(&recipe("nginx"), server.http_addr().unwrap(), upstream.addr);
    // A client that says it is others is one client all the same.
    for (number, left) in [(1, "2"), (2, "1"), (3, "0")] {
        let head = nginx.get(&format!("X-Forwarded-For: 10.0.0.{number}\r\nTollgate-Policy: 1000/s\r\n"));
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        let limit = format!("\"3/min\";r={left};t=60");
        assert_eq!(field(&head, "RateLimit"), Some(limit.as_str()), "{head}");
        assert_eq!(field(&head, "RateLimit-Policy"), Some("\"3/min\";q=3;w=60"));
        assert_eq!(field(&head, "Retry-After"), None);
    }
    clock.advance(tollgate_kernel::Micros::from_millis(20_500));
    for _ in 0..2 {
        let head = nginx.get("");
        assert!(head.starts_with("HTTP/1.1 429 Too Many Requests"), "{head}");
        assert_eq!(field(&head, "Retry-After"), Some("40"), "{head}");
        assert_eq!(field(&head, "RateLimit"), Some("\"3/min\";r=0;t=40"));
    }
    assert_eq!(upstream.had.load(Ordering::Relaxed), 3, "the service saw what passed, and nothing else");
    clock.advance(tollgate_kernel::Micros::from_millis(39_500));
    assert!(nginx.get("").starts_with("HTTP/1.1 200 "));
    server.stop();
    for _ in 0..5 {
        let head = nginx.get("");
        assert!(head.starts_with("HTTP/1.1 200 "), "without the server nobody is refused: {head}");
    }
    assert_eq!(upstream.had.load(Ordering::Relaxed), 9);
}

#[test]
fn what_a_client_sends_beside_its_address_is_nothing_to_the_gate() {
    let clock = clock();
    let server = start(&clock);
    let upstream = Upstream::start();
    let nginx = Nginx::start(&recipe("nginx"), server.http_addr().unwrap(), upstream.addr);
    let many: String = (0..70).map(|number| format!("X-Field-{number}: {number}\r\n")).collect();
    let large: String = (0..3).map(|number| format!("X-Large-{number}: {}\r\n", "x".repeat(7_000))).collect();
    let bodies = "Content-Type: text/plain\r\nContent-Length: 0\r\nCookie: a=b\r\n";
    for headers in [
        "Authorization: Bearer app.jwt\r\n",
        "Authorization: Basic dXNlcjpwYXNz\r\n",
        &many,
        &large,
        "Sec-Fetch-Site: cross-site\r\n",
        bodies,
    ] {
        let shown = &headers[..headers.len().min(40)];
        let head = nginx.get(headers);
        assert!(head.starts_with("HTTP/1.1 200 "), "{shown}: {head}");
        assert_eq!(field(&head, "RateLimit"), Some("\"3/min\";r=2;t=60"), "the server decided {shown}");
        clock.advance(tollgate_kernel::Micros::from_secs(60));
    }
    assert_eq!(upstream.had.load(Ordering::Relaxed), 6);
    // As often as a wrong token would be throttled, and again: it is counted like any other request.
    for _ in 0..3 {
        assert!(nginx.get("Authorization: Bearer app.jwt\r\n").starts_with("HTTP/1.1 200 "));
    }
    for _ in 0..6 {
        assert!(nginx.get("Authorization: Bearer app.jwt\r\n").starts_with("HTTP/1.1 429 "));
    }
    server.stop();
}
