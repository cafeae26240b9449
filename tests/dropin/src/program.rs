//! The programs of `programs`, and how each is run.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tollgate_kit::Server;

use crate::Failure;
use crate::home::{self, HomeKind, Place};

/// Seconds after which a program is taken to hang.
const PATIENCE: &str = "120";
/// The scripts that programs load: each the output of `tollgate redis script NAME`.
const SCRIPTS: [&str; 7] =
    ["ar1", "fixed_window", "library", "rolling", "sliding_window", "slot_window", "token_bucket"];

/// A program, and the library by which it speaks to a server.
pub(crate) struct Program {
    pub(crate) file: &'static str,
    /// The library and its age; versions are pinned where they are fetched (`xtask/src/install.rs`).
    pub(crate) library: &'static str,
    language: Language,
    database: Option<u8>,
    can_cluster: bool,
}

/// What runs a program.
#[derive(Clone, Copy)]
enum Language {
    /// With the package that `require` finds in this folder.
    Node(&'static str),
    Python,
    Elixir,
}

const fn program(file: &'static str, library: &'static str, language: Language) -> Program {
    Program { file, library, language, database: None, can_cluster: false }
}

/// The clients.
pub(crate) const PROGRAMS: [Program; 8] = [
    Program { can_cluster: true, ..program("slots.cjs", "ioredis, old", Language::Node("ioredis-old")) },
    Program { can_cluster: true, ..program("slots.cjs", "ioredis, current", Language::Node("ioredis")) },
    program("counter.py", "redis-py", Language::Python),
    program("counter.cjs", "node redis, current", Language::Node("redis")),
    Program { database: Some(9), ..program("rdslim.py", "redis-py", Language::Python) },
    program("plug_limit.exs", "eredis", Language::Elixir),
    program("rolling.cjs", "ioredis, old", Language::Node("ioredis-old")),
    program("rolling.cjs", "redis, old", Language::Node("redis-old")),
];

/// What compares every command with redis-server, run after the clients.
pub(crate) const COMMANDS: Program = program("commands.py", "none", Language::Python);

/// What programs and homes need from the machine.
pub(crate) struct Surroundings {
    /// The command `tollgate`.
    pub(crate) tollgate: String,
    python: PathBuf,
    node: PathBuf,
    short: bool,
    /// A redis-server to compare with. Its folder holds what this run writes, and is gone with it.
    base: Server,
}

impl Surroundings {
    /// Reads the environment, and starts the server to compare with.
    pub(crate) fn new(short: bool) -> Result<Self, Failure> {
        let set = |name: &str| std::env::var(name).map_err(|_| format!("{name} is not set: run cargo xtask dropin"));
        let (tollgate, base) = (set("TOLLGATE_BIN")?, Server::start()?);
        home::install(&tollgate, &base)?;
        let (python, node) = (set("DROPIN_PYTHON")?.into(), set("DROPIN_NODE")?.into());
        let surroundings = Self { tollgate, python, node, short, base };
        surroundings.write_scripts()?;
        Ok(surroundings)
    }

    /// Returns a folder that is gone with this run.
    pub(crate) fn folder(&self) -> &Path {
        self.base.folder()
    }

    fn write_scripts(&self) -> Result<(), Failure> {
        for name in SCRIPTS {
            let text = home::run(&self.tollgate, &["redis", "script", name])?;
            fs::write(self.folder().join(format!("{name}.lua")), text)?;
        }
        Ok(())
    }
}

impl Program {
    /// Returns whether it is for such a home.
    pub(crate) fn fits(&self, home: &HomeKind) -> bool {
        self.can_cluster || !home.wants_cluster_clients
    }

    /// Runs it against the server at that place; it fails if a reply is not what it expects.
    pub(crate) fn run(
        &self,
        surroundings: &Surroundings,
        home: &HomeKind,
        place: &Place,
        sent: &BTreeSet<String>,
    ) -> Result<(), Failure> {
        let output = self
            .command(surroundings, place)
            .env("REDIS_URL", self.url(home, place))
            .env("BASE_URL", surroundings.base.url())
            .env("SCRIPTS", surroundings.folder())
            .env("SENT", sent.iter().map(String::as_str).collect::<Vec<_>>().join(","))
            .env("PUBLISHED", flag(home.is_tollgate))
            .env("TRIGGER", flag(home.is_tollgate))
            .env("CLUSTER", flag(home.wants_cluster_clients))
            .env("CLUSTERED", flag(home.is_clustered))
            .env("LONG", flag(!surroundings.short))
            .output()?;
        let printed = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            let Self { file, library, .. } = self;
            return Err(format!("{file} by {library} on {}: {}\n{printed}{errors}", home.name, output.status).into());
        }
        println!("{}: {}", home.name, printed.trim_end().lines().last().unwrap_or_default());
        Ok(())
    }

    fn command(&self, surroundings: &Surroundings, place: &Place) -> Command {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs").join(self.file);
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", PATIENCE]);
        match self.language {
            Language::Node(package) => {
                let modules = surroundings.node.join(package).join("node_modules");
                command.arg("node").arg(file).env("NODE_PATH", modules);
                command.env("LIBRARY", package.trim_end_matches("-old"));
            }
            Language::Python => _ = command.arg(&surroundings.python).arg(file),
            Language::Elixir => _ = command.arg("elixir").arg(file),
        }
        if self.file == "counter.py" {
            // As its document calls it.
            let port = place.addr.port().to_string();
            command.args(["--host", "127.0.0.1", "--port", &port, "--concurrency", "3", "--threshold", "100"]);
            if let Some(password) = &place.password {
                command.args(["--user", "limiter", "--password", password]);
            }
        }
        command
    }

    /// The server's URL, with the database where the home has several.
    fn url(&self, home: &HomeKind, place: &Place) -> String {
        let Place { addr, password } = place;
        let login = password.as_ref().map(|password| format!(":{password}@")).unwrap_or_default();
        match self.database.filter(|_| !home.is_clustered) {
            Some(database) => format!("redis://{login}{addr}/{database}"),
            None => format!("redis://{login}{addr}"),
        }
    }
}

fn flag(is: bool) -> &'static str {
    if is { "1" } else { "0" }
}
