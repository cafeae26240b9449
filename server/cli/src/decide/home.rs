//! The store behind `--store`, for one question.

use std::time::Duration;

use tollgate_kernel::{Decision, Detail, OnError, Policy, Request, Source, Store};
use tollgate_redis::{OpenError, Packaging, Redis};

use crate::error::Error;
use crate::server::{StoreArgs, Target, Trouble, token};

/// The deadline of a question: people wait longer than requests do.
const PATIENCE: Duration = Duration::from_secs(5);

/// Opens the store, asks the question, and closes the store.
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
    // The test login reports more precisely than the store what is wrong with a URL, a login or a certificate.
    let target = token::enter(target)?;
    let place = target.to_string();
    let mut builder =
        Redis::builder(&args.url()).deadline(PATIENCE).connect_timeout(PATIENCE).response_timeout(PATIENCE);
    if !target.is_tollgate() {
        // A single question does not install a library.
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

/// Decides, or fails if the store did not decide: there is no stand-in here. A Tollgate server may have decided without
/// its own store; its decision says so.
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
