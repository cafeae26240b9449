//! From a path to a text: checks that the file may be read.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::path::Path;

use crate::format::ConfigFormat;
use crate::message::{ConfigError, ConfigMessage, ConfigPosition};
use crate::reader::{ParsedConfig, read};

/// The longest policy file, in bytes.
pub const MAX_FILE: usize = 16 << 20;

/// Reads a policy file. The ending of its name determines the format. After following symbolic links it must be a
/// regular file that only its owner may write.
pub fn read_file(path: &Path) -> Result<ParsedConfig, ConfigError> {
    text_of(path)
        .and_then(|(text, format)| read(&text, format))
        .map_err(|error| ConfigError { file: Some(path.display().to_string()), ..error })
}

fn text_of(path: &Path) -> Result<(String, ConfigFormat), ConfigError> {
    let Some(format) = ConfigFormat::of(path) else {
        let found = path.extension().map(|ending| format!("{:?}", ending.to_string_lossy()));
        return Err(ConfigError::of_file(
            "a file name ending in .yaml, .yml, .json or .toml",
            found.unwrap_or_else(|| "none".to_owned()),
            "the ending tells the format",
        ));
    };
    // Checked before opening, because opening a pipe would wait for a writer.
    permitted(path, &fs::metadata(path).map_err(unreadable)?)?;
    let file = File::open(path).map_err(unreadable)?;
    // Checked again after opening, because the name may refer to another file by now.
    permitted(path, &file.metadata().map_err(unreadable)?)?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok((text, format)),
        Err(error) => Err(not_utf8(error.as_bytes(), error.utf8_error().valid_up_to())),
    }
}

fn unreadable(error: io::Error) -> ConfigError {
    let hint = match error.kind() {
        io::ErrorKind::NotFound => "is the path right?",
        io::ErrorKind::PermissionDenied => "may this user read it?",
        _ => "",
    };
    ConfigError::of_file("a file that can be read", error.to_string(), hint)
}

fn permitted(path: &Path, about: &Metadata) -> Result<(), ConfigError> {
    if !about.is_file() {
        let found = if about.is_dir() { "a directory" } else { "something else, such as a pipe or a device" };
        return Err(ConfigError::of_file("a regular file", found, "name the policy file itself"));
    }
    writable_by_owner_alone(path, about)
}

/// Refuses a file that others may write, because a writer of the file decides which callers are limited.
#[cfg(unix)]
fn writable_by_owner_alone(path: &Path, about: &Metadata) -> Result<(), ConfigError> {
    use std::os::unix::fs::PermissionsExt;

    let mode = about.permissions().mode() & 0o7777;
    if mode & 0o022 == 0 {
        return Ok(());
    }
    let quoted = format!("'{}'", path.display().to_string().replace('\'', "'\\''"));
    Err(ConfigError::of_file(
        "a file that neither its group nor others may write",
        format!("mode {mode:04o}"),
        format!("run: chmod go-w {quoted}"),
    ))
}

#[cfg(not(unix))]
fn writable_by_owner_alone(_: &Path, _: &Metadata) -> Result<(), ConfigError> {
    Ok(())
}

fn not_utf8(bytes: &[u8], right: usize) -> ConfigError {
    let before = String::from_utf8_lossy(bytes.get(..right).unwrap_or_default());
    let byte = bytes.get(right).copied().unwrap_or_default();
    let hint = if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        "it looks like UTF-16; save it as UTF-8"
    } else {
        "save it as UTF-8"
    };
    let message = ConfigMessage {
        position: Some(ConfigPosition {
            excerpt: String::new(),
            caret: 0,
            ..ConfigPosition::of(&before, before.len())
        }),
        path: String::new(),
        expected: "text in UTF-8".to_owned(),
        found: format!("the byte 0x{byte:02x}"),
        hint: hint.to_owned(),
    };
    ConfigError { file: None, messages: vec![message], more: 0 }
}
