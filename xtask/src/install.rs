//! What tests against real servers need from the machine, made sure of: Debian packages, and clients of
//! other languages in `target/clients`.
//!
//! Nothing is skipped in silence: what is there is named, what is missing is installed or is an error with
//! the command to run.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::run::{Failure, output, root, run, run_with};

const REDIS_PY: &str = "8.1.0";
const IOREDIS: &str = "6.0.0";
/// The releases of Node's clients that the programs of `tests/dropin` run with, each in a folder of this name: the
/// current ones, and those that the limiters were written with.
const NODE_CLIENTS: [(&str, &str, &str); 4] = [
    ("ioredis", "ioredis", IOREDIS),
    ("ioredis-old", "ioredis", "2.5.0"),
    ("redis", "redis", "6.3.1"),
    ("redis-old", "redis", "2.8.0"),
];
const SCHEMATHESIS: &str = "4.32.5";
const JSONSCHEMA: &str = "4.26.0";
const PYYAML: &str = "6.0.3";
/// Asked by the scripts of Debian packages before they start a service.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// Something that has to be on the machine.
struct Requirement {
    what: &'static str,
    package: &'static str,
    is_there: fn() -> bool,
}

const REQUIREMENTS: [Requirement; 11] = [
    Requirement { what: "curl", package: "curl", is_there: || answers("curl", &["--version"]) },
    Requirement { what: "redis-server", package: "redis-server", is_there: || answers("redis-server", &["--version"]) },
    Requirement { what: "redis-cli", package: "redis-tools", is_there: || answers("redis-cli", &["--version"]) },
    Requirement {
        what: "redis-benchmark",
        package: "redis-tools",
        is_there: || answers("redis-benchmark", &["--version"]),
    },
    Requirement { what: "libfaketime", package: "libfaketime", is_there: faketime_is_there },
    Requirement {
        what: "python3 -m venv",
        package: "python3-venv",
        is_there: || answers("python3", &["-c", "import ensurepip"]),
    },
    Requirement { what: "node", package: "nodejs", is_there: || answers("node", &["--version"]) },
    Requirement { what: "npm", package: "npm", is_there: || answers("npm", &["--version"]) },
    Requirement { what: "elixir", package: "elixir", is_there: || answers("elixir", &["--version"]) },
    Requirement {
        what: "eredis for Elixir",
        package: "erlang-redis-client",
        is_there: || answers("elixir", &["-e", "{:module, _} = Code.ensure_loaded(:eredis)"]),
    },
    Requirement { what: "nginx with auth_request", package: "nginx", is_there: nginx_is_there },
];

/// `cargo xtask install`: what is missing, installed.
pub(crate) fn install() -> Result<(), Failure> {
    let missing = missing();
    if missing.is_empty() {
        return Ok(());
    }
    let mut packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    packages.dedup();
    let by_hand = format!("apt-get update && apt-get install -y --no-install-recommends {}", packages.join(" "));
    if !answers("apt-get", &["--version"]) {
        return Err(Failure(format!("there is no apt-get here; install what Debian calls {}", packages.join(", "))));
    }
    if output("id", &["-u"])?.trim() != "0" {
        return Err(Failure(format!("only root can install packages; run as root:\n  {by_hand}")));
    }
    {
        let _quiet = ServiceStartBlock::begin()?;
        run("apt-get", &["update", "--quiet"])?;
        let args = [["install", "-y", "--no-install-recommends", "--quiet"].as_slice(), &packages].concat();
        run_with("apt-get", &args, &[("DEBIAN_FRONTEND", "noninteractive")])?;
    }
    let still: Vec<&str> = self::missing().iter().map(|need| need.what).collect();
    if still.is_empty() { Ok(()) } else { Err(Failure(format!("installed, and still missing: {}", still.join(", ")))) }
}

/// Clients of other languages, ready to run.
pub(crate) struct Clients {
    /// A Python that imports `redis`.
    pub(crate) python: PathBuf,
    /// The folder that holds `ioredis`, for NODE_PATH.
    pub(crate) node_modules: PathBuf,
}

/// The pinned clients in `target/clients`, fetched if they are not there at that version.
pub(crate) fn clients() -> Result<Clients, Failure> {
    let home = root().join("target/clients");
    let node_modules = node_package(&home.join("node/ioredis"), "ioredis", IOREDIS)?;
    Ok(Clients { python: redis_py(&home.join("python"))?, node_modules })
}

/// A Python that imports `redis`, and the folder of the clients of Node, each in a folder of its own.
pub(crate) fn limiter_clients() -> Result<(PathBuf, PathBuf), Failure> {
    let home = root().join("target/clients");
    let node = home.join("node");
    for (folder, package, version) in NODE_CLIENTS {
        node_package(&node.join(folder), package, version)?;
    }
    Ok((redis_py(&home.join("python"))?, node))
}

fn redis_py(home: &Path) -> Result<PathBuf, Failure> {
    python_packages(home, &[("redis", REDIS_PY)])?;
    Ok(home.join("bin/python"))
}

/// The pinned schemathesis in a folder of its own, fetched if it is not there at that version: the program.
pub(crate) fn schemathesis() -> Result<PathBuf, Failure> {
    let home = root().join("target/clients/python-schemathesis");
    python_packages(&home, &[("schemathesis", SCHEMATHESIS)])?;
    Ok(home.join("bin/schemathesis"))
}

/// A Python that imports a validator of JSON Schema and a reader of YAML.
pub(crate) fn jsonschema() -> Result<PathBuf, Failure> {
    let home = root().join("target/clients/python-jsonschema");
    python_packages(&home, &[("jsonschema", JSONSCHEMA), ("pyyaml", PYYAML)])?;
    Ok(home.join("bin/python"))
}

/// Packages in a Python environment of their own.
fn python_packages(home: &Path, packages: &[(&str, &str)]) -> Result<(), Failure> {
    let python = home.join("bin/python");
    let program = text(&python)?;
    let version = |package: &str| {
        let script = format!("import importlib.metadata as m; print(m.version({package:?}))");
        output(program, &["-c", &script]).unwrap_or_default()
    };
    if packages.iter().any(|(package, wanted)| version(package).trim() != *wanted) {
        let wanted: Vec<_> = packages.iter().map(|(package, wanted)| format!("{package}=={wanted}")).collect();
        println!("clients: fetching {} for Python into {}", wanted.join(" "), home.display());
        run("python3", &["-m", "venv", "--clear", text(home)?])?;
        let mut args = vec!["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        args.extend(wanted.iter().map(String::as_str));
        run(program, &args)?;
    }
    packages
        .iter()
        .try_for_each(|(package, wanted)| verify(&format!("{package} for Python"), version(package).trim(), wanted))
}

/// A package of Node in a folder of its own, fetched if it is not there at that version: where `require` finds it.
fn node_package(home: &Path, package: &str, wanted: &str) -> Result<PathBuf, Failure> {
    fs::create_dir_all(home)?;
    let modules = home.join("node_modules");
    let manifest = modules.join(package).join("package.json");
    let script = format!("require({:?}).version", text(&manifest)?);
    let version =
        || if manifest.exists() { output("node", &["-p", &script]).unwrap_or_default() } else { String::new() };
    if version().trim() != wanted {
        println!("clients: fetching {package} {wanted} for Node into {}", home.display());
        let quiet = ["--no-audit", "--no-fund", "--ignore-scripts", "--save-exact", "--loglevel=error"];
        let what = ["install", "--prefix", text(home)?, &format!("{package}@{wanted}")];
        run("npm", &[what.as_slice(), &quiet].concat())?;
    }
    verify(&format!("{package} for Node"), version().trim(), wanted)?;
    Ok(modules)
}

fn verify(what: &str, found: &str, wanted: &str) -> Result<(), Failure> {
    if found != wanted {
        return Err(Failure(format!("{what}: wanted version {wanted}, found {found:?}")));
    }
    println!("clients: {what} {found} is there");
    Ok(())
}

/// Says of each need whether it is met, and returns the others.
fn missing() -> Vec<&'static Requirement> {
    let (there, missing): (Vec<&Requirement>, Vec<&Requirement>) =
        REQUIREMENTS.iter().partition(|need| (need.is_there)());
    for need in there {
        println!("install: {} is there", need.what);
    }
    for need in &missing {
        println!("install: {} is missing, package {}", need.what, need.package);
    }
    missing
}

fn answers(program: &str, args: &[&str]) -> bool {
    let status = Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// A usual path has no `sbin`; the tests look there too.
fn nginx_is_there() -> bool {
    ["nginx", "/usr/sbin/nginx"].into_iter().any(|program| {
        let told = Command::new(program).arg("-V").output();
        told.is_ok_and(|told| String::from_utf8_lossy(&told.stderr).contains("--with-http_auth_request_module"))
    })
}

/// Where `tollgate-kit` looks for it.
fn faketime_is_there() -> bool {
    let machine = format!("/usr/lib/{}-linux-gnu/faketime/libfaketime.so.1", std::env::consts::ARCH);
    let places = [machine.as_str(), "/usr/lib64/faketime/libfaketime.so.1", "/usr/lib/faketime/libfaketime.so.1"];
    std::env::var_os("TOLLGATE_FAKETIME").is_some() || places.iter().any(|place| Path::new(place).exists())
}

fn text(path: &Path) -> Result<&str, Failure> {
    path.to_str().ok_or_else(|| Failure(format!("{} is no UTF-8", path.display())))
}

/// While it lives, packages that are installed start no service. Tests start servers of their own, and a
/// Redis on the usual port that nobody asked for is in somebody's way. A policy that is there stays.
struct ServiceStartBlock {
    ours: bool,
}

impl ServiceStartBlock {
    fn begin() -> Result<Self, Failure> {
        let ours = !Path::new(POLICY).exists();
        if ours {
            println!("install: {POLICY} keeps packages from starting services meanwhile");
            fs::write(POLICY, "#!/bin/sh\nexit 101\n")?;
            fs::set_permissions(POLICY, fs::Permissions::from_mode(0o755))?;
        }
        Ok(Self { ours })
    }
}

impl Drop for ServiceStartBlock {
    fn drop(&mut self) {
        if self.ours {
            let _ = fs::remove_file(POLICY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_names_the_clients_that_are_fetched() {
        let guide = fs::read_to_string(root().join("docs/moving.md")).unwrap();
        let part = guide.split("## What was run").nth(1).unwrap().split("\n## ").next().unwrap().to_owned();
        let node = NODE_CLIENTS.iter().map(|(_, _, version)| *version);
        for version in node.chain([REDIS_PY]) {
            assert!(part.contains(version), "docs/moving.md does not name the client of version {version}");
        }
    }
}
