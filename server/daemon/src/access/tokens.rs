//! The tokens of a server: a file with one token a line, `SCOPES SHA256HEX NAME`.
//!
//! ```text
//! # who counts, and who looks
//! check,refund  9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08  billing
//! check,read    60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752  dashboard
//! ```
//!
//! A token without `refund` cannot give units back, though it charged them.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use subtle::ConditionallySelectable;
use tollgate_kernel::is_word;

use super::token::TokenHash;
use super::{AccessToken, Scopes, ScopesError};

/// The largest number of tokens. A login is compared with each of them.
const MAX: usize = 1_024;
/// The largest size of a tokens file, in bytes.
const MAX_LEN: u64 = 1 << 20;

/// Tokens, known by their hashes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tokens(Vec<TokenEntry>);

#[derive(Clone, Debug)]
struct TokenEntry {
    scopes: Scopes,
    hash: TokenHash,
    name: Arc<str>,
}

/// A known token that a caller presented.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TokenGrant {
    /// What the token allows.
    pub(crate) scopes: Scopes,
    /// The name of the token.
    pub(crate) name: Arc<str>,
}

/// Why a tokens file is not valid.
#[derive(Debug)]
#[non_exhaustive]
pub enum TokensError {
    /// The file cannot be read.
    Read(PathBuf, io::Error),
    /// Users other than its owner may write the file.
    Writable(PathBuf),
    /// A line, counted from 1, is not valid; the text is what was expected of it.
    Line(PathBuf, usize, String),
    /// The file as a whole is not valid; the text is what was expected of it.
    Whole(PathBuf, String),
    /// The file cannot be written.
    Write(PathBuf, io::Error),
    /// The name of a new token is not valid; the text is what was expected of it.
    Name(String),
}

impl fmt::Display for TokensError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(path, error) => write!(f, "cannot read the tokens file {}: {error}", path.display()),
            Self::Writable(path) => {
                let path = path.display();
                write!(f, "tokens file {path}: expected that only its owner may write it; chmod go-w {path}")
            }
            Self::Line(path, line, expected) => write!(f, "tokens file {}, line {line}: {expected}", path.display()),
            Self::Whole(path, expected) => write!(f, "tokens file {}: {expected}", path.display()),
            Self::Write(path, error) => write!(f, "cannot write the tokens file {}: {error}", path.display()),
            Self::Name(expected) => f.write_str(expected),
        }
    }
}

impl std::error::Error for TokensError {}

impl Tokens {
    /// Returns one token that allows everything.
    pub(crate) fn single(hash: TokenHash) -> Self {
        Self(vec![TokenEntry { scopes: Scopes::WITHOUT_SCRIPT, hash, name: "made-at-start".into() }])
    }

    /// Reads a file, all of it or nothing.
    pub(crate) fn read(path: &Path) -> Result<Self, TokensError> {
        let at = || path.to_owned();
        let mut text = String::new();
        let file = File::open(path).map_err(|error| TokensError::Read(at(), error))?;
        // The mode is read from the open file, so that the file cannot be exchanged in between.
        let found = file.metadata().map_err(|error| TokensError::Read(at(), error))?;
        if found.mode() & 0o022 != 0 {
            return Err(TokensError::Writable(at()));
        }
        file.take(MAX_LEN + 1).read_to_string(&mut text).map_err(|error| TokensError::Read(at(), error))?;
        if text.len() as u64 > MAX_LEN {
            return Err(TokensError::Whole(at(), format!("expected at most {MAX_LEN} bytes")));
        }
        let mut tokens = Self::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                tokens.line(line).map_err(|expected| TokensError::Line(at(), number + 1, expected))?;
            }
        }
        if tokens.0.len() > MAX {
            return Err(TokensError::Whole(at(), format!("expected at most {MAX} tokens, found {}", tokens.0.len())));
        }
        Ok(tokens)
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        // The error gives only the number of words, since a mistaken line may hold a token.
        let [scopes, hash, name] = words[..] else {
            return Err(format!("expected SCOPES SHA256HEX NAME, found {} words", words.len()));
        };
        let scopes: Scopes = scopes.parse().map_err(|error: ScopesError| error.to_string())?;
        let hash = TokenHash::parse(hash).ok_or("expected the SHA-256 of a token in 64 hexadecimal digits")?;
        self.check_name(name)?;
        if self.0.iter().any(|known| known.hash.is(&hash).into()) {
            return Err(format!("expected a token of its own for {name}, found that of another line"));
        }
        self.0.push(TokenEntry { scopes, hash, name: name.into() });
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Checks whether a new token may have this name.
    fn check_name(&self, name: &str) -> Result<(), String> {
        if !is_word(name) {
            return Err("expected a name of 1 to 64 letters, digits, - and _".to_owned());
        }
        match self.0.iter().any(|known| &*known.name == name) {
            true => Err(format!("expected a name of its own, found {name} a second time")),
            false => Ok(()),
        }
    }

    /// Returns what a token allows, and its name; `None` if it is not known. Every hash is compared, so that the time
    /// does not depend on which one matches.
    pub(crate) fn find(&self, token: &[u8]) -> Option<TokenGrant> {
        let hash = TokenHash::of(token);
        let (mut scopes, mut found) = (Scopes::NONE.bits(), u32::MAX);
        for (place, known) in (0u32..).zip(&self.0) {
            let is = known.hash.is(&hash);
            scopes = u8::conditional_select(&scopes, &known.scopes.bits(), is);
            found = u32::conditional_select(&found, &place, is);
        }
        let name = Arc::clone(&self.0.get(usize::try_from(found).ok()?)?.name);
        Some(TokenGrant { scopes: Scopes::from_bits(scopes), name }).filter(|login| !login.scopes.is_none())
    }
}

impl AccessToken {
    /// Returns a new token, and its line for a tokens file.
    pub fn with_line(scopes: Scopes, name: &str) -> Result<(Self, String), TokensError> {
        Tokens::default().check_name(name).map_err(TokensError::Name)?;
        let token = Self::make().map_err(|error| TokensError::Name(format!("cannot make a token: {error}")))?;
        let line = token.line(scopes, name);
        Ok((token, line))
    }

    /// Returns a new token and its line, and adds the line to a file, which is created if it does not exist.
    pub fn add_to(path: &Path, scopes: Scopes, name: &str) -> Result<(Self, String), TokensError> {
        let tokens = match Tokens::read(path) {
            Err(TokensError::Read(_, error)) if error.kind() == io::ErrorKind::NotFound => Tokens::default(),
            tokens => tokens?,
        };
        tokens.check_name(name).map_err(TokensError::Name)?;
        let (token, line) = Self::with_line(scopes, name)?;
        append(path, &line).map_err(|error| TokensError::Write(path.to_owned(), error))?;
        Ok((token, line))
    }
}

/// Appends a line in one write, so that no reader sees half of it.
fn append(path: &Path, line: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    let len = file.metadata()?.len();
    // The previous last line may lack its line end.
    let mut last = [b'\n'];
    if let Some(at) = len.checked_sub(1) {
        file.read_exact_at(&mut last, at)?;
    }
    let gap = if last == [b'\n'] { "" } else { "\n" };
    file.write_all(format!("{gap}{line}\n").as_bytes())
}

#[cfg(test)]
#[path = "tokens_tests.rs"]
mod tests;
