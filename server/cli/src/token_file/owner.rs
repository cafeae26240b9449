//! Checks that something belongs to this user alone.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The permissions of the group and of all others.
const OTHERS: u32 = 0o077;

/// Returns the user of this process. The standard library does not offer it; a new pipe belongs to its creator.
fn user() -> io::Result<u32> {
    let (reader, _writer) = io::pipe()?;
    Ok(File::from(OwnedFd::from(reader)).metadata()?.uid())
}

/// Refuses a file that another user owns, or may use.
pub(crate) fn alone(path: &Path, found: &Metadata, mode: &str) -> io::Result<()> {
    let shown = path.display();
    let why = if found.uid() != user()? {
        format!("{shown}: expected this user to own it, found another")
    } else if found.mode() & OTHERS != 0 {
        let rights = found.mode() & 0o777;
        format!("{shown}: expected mode {mode}, found {rights:o}, so others may use it; chmod {mode} it")
    } else {
        return Ok(());
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_user_is_the_one_who_makes_files() {
        use std::os::unix::fs::MetadataExt;
        let file = std::env::temp_dir().join(format!("tollgate-token-owner-{}", std::process::id()));
        std::fs::write(&file, b"").unwrap();
        let owner = std::fs::metadata(&file).unwrap().uid();
        std::fs::remove_file(&file).unwrap();
        assert_eq!(super::user().unwrap(), owner);
    }
}
