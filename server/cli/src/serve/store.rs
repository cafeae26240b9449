//! The store behind `--store`: tested before the server starts, unless `--lazy` is given.

use tollgate_redis::{Redis, RedisOpenError};

use super::ServeArgs;
use crate::error::CliError;
use crate::server::{Fleet, ServerError, ServerTarget};

/// The variable that names the store if no option does.
const STORE: &str = "TOLLGATE_SERVE_STORE";

/// Opens the store, and returns it with its address in a form that may be printed; `None` if the server decides by
/// itself.
pub(crate) async fn open(args: &ServeArgs) -> Result<Option<(Redis, String)>, CliError> {
    let named = args.store.clone().or_else(|| std::env::var(STORE).ok());
    let Some(url) = named.filter(|url| !url.is_empty()) else {
        if let Some(prefix) = args.store_keys.first() {
            let (found, expected) = (prefix.clone(), "a store that has the keys: --store URL");
            return Err(CliError::Argument { what: "--store-keys", found, expected });
        }
        return match args.instances {
            None => Ok(None),
            Some(count) => {
                let (found, expected) = (count.to_string(), "a store that the servers use: --store URL");
                Err(CliError::Argument { what: "--instances", found, expected })
            }
        };
    };
    let target = ServerTarget::parse(&url, &args.authority)?;
    let place = target.to_string();
    let mut builder = Redis::builder(&url).share(1.0 / f64::from(args.instances.unwrap_or(1)));
    if let Some(pem) = args.authority.pem()? {
        builder = builder.authority(pem);
    }
    if args.lazy {
        return Ok(Some((builder.lazy().map_err(CliError::Settings)?, place)));
    }
    // This test reports more precisely than the store what is wrong with a URL, a login or a certificate.
    Fleet::test_login(&target).map_err(|error| CliError::StoreAway(Box::new(error.into())))?;
    let store = builder.connect().await.map_err(|error| match error {
        RedisOpenError::Away(why) => {
            CliError::StoreAway(Box::new(ServerError::Away { place: place.clone(), why }.into()))
        }
        error => CliError::Settings(error),
    })?;
    Ok(Some((store, place)))
}
