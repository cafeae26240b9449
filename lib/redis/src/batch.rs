//! One pipeline, from calls to answers.
//!
//! The law: a call is sent again only if the server refused it. If the server does not have a script or function,
//! the refused calls are sent again in their order in one pipeline that also delivers what is missing: the first
//! call of each script carries its text, or the library comes first, and the calls that follow find it. Since
//! another client may flush scripts at any time, this is attempted a few times.
//!
//! If the connection fails, the answers to the whole pipeline are lost, and no call of it is sent again.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use redis::{Pipeline, ServerError, Value};

use crate::call::{CallCode, LuaForm};
use crate::code;
use crate::connect::ConnectionFailure;
use crate::link::{Job, LinkCore};
use crate::settings::Packaging;
use crate::stats::add;
use crate::verdict::{CallFailure, ErrorVerdict, command_verdict, lacks_functions, verdict, words};

/// The maximum number of times that a call is sent whose script or function is missing.
const ATTEMPTS: usize = 5;
/// The attempt from which on the library replaces an existing one of the same name. Earlier attempts leave an
/// existing one in place: after a flush many stores load it at once, and replacing it costs the server 20 times as
/// much as refusing it (2.4 ms against 0.1 ms).
const REPLACE_FROM: usize = 3;

/// What a pipeline delivers along with its calls.
#[derive(Clone, Copy, Default)]
struct LuaDelivery {
    library: bool,
    replace: bool,
    texts: bool,
}

/// What remains of a pipeline: the calls that were refused because something is missing, and the error of loading
/// the library, if that was sent and refused.
#[derive(Default)]
struct BatchRemainder {
    refused: Vec<(Job, ServerError)>,
    unloaded: Option<ServerError>,
}

/// Sends `jobs` and delivers the answers.
pub(crate) async fn run(core: &LinkCore, jobs: Vec<Job>) {
    let mut seen = core.loads.load(Ordering::Acquire);
    let mut remainder = send(core, jobs, LuaDelivery::default()).await;
    for attempt in 1..ATTEMPTS {
        let BatchRemainder { refused, unloaded } = remainder;
        if refused.is_empty() {
            return;
        }
        if let Some(error) = unloaded
            && !falls_back(core, &error)
        {
            return refused.into_iter().for_each(|(job, _)| answer(job, Err(without_library(&error))));
        }
        add(&core.context.counters.retries, refused.len());
        let needs_library = |(job, error): &(Job, ServerError)| job.call.function().is_some() && is_missing(error);
        let library = core.calls_functions() && refused.iter().any(needs_library);
        let jobs = refused.into_iter().map(|(job, _)| job).collect();
        remainder = deliver(
            core,
            jobs,
            LuaDelivery { library, replace: attempt >= REPLACE_FROM, texts: true },
            &mut seen,
            attempt,
        )
        .await;
    }
    remainder.refused.into_iter().for_each(|(job, error)| answer(job, Err(CallFailure::Server(error))));
}

/// Sends `jobs` with what they lack. Only one pipeline does so at a time. A pipeline that had to wait for another
/// first sends its calls alone, since the other may have delivered what they lack: the library serves all calls,
/// but a script may have been a different one.
async fn deliver(
    core: &LinkCore,
    jobs: Vec<Job>,
    delivery: LuaDelivery,
    seen: &mut u64,
    attempt: usize,
) -> BatchRemainder {
    let lock = core.loading.lock().await;
    let loads = core.loads.load(Ordering::Acquire);
    let delivered = std::mem::replace(seen, loads) != loads;
    if delivered && attempt < if delivery.library { ATTEMPTS - 1 } else { 2 } {
        drop(lock);
        return send(core, jobs, LuaDelivery::default()).await;
    }
    let remainder = send(core, jobs, delivery).await;
    *seen = core.loads.fetch_add(1, Ordering::AcqRel) + 1;
    remainder
}

async fn send(core: &LinkCore, mut jobs: Vec<Job>, delivery: LuaDelivery) -> BatchRemainder {
    let connection = match core.connection().await {
        Ok(connection) => connection,
        Err(failure) => {
            let failure = match failure {
                ConnectionFailure::Away(why) => CallFailure::Unsent(why),
                ConnectionFailure::Refused(why) => CallFailure::Wrong(why),
            };
            jobs.into_iter().for_each(|job| answer(job, Err(failure.clone())));
            return BatchRemainder::default();
        }
    };
    // The order matters: see `RedisCall::mark_sent`.
    jobs.retain(|job| {
        job.call.mark_sent();
        !job.reply.is_closed()
    });
    if jobs.is_empty() {
        return BatchRemainder::default();
    }
    add(&core.context.counters.batches, 1);
    add(&core.context.counters.calls, jobs.len());
    match connection.send(&pipeline(core, &jobs, delivery), core.context.settings.response).await {
        Ok(answers) => deliver_answers(core, jobs, answers, delivery),
        Err(why) => {
            core.discard(&connection).await;
            jobs.into_iter().for_each(|job| answer(job, Err(CallFailure::Unknown(why.clone()))));
            BatchRemainder::default()
        }
    }
}

fn pipeline(core: &LinkCore, jobs: &[Job], delivery: LuaDelivery) -> Pipeline {
    let mut pipeline = Pipeline::with_capacity(jobs.len() + 1);
    if delivery.library {
        add(&core.context.counters.reloads, 1);
        let load = pipeline.cmd("FUNCTION").arg("LOAD");
        if delivery.replace { load.arg("REPLACE") } else { load }.arg(code::library());
    }
    let (functions, mut delivered) = (core.calls_functions(), HashSet::new());
    for job in jobs {
        if job.asking {
            pipeline.cmd("ASKING");
        }
        let form = match &job.call.code {
            CallCode::Lua(Some(name), _) if functions => LuaForm::Function(name),
            CallCode::Lua(_, script) if delivery.texts && delivered.insert(script.sha.as_str()) => {
                add(&core.context.counters.reloads, 1);
                LuaForm::Text
            }
            _ => LuaForm::Sha,
        };
        pipeline.add_command(job.call.command(form));
    }
    pipeline
}

fn deliver_answers(core: &LinkCore, jobs: Vec<Job>, answers: Vec<Value>, delivery: LuaDelivery) -> BatchRemainder {
    let (mut remainder, mut answers) = (BatchRemainder::default(), answers.into_iter());
    if delivery.library
        && let Some(Value::ServerError(error)) = answers.next()
        && !is_there(&error)
    {
        remainder.unloaded = Some(error);
    }
    for job in jobs {
        if job.asking {
            answers.next();
        }
        match answers.next() {
            // Nothing that a command lacks can be loaded.
            Some(Value::ServerError(error)) if job.call.is_command() => {
                if command_verdict(&error) != ErrorVerdict::Unsure {
                    job.call.mark_refused();
                }
                answer(job, Err(CallFailure::Server(error)));
            }
            // The caller of a forwarded command learns what was missing, and loads it.
            Some(Value::ServerError(error)) if job.call.is_forwarded() => answer(job, Err(CallFailure::Server(error))),
            Some(Value::ServerError(error)) => {
                job.call.mark_refused();
                if is_missing(&error) || (job.call.function().is_some() && turns_to_scripts(core, &error)) {
                    remainder.refused.push((job, error));
                } else {
                    answer(job, Err(CallFailure::Server(error)));
                }
            }
            Some(value) => answer(job, Ok(value)),
            // Unreachable: the number of answers was checked.
            None => answer(job, Err(CallFailure::Unknown("expected an answer to every call".into()))),
        }
    }
    remainder
}

fn is_missing(error: &ServerError) -> bool {
    verdict(error) == ErrorVerdict::Missing
}

/// Switches to scripts under `Auto` if the server does not support functions or does not let us use them. Returns
/// whether it did.
fn turns_to_scripts(core: &LinkCore, error: &ServerError) -> bool {
    let turns = core.context.settings.packaging == Packaging::Auto && lacks_functions(error) && core.calls_functions();
    if turns {
        core.functions.store(false, Ordering::Relaxed);
    }
    turns
}

/// Returns whether this error of FUNCTION LOAD makes the store use scripts instead, and switches to them if so.
fn falls_back(core: &LinkCore, error: &ServerError) -> bool {
    let taken = core.context.settings.packaging == Packaging::Auto && is_taken(error);
    if taken {
        core.functions.store(false, Ordering::Relaxed);
    }
    taken || turns_to_scripts(core, error)
}

/// Returns whether FUNCTION LOAD found one of our function names in another library.
fn is_taken(error: &ServerError) -> bool {
    error.details().is_some_and(|details| details.contains("already exists")) && !is_there(error)
}

/// Returns whether FUNCTION LOAD found the library itself.
fn is_there(error: &ServerError) -> bool {
    error.details().is_some_and(|details| details.starts_with("Library ") && details.contains("already exists"))
}

fn without_library(error: &ServerError) -> CallFailure {
    if !is_taken(error) {
        return CallFailure::Server(error.clone());
    }
    let words = words(error);
    CallFailure::Wrong(format!(
        "another library has functions of the same names: {words}; FUNCTION DELETE it, or open the store with Packaging::Script"
    ))
}

fn answer(job: Job, answer: Result<Value, CallFailure>) {
    // The receiver may have given up.
    let _ = job.reply.send(answer);
}
