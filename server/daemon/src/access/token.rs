//! Tokens, and what is kept of them: their SHA-256. A token has 256 random bits, so a single hash without salt is
//! useless to an attacker who obtains it.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use super::Scopes;

/// A token made here. It is shown once and not stored.
pub struct AccessToken(String);

impl AccessToken {
    /// Returns a new random token.
    pub(crate) fn make() -> std::io::Result<Self> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
        Ok(Self(format!("tg_{}", URL_SAFE_NO_PAD.encode(bytes))))
    }

    /// Returns the text of the token.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Returns its line for a tokens file, without the line end.
    pub(crate) fn line(&self, scopes: Scopes, name: &str) -> String {
        format!("{scopes} {} {name}", TokenHash::of(self.0.as_bytes()))
    }

    pub(crate) fn hash(&self) -> TokenHash {
        TokenHash::of(self.0.as_bytes())
    }
}

/// Writes a placeholder instead of the token.
impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessToken(…)")
    }
}

/// The SHA-256 of a token.
#[derive(Clone, Copy)]
pub(crate) struct TokenHash([u8; 32]);

impl TokenHash {
    pub(crate) fn of(token: &[u8]) -> Self {
        Self(Sha256::digest(token).into())
    }

    /// Parses 64 hexadecimal digits.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
        let pairs: &[[u8; 2]; 32] = pairs.try_into().ok()?;
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(pairs) {
            let digit = |char: u8| char::from(char).to_digit(16);
            *byte = (16 * digit(pair[0])? + digit(pair[1])?) as u8;
        }
        Some(Self(bytes))
    }

    /// Returns whether both are equal, in a time that does not depend on where they differ.
    pub(crate) fn is(&self, other: &Self) -> Choice {
        self.0.ct_eq(&other.0)
    }
}

/// Writes 64 hexadecimal digits.
impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_long_and_never_the_same() {
        let (one, other) = (AccessToken::make().unwrap(), AccessToken::make().unwrap());
        assert_ne!(one.text(), other.text());
        let secret = one.text().strip_prefix("tg_").unwrap();
        assert_eq!(URL_SAFE_NO_PAD.decode(secret).unwrap().len(), 32);
        assert!(!format!("{one:?}").contains(secret));
    }

    #[test]
    fn a_hash_is_read_as_it_is_written() {
        let hash = TokenHash::of(b"test");
        let text = hash.to_string();
        assert_eq!(text, "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08");
        assert!(bool::from(TokenHash::parse(&text).unwrap().is(&hash)));
        assert!(bool::from(TokenHash::parse(&text.to_uppercase()).unwrap().is(&hash)));
        assert!(!bool::from(TokenHash::of(b"Test").is(&hash)));
        for wrong in ["", "9f", &text[1..], &format!("{text}0"), &format!("{text}00"), &text.replace('9', "g")] {
            assert!(TokenHash::parse(wrong).is_none(), "{wrong}");
        }
    }
}
