//! A server with a policy file, and somebody to ask it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tollgate_daemon::{Server, ServerSettings, StartError};
use tollgate_kernel::Timestamp;
use tollgate_memory::ManualClock;

/// When clocks begin.
pub(crate) const START: u64 = 1_790_000_000_000_000;
/// After this, a test that waits has found a mistake.
const HANGS: Duration = Duration::from_secs(60);

/// An empty folder for a test.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("config-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Writes a file that only its owner may write.
pub(crate) fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// Puts a file in the place of another at once, so that nobody sees half of it.
pub(crate) fn replace(path: &Path, text: &str) {
    let beside = path.with_extension("beside");
    write(&beside, text);
    fs::rename(&beside, path).unwrap();
}

/// A server, its clock and its file.
pub(crate) struct ConfigTestServer {
    pub(crate) server: Server,
    pub(crate) clock: ManualClock,
    pub(crate) file: PathBuf,
}

pub(crate) fn settings(file: &Path) -> ServerSettings {
    let free = Some("127.0.0.1:0".parse().unwrap());
    ServerSettings { resp: free, http: free, threads: 2, config: Some(file.to_owned()), ..ServerSettings::default() }
}

/// A server with the file at `path`.
pub(crate) fn start_at(path: &Path) -> Result<ConfigTestServer, StartError> {
    let clock = ManualClock::at(Timestamp::new(START).unwrap());
    let server = Server::start_with_clock(settings(path), &clock)?;
    Ok(ConfigTestServer { server, clock, file: path.to_owned() })
}

/// A server by other settings, and by the machine's clock.
pub(crate) fn start_by(path: &Path, settings: ServerSettings) -> ConfigTestServer {
    let server = Server::start(settings).unwrap();
    ConfigTestServer { server, clock: ManualClock::default(), file: path.to_owned() }
}

/// A server with a file of this text, in a folder of its own.
pub(crate) fn start(name: &str, yaml: &str) -> ConfigTestServer {
    let file = folder(name).join("tollgate.yaml");
    write(&file, yaml);
    start_at(&file).unwrap()
}

impl ConfigTestServer {
    /// Writes the file and has it read.
    pub(crate) fn change(&self, yaml: &str) {
        replace(&self.file, yaml);
        self.server.reload();
    }

    /// Waits until the generation is this one.
    pub(crate) fn wait_for(&self, generation: u64) {
        let end = Instant::now() + HANGS;
        while self.server.generation() != generation {
            assert!(Instant::now() < end, "expected generation {generation}, found {}", self.server.generation());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until a series has this value.
    pub(crate) fn wait_for_metric(&self, id: &str, value: f64) {
        let end = Instant::now() + HANGS;
        while self.metric(id) != value {
            assert!(Instant::now() < end, "expected {id} {value}, found {}", self.metric(id));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn metric(&self, id: &str) -> f64 {
        let text = self.get("/metrics").1;
        let found = text.lines().find_map(|line| line.strip_prefix(id)?.strip_prefix(' '));
        found.unwrap_or_else(|| panic!("no {id} in {text}")).parse().unwrap()
    }

    pub(crate) fn client(&self) -> Client {
        let stream = TcpStream::connect(self.server.resp_addr().unwrap()).unwrap();
        stream.set_read_timeout(Some(HANGS)).unwrap();
        Client(BufReader::new(stream))
    }

    pub(crate) fn get(&self, target: &str) -> (u16, String) {
        self.http(&format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
    }

    pub(crate) fn post(&self, target: &str, body: &str) -> serde_json::Value {
        let length = body.len();
        let (_, text) = self.http(&format!(
            "POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n{body}"
        ));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    pub(crate) fn http(&self, request: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.server.http_addr().unwrap()).unwrap();
        stream.set_read_timeout(Some(HANGS)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut told = String::new();
        stream.read_to_string(&mut told).unwrap();
        let (head, body) = told.split_once("\r\n\r\n").unwrap();
        (head[9..12].parse().unwrap(), body.to_owned())
    }
}

/// A connection that speaks the Redis protocol.
pub(crate) struct Client(BufReader<TcpStream>);

impl Client {
    /// The integers of a reply.
    pub(crate) fn ask(&mut self, words: &[&str]) -> Vec<i64> {
        let text = self.text(words);
        let numbers = text.lines().filter_map(|line| line.strip_prefix(':'));
        let numbers: Vec<i64> = numbers.map(|number| number.parse().unwrap()).collect();
        assert!(!numbers.is_empty(), "{words:?}: {text}");
        numbers
    }

    /// A reply as it came.
    pub(crate) fn text(&mut self, words: &[&str]) -> String {
        let mut command = format!("*{}\r\n", words.len());
        words.iter().for_each(|word| command += &format!("${}\r\n{word}\r\n", word.len()));
        self.0.get_mut().write_all(command.as_bytes()).unwrap();
        self.reply()
    }

    fn reply(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        let count = || line[1..].trim_end().parse::<usize>().unwrap();
        match line.as_bytes()[0] {
            b'*' => (0..count()).map(|_| self.reply()).collect(),
            b'$' => {
                let mut bytes = vec![0; count() + 2];
                self.0.read_exact(&mut bytes).unwrap();
                String::from_utf8(bytes).unwrap()
            }
            _ => line,
        }
    }
}
