//! The file in which a Tollgate server leaves the token it made at its start, so that commands of the same user on the
//! same machine find it, and no other user does.
//!
//! `PORT.token`, by the RESP port, in `$XDG_RUNTIME_DIR/tollgate` if that variable is set, else in
//! `$HOME/.tollgate`: one line, mode 0600, in a directory of mode 0700.
//!
//! Laws: a token is trusted only if this user alone could have written it, and written only where this user alone can
//! read it; a symbolic link is neither followed nor written through; a reader that runs while another process writes
//! finds the old token or the new one, never a part of one.
//!
//! | file | what it is |
//! |---|---|
//! | `mod.rs` | the token of a port, in the folder of this user |
//! | `folder.rs` | a folder of tokens: read, write, remove |
//! | `owner.rs` | whether something belongs to this user alone |

#[cfg(not(unix))]
compile_error!("tollgate-cli needs the owners and modes of files, which it knows on Unix only");

mod folder;
mod owner;

use std::io;
use std::path::PathBuf;

pub use folder::TokenFolder;

/// Returns the path of the token of the server on `port`; `None` if the environment names neither directory.
pub fn path(port: u16) -> Option<PathBuf> {
    TokenFolder::of_user().map(|folder| folder.path(port))
}

/// Returns the token of the server on `port`, if one was left. A file that others may read or that another user owns is
/// an error, and so is a link.
pub fn read(port: u16) -> io::Result<Option<String>> {
    TokenFolder::of_user().map_or(Ok(None), |folder| folder.read(port))
}

/// Writes the token of the server on `port`, replacing an existing one; returns the path.
pub fn write(port: u16, token: &str) -> io::Result<PathBuf> {
    let nowhere = || io::Error::new(io::ErrorKind::NotFound, "expected XDG_RUNTIME_DIR or HOME to be an absolute path");
    TokenFolder::of_user().ok_or_else(nowhere)?.write(port, token)
}

/// Removes the token of the server on `port`. A missing file is no error.
pub fn remove(port: u16) -> io::Result<()> {
    TokenFolder::of_user().map_or(Ok(()), |folder| folder.remove(port))
}
