//! What the guides say of Redis, tried on a server: their transcripts, and clients of other languages.
//!
//! | fence | what is in it |
//! |---|---|
//! | `redis` | `> COMMAND`, and the reply as `redis-cli --no-raw` prints it |
//! | `console server` | `$ COMMAND` of a shell, and what it prints; 127.0.0.1:6379 is the server |
//! | `python`, `js` | lines that are in `docs/clients`, whose programs are run |
//!
//! `…` stands for any digits, and how far columns are apart does not matter.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::install;
use crate::run::{Failure, output, root};

const GUIDES: [&str; 2] = ["docs/redis.md", "docs/moving.md"];
/// Lines of a guide in a language, and the program they are taken from.
const QUOTED: [(&str, &str); 2] = [("python", "docs/clients/python.py"), ("js", "docs/clients/node.mjs")];
/// The server that guides speak of.
const GUIDE_ADDRESS: &str = "127.0.0.1:6379";
/// The user that docs/redis.md makes, and the password.
const GATE: &str = "gate:sesame";

/// A command of a guide, and what it is said to print.
pub(crate) struct Step {
    place: String,
    fence: String,
    command: String,
    printed: String,
}

/// `cargo xtask clients`: the transcripts and programs of the guides against a server. The command
/// `tollgate` must be built.
pub(crate) fn clients() -> Result<(), Failure> {
    let clients = install::clients()?;
    let folder = root().join("target/clients/guides");
    fs::create_dir_all(&folder)?;
    let mut steps = 0;
    for guide in GUIDES {
        let server = Server::start(&folder)?;
        let text = fs::read_to_string(root().join(guide))?;
        quotes(guide, &text, &QUOTED)?;
        for step in read(guide, &text)? {
            server.check(&step, &folder)?;
            steps += 1;
        }
        for program in programs(guide) {
            let tollgate = tollgate().display().to_string();
            self::program(&clients, program, &[("REDIS_URL", &server.url()), ("GATE", GATE), ("TOLLGATE", &tollgate)])?;
        }
    }
    println!("clients: {steps} commands on a server print what the guides say");
    if steps == 0 { Err(Failure("no guide has a command for a server".to_owned())) } else { Ok(()) }
}

/// The programs whose claims a guide makes, run on the server that its transcripts leave.
fn programs(guide: &str) -> &'static [&'static str] {
    match guide {
        "docs/redis.md" => &["python.py", "node.mjs", "rights.py", "once.py", "once.mjs"],
        _ => &["moving.py"],
    }
}

/// What stands in a guide in another language stands in the program that is run.
pub(crate) fn quotes(guide: &str, text: &str, quoted: &[(&str, &str)]) -> Result<(), Failure> {
    for block in blocks(text) {
        let mut programs =
            quoted.iter().filter(|(fence, _)| *fence == block.fence).map(|(_, program)| *program).peekable();
        if programs.peek().is_none() {
            continue;
        }
        let wholes: Vec<String> =
            programs.map(|program| fs::read_to_string(root().join(program))).collect::<Result<_, _>>()?;
        if !wholes.iter().any(|whole| whole.contains(&block.text)) {
            return Err(Failure(format!("{guide}:{}: in no program of docs/clients:\n{}", block.line, block.text)));
        }
    }
    Ok(())
}

/// A fenced part of a guide.
struct Block {
    fence: String,
    line: usize,
    text: String,
}

fn blocks(text: &str) -> impl Iterator<Item = Block> {
    let (mut found, mut open) = (Vec::new(), None);
    for (number, line) in text.lines().enumerate() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(fence), None) => {
                open = Some(Block { fence: fence.to_owned(), line: number + 2, text: String::new() });
            }
            (Some(_), block) => found.extend(block.take()),
            (None, Some(block)) => {
                block.text += line;
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    found.into_iter()
}

pub(crate) fn read(guide: &str, text: &str) -> Result<Vec<Step>, Failure> {
    let mut steps: Vec<Step> = Vec::new();
    for block in blocks(text) {
        let sign = match block.fence.as_str() {
            "redis" => "> ",
            "console server" => "$ ",
            _ => continue,
        };
        let first = steps.len();
        for (number, line) in block.text.lines().enumerate() {
            let place = format!("{guide}:{}", block.line + number);
            if let Some(command) = line.strip_prefix(sign) {
                let (fence, command) = (block.fence.clone(), command.to_owned());
                steps.push(Step { place, fence, command, printed: String::new() });
                continue;
            }
            let step = steps.get_mut(first..).and_then(|steps| steps.last_mut());
            let step = step.ok_or_else(|| Failure(format!("{place}: expected a command after {sign:?}: {line}")))?;
            step.printed += line;
            step.printed.push('\n');
        }
    }
    Ok(steps)
}

/// A server of our own, gone when it is dropped.
struct Server {
    child: Child,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts one on a port that was free; another program may take it first, so this is tried a few times.
    fn start(folder: &Path) -> Result<Self, Failure> {
        for _ in 0..5 {
            let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
            let child = Command::new("redis-server")
                .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port", &port.to_string()])
                .current_dir(folder)
                .stdout(Stdio::null())
                .spawn()
                .map_err(|error| Failure(format!("redis-server: {error}; cargo xtask install brings it")))?;
            let server = Self { child, port };
            if server.answers() {
                return Ok(server);
            }
        }
        Err(Failure("redis-server does not start: run it by hand to see why".to_owned()))
    }

    /// Whether it is our process that answers at the port, within ten seconds.
    fn answers(&self) -> bool {
        let ours = format!("process_id:{}", self.child.id());
        (0..100).any(|_| {
            sleep(Duration::from_millis(100));
            let told = output("redis-cli", &["-h", "127.0.0.1", "-p", &self.port.to_string(), "INFO", "server"]);
            told.is_ok_and(|told| told.lines().any(|line| line.trim() == ours))
        })
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    fn check(&self, step: &Step, folder: &Path) -> Result<(), Failure> {
        let redis_cli = format!("redis-cli --no-raw -h 127.0.0.1 -p {}", self.port);
        step.check(folder, &redis_cli, &[("redis-cli", &redis_cli), (GUIDE_ADDRESS, &self.address())], &[])
    }
}

impl Step {
    /// Runs it and compares. What the guide calls something is replaced by what it is called here, and set
    /// variables are the shell's.
    pub(crate) fn check(
        &self,
        folder: &Path,
        redis_cli: &str,
        called: &[(&str, &str)],
        set: &[(&str, &str)],
    ) -> Result<(), Failure> {
        let script = match self.fence.as_str() {
            // Its own reading of quotes, as at its prompt.
            "redis" => format!("printf '%s\\n' \"$STEP\" | {redis_cli}"),
            _ => called.iter().fold(self.command.clone(), |command, (there, here)| command.replace(there, here)),
        };
        let output = Command::new("sh")
            .args(["-c", &format!("{{ {script}\n}} 2>&1")])
            .env("STEP", &self.command)
            .env("PATH", path()?)
            .envs(set.iter().copied())
            .current_dir(folder)
            .output()?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let printed = called.iter().fold(printed, |printed, (there, here)| printed.replace(here, there));
        if agrees(&self.printed, &printed) {
            return Ok(());
        }
        let Self { place, command, printed: said, .. } = self;
        Err(Failure(format!("{place}: {command}\n--- the guide says\n{said}\n--- it prints\n{printed}")))
    }
}

/// Runs a program of docs/clients with variables set; it fails if a reply is not what it expects.
pub(crate) fn program(clients: &install::Clients, name: &str, set: &[(&str, &str)]) -> Result<(), Failure> {
    let mut file = root().join("docs/clients").join(name);
    let mut command = if name.ends_with(".py") {
        Command::new(&clients.python)
    } else {
        // Modules are looked for beside the program, whatever NODE_PATH says.
        let beside = clients.node_modules.join("..").join(name);
        fs::copy(&file, &beside)?;
        file = beside;
        Command::new("node")
    };
    let status = command.arg(&file).envs(set.iter().copied()).current_dir(root()).status()?;
    if status.success() { Ok(()) } else { Err(Failure(format!("docs/clients/{name} failed"))) }
}

pub(crate) fn tollgate() -> PathBuf {
    root().join("target/debug/tollgate")
}

/// Where a shell finds programs, ours first.
fn path() -> Result<std::ffi::OsString, Failure> {
    let ours = tollgate().parent().map(Path::to_path_buf).unwrap_or_default();
    let others = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(ours).chain(std::env::split_paths(&others));
    std::env::join_paths(all).map_err(|error| Failure(error.to_string()))
}

/// Whether what was printed is what was said.
fn agrees(said: &str, printed: &str) -> bool {
    let lines = |text: &str| -> Vec<String> {
        let squeezed = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        text.trim_end().lines().map(squeezed).collect()
    };
    let (said, printed) = (lines(said), lines(printed));
    said.len() == printed.len() && said.iter().zip(&printed).all(|(said, printed)| matches(said, printed))
}

/// Whether a line is the other; `…` is any digits.
fn matches(said: &str, printed: &str) -> bool {
    let Some((before, behind)) = said.split_once('…') else { return said == printed };
    let Some(rest) = printed.strip_prefix(before) else { return false };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    (0..=digits).any(|count| rest.get(count..).is_some_and(|rest| matches(behind, rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_and_columns_may_differ_and_nothing_else() {
        let rows = [
            ("1) (integer) 1", "1) (integer) 1", true),
            ("1) (integer) 1", "1) (integer) 2", false),
            ("a   b", "a b\n", true),
            ("(integer) 5…", "(integer) 59999", true),
            ("(integer) 5…", "(integer) 49999", false),
            ("(integer) 5…", "(integer) 5x", false),
            ("…-…", "12-3", true),
            ("a", "a\nb", false),
        ];
        for (said, printed, same) in rows {
            assert_eq!(agrees(said, printed), same, "{said:?} {printed:?}");
        }
    }

    #[test]
    fn commands_are_read_with_what_they_print() {
        let text = "x\n```redis\n> A\n1\n2\n> B\n```\n```console\n$ C\n```\n```console server\n$ D\n```\n";
        let steps = read("g", text).map_err(|failure| failure.to_string());
        let told = steps.map(|steps| {
            steps.iter().map(|step| format!("{} {} {:?}", step.place, step.command, step.printed)).collect::<Vec<_>>()
        });
        assert_eq!(
            told.as_deref(),
            Ok(["g:3 A \"1\\n2\\n\"", "g:6 B \"\"", "g:12 D \"\""].map(str::to_owned).as_slice())
        );
        assert!(read("g", "```redis\nno command\n```\n").is_err());
    }
}
