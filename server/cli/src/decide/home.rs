//! The store behind `--store`, for one question.

use std::time::Duration;

use tollgate_kernel::{Decision, Detail, OnError, Policy, Request, Source, Store};
use tollgate_redis::{Packaging, Redis, RedisOpenError};

use crate::error::CliError;
use crate::server::{ServerError, ServerTarget, StoreArgs, token};

/// The deadline of a question: people wait longer than requests do.
const PATIENCE: Duration = Duration::from_secs(5);

/// Opens the store, asks the question, and closes the store.
pub(crate) fn with_store<T>(
    args: &StoreArgs,
    question: impl AsyncFnOnce(&Redis) -> Result<T, CliError>,
) -> Result<T, CliError> {
    let target = args.target()?;
    let is_tollgate = target.url.tollgate;
    let answer = with_target(args, target, question);
    if is_tollgate { answer.map_err(|error| CliError::Tollgate(Box::new(error))) } else { answer }
}

fn with_target<T>(
    args: &StoreArgs,
    target: ServerTarget,
    question: impl AsyncFnOnce(&Redis) -> Result<T, CliError>,
) -> Result<T, CliError> {
    // The test login reports more precisely than the store what is wrong with a URL, a login or a certificate.
    let target = token::authenticate(target)?;
    let place = target.to_string();
    let mut builder =
        Redis::builder(&args.url()).deadline(PATIENCE).connect_timeout(PATIENCE).response_timeout(PATIENCE);
    if !target.url.tollgate {
        // A single question does not install a library.
        builder = builder.packaging(Packaging::Script);
    } else if let Some(token) = &target.url.password {
        builder = builder.token(&token.0);
    }
    if let Some(pem) = args.authority.pem()? {
        builder = builder.authority(pem);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CliError::Runtime)?;
    runtime.block_on(async {
        let store = builder.connect().await.map_err(|error| match error {
            RedisOpenError::Away(why) => CliError::Server(ServerError::Away { place, why }),
            error => CliError::Settings(error),
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
) -> Result<(Decision, Vec<Detail>), CliError> {
    let policy = policy.clone().with_on_error(OnError::Deny);
    let (decision, details) = store.check_full(&policy, key, request).await?;
    if decision.source == Source::Closed { Err(CliError::Undecided) } else { Ok((decision, details)) }
}
