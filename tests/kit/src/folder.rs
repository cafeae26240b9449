//! A folder of its own for every server, gone with it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Error, ErrorContext};

/// A new folder among the temporary files, removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Result<Self, Error> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        // Folders of an earlier process with the same id may be left; its numbers are passed over.
        for _ in 0..10_000 {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("tollgate-server-{}-{number}", std::process::id()));
            match fs::create_dir(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                made => return made.doing(format!("making {}", path.display())).map(|()| Self(path)),
            }
        }
        Err(Error::Unexpected(format!("{} is full of folders of servers", std::env::temp_dir().display())))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
