//! The store behind `--store`, for one question.

use std::time::Duration;

use tollgate_core::{Decision, Detail, OnError, Policy, Request, Source, Store};
use tollgate_redis::{OpenError, Packaging, Redis};

use crate::error::Error;
use crate::server::{StoreArgs, Target, Trouble, token};

/// People wait longer than requests do.
const PATIENCE: Duration = Duration::from_secs(5);

/// Opens the store, asks, and closes it.
pub(crate) fn ask<T>(args: &StoreArgs, question: impl AsyncFnOnce(&Redis) -> Result<T, Error>) -> Result<T, Error> {
    let target = args.target()?;
    let is_tollgate = target.is_tollgate();
    let answer = asked(args, target, question);
    if is_tollgate { answer.map_err(|error| Error::Tollgate(Box::new(error))) } else { answer }
}

fn asked<T>(
    args: &StoreArgs,
    target: Target,
    question: impl AsyncFnOnce(&Redis) -> Result<T, Error>,
) -> Result<T, Error> {
    // Knocked at first: it tells better than the store what is wrong with a URL, a login or a certificate.
    let target = token::enter(target)?;
    let place = target.to_string();
    let mut builder =
        Redis::builder(&args.url()).deadline(PATIENCE).connect_timeout(PATIENCE).response_timeout(PATIENCE);
    if !target.is_tollgate() {
        // One question installs no library.
        builder = builder.packaging(Packaging::Script);
    } else if let Some(token) = &target.login.password {
        builder = builder.token(token);
    }
    if let Some(pem) = args.authority.pem()? {
        builder = builder.authority(pem);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::Runtime)?;
    runtime.block_on(async {
        let store = builder.connect().await.map_err(|error| match error {
            OpenError::Away(why) => Error::Server(Trouble::Away { place, why }),
            error => Error::Settings(error),
        })?;
        question(&store).await
    })
}

/// Decides, or says that the store did not: nobody decides in its place here. A Tollgate server may have,
/// without its own store; its decision says so.
pub(crate) async fn decide(
    store: &Redis,
    policy: &Policy,
    key: &[u8],
    request: Request,
) -> Result<(Decision, Vec<Detail>), Error> {
    let policy = policy.clone().with_on_error(OnError::Deny);
    let decided = store.check_full(&policy, key, request).await?;
    if decided.0.source == Source::Closed { Err(Error::Undecided) } else { Ok(decided) }
}
