//! The arguments that name servers, and the certificates to trust there.

use clap::Args;

use super::{ServerError, ServerTarget};

/// The variable that names the store if no option does.
const STORE: &str = "TOLLGATE_STORE";
/// The default store: the one that `tollgate serve` starts.
const DEFAULT: &str = "tollgate://127.0.0.1:7379";

/// `--store` and what belongs to it.
#[derive(Args, Clone, Default)]
pub(crate) struct StoreArgs {
    /// tollgate://, redis://, redis+cluster:// or redis+sentinel://, tollgates:// and rediss… with TLS; else
    /// $TOLLGATE_STORE, else tollgate://127.0.0.1:7379
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,

    #[command(flatten)]
    pub(crate) authority: AuthorityArgs,
}

/// `--ca`.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct AuthorityArgs {
    /// Certificates in PEM to trust for TLS, instead of the public ones
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<String>,
}

impl StoreArgs {
    /// Returns the URL of the option, that of the environment, or that of the server on this machine.
    pub(crate) fn url(&self) -> String {
        self.named(std::env::var(STORE).ok()).unwrap_or_else(|| DEFAULT.to_owned())
    }

    fn named(&self, environment: Option<String>) -> Option<String> {
        self.store.clone().or(environment).filter(|url| !url.is_empty())
    }

    /// Returns the servers behind the URL.
    pub(crate) fn target(&self) -> Result<ServerTarget, ServerError> {
        ServerTarget::parse(&self.url(), &self.authority)
    }
}

impl AuthorityArgs {
    /// Reads the certificates.
    pub(crate) fn pem(&self) -> Result<Option<Vec<u8>>, ServerError> {
        let Some(path) = &self.ca else { return Ok(None) };
        std::fs::read(path).map(Some).map_err(|error| ServerError::Authority(path.clone(), error.to_string()))
    }
}

/// Omits the URL, which may hold a password.
impl std::fmt::Debug for StoreArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreArgs").field("named", &self.store.is_some()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_comes_before_the_environment() {
        let named = |store: Option<&str>, environment: Option<&str>| {
            let args = StoreArgs { store: store.map(str::to_owned), ..StoreArgs::default() };
            args.named(environment.map(str::to_owned))
        };
        assert_eq!(named(Some("redis://a"), Some("redis://b")).as_deref(), Some("redis://a"));
        assert_eq!(named(None, Some("redis://b")).as_deref(), Some("redis://b"));
        assert_eq!((named(None, None), named(None, Some("")), named(Some(""), None)), (None, None, None));
        let default = ServerTarget::parse(DEFAULT, &AuthorityArgs::default()).ok();
        assert_eq!(default.and_then(|target| target.loopback_port()), Some(7379));
    }
}
