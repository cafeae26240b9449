//! The format of a policy file.

use std::path::Path;

/// The format of a policy file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConfigFormat {
    /// YAML 1.2, and so JSON.
    Yaml,
    /// TOML 1.1.
    Toml,
}

impl ConfigFormat {
    /// Returns the format by the ending of a file's name: `.yaml`, `.yml`, `.json` or `.toml`.
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "yaml" | "yml" | "json" => Some(Self::Yaml),
            "toml" => Some(Self::Toml),
            _ => None,
        }
    }
}
