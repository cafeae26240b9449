//! A folder of tokens.

use std::env;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::owner::alone;

/// The longest token, in bytes.
const MAX_LEN: usize = 512;
/// The number of attempts to open a file that is replaced at that very moment.
const ATTEMPTS: usize = 100;

/// A folder in which servers leave their tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenFolder(PathBuf);

impl TokenFolder {
    /// Returns the folder at `path`, for servers that do not share that of the user: those of tests. Its parent
    /// directory must exist.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Returns the folder of this user, if the environment names one.
    pub fn of_user() -> Option<Self> {
        let named = |name: &str| env::var_os(name).map(PathBuf::from);
        Self::by(named("XDG_RUNTIME_DIR"), named("HOME"))
    }

    /// A relative path is ignored: it would be a different place for each working directory.
    fn by(runtime: Option<PathBuf>, home: Option<PathBuf>) -> Option<Self> {
        let absolute = |path: &PathBuf| path.is_absolute();
        let runtime = runtime.filter(absolute).map(|path| path.join("tollgate"));
        runtime.or_else(|| home.filter(absolute).map(|path| path.join(".tollgate"))).map(Self)
    }

    /// Returns the path of the token of the server on `port`.
    pub fn path(&self, port: u16) -> PathBuf {
        self.0.join(format!("{port}.token"))
    }

    /// Does as [`read`](super::read), in this folder.
    pub fn read(&self, port: u16) -> io::Result<Option<String>> {
        match self.read_token(port) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            token => token.map(Some),
        }
    }

    fn read_token(&self, port: u16) -> io::Result<String> {
        self.check_folder()?;
        let path = self.path(port);
        let file = opened(&path)?;
        alone(&path, &file.metadata()?, "600")?;
        let mut text = String::new();
        file.take(MAX_LEN as u64 + 2).read_to_string(&mut text)?;
        let token = text.strip_suffix('\n').unwrap_or(&text);
        check_token(token).map_err(|expected| wrong(&path, expected))?;
        Ok(token.to_owned())
    }

    /// Does as [`write`](super::write), in this folder.
    pub fn write(&self, port: u16, token: &str) -> io::Result<PathBuf> {
        check_token(token).map_err(|expected| io::Error::new(io::ErrorKind::InvalidInput, expected))?;
        match DirBuilder::new().mode(0o700).create(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(at(&self.0, &error)),
            _ => self.check_folder()?,
        }
        let (path, draft) = (self.path(port), self.draft(port));
        let written = fresh(&draft)
            .and_then(|mut file| file.write_all(format!("{token}\n").as_bytes()))
            // A rename replaces what is there, even a link, atomically.
            .and_then(|()| fs::rename(&draft, &path));
        if let Err(error) = written {
            let _ = fs::remove_file(&draft);
            return Err(at(&path, &error));
        }
        Ok(path)
    }

    /// Does as [`remove`](super::remove), in this folder.
    pub fn remove(&self, port: u16) -> io::Result<()> {
        let path = self.path(port);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(&path, &error)),
            _ => Ok(()),
        }
    }

    /// Refuses a folder that other users could write to or read.
    fn check_folder(&self) -> io::Result<()> {
        let found = fs::symlink_metadata(&self.0)?;
        if !found.is_dir() {
            return Err(wrong(&self.0, "expected a directory, found a link or something else"));
        }
        alone(&self.0, &found, "700")
    }

    /// Returns a name for the file being written; no two writers share one.
    fn draft(&self, port: u16) -> PathBuf {
        static DRAFTS: AtomicU32 = AtomicU32::new(0);
        let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
        self.0.join(format!(".{port}.{}.{number}", std::process::id()))
    }
}

/// Opens the file itself and not one that a link leads to: the opened file is the one that was checked. It may be
/// replaced in between, so a few attempts are made.
fn opened(path: &Path) -> io::Result<File> {
    for _ in 0..ATTEMPTS {
        let named = fs::symlink_metadata(path)?;
        if !named.is_file() {
            return Err(wrong(path, "expected a file, found a link or something else"));
        }
        let file = File::open(path)?;
        let found = file.metadata()?;
        if (found.dev(), found.ino()) == (named.dev(), named.ino()) {
            return Ok(file);
        }
    }
    Err(wrong(path, "expected it to stay the same for a moment"))
}

/// Creates a file that did not exist, for this user alone. A draft of a process that ended in the middle may have the
/// name; it is in use no more and is removed.
fn fresh(path: &Path) -> io::Result<File> {
    let create = || OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match create() {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            create()
        }
        created => created,
    }
}

fn check_token(token: &str) -> Result<(), &'static str> {
    let visible = token.bytes().all(|byte| byte.is_ascii_graphic());
    if visible && !token.is_empty() && token.len() <= MAX_LEN {
        return Ok(());
    }
    Err("expected a token of 1 to 512 visible ASCII characters on one line")
}

fn wrong(path: &Path, expected: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{}: {expected}", path.display()))
}

/// Adds the path to an error.
fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
#[path = "folder_tests.rs"]
mod tests;
