//! How a command is told which servers, and whom to trust there.

use clap::Args;

use super::{Target, Trouble};

/// The variable that names the store where no option does.
const STORE: &str = "TOLLGATE_STORE";

/// `--store` and what belongs to it.
#[derive(Args, Clone, Default)]
pub(crate) struct StoreArgs {
    /// redis://, rediss://, redis+cluster:// or redis+sentinel://; else $TOLLGATE_STORE
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,

    #[command(flatten)]
    pub(crate) authority: Authority,
}

/// `--ca`.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Authority {
    /// Certificates in PEM to trust for rediss://, instead of the public ones
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<String>,
}

impl StoreArgs {
    /// The URL that was named, or that of the environment.
    pub(crate) fn url(&self) -> Result<String, Trouble> {
        let named = self.store.clone().or_else(|| std::env::var(STORE).ok());
        named.filter(|url| !url.is_empty()).ok_or(Trouble::NoStore)
    }

    /// The servers behind it.
    pub(crate) fn target(&self) -> Result<Target, Trouble> {
        Target::parse(&self.url()?, &self.authority)
    }
}

impl Authority {
    /// The text of the certificates.
    pub(crate) fn pem(&self) -> Result<Option<Vec<u8>>, Trouble> {
        let Some(path) = &self.ca else { return Ok(None) };
        std::fs::read(path).map(Some).map_err(|error| Trouble::Authority(path.clone(), error.to_string()))
    }
}

/// Without the URL, which may hold a password.
impl std::fmt::Debug for StoreArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreArgs").field("named", &self.store.is_some()).finish_non_exhaustive()
    }
}
