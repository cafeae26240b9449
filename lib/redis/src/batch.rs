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

use crate::call::{Code, Form};
use crate::code;
use crate::connect::Closed;
use crate::link::{Core, Job};
use crate::settings::Packaging;
use crate::stats::add;
use crate::verdict::{Trouble, Verdict, command_verdict, lacks_functions, verdict, words};

/// The maximum number of times that a call is sent whose script or function is missing.
const ATTEMPTS: usize = 5;
/// The attempt from which on the library replaces an existing one of the same name. Earlier attempts leave an
/// existing one in place: after a flush many stores load it at once, and replacing it costs the server 20 times as
/// much as refusing it (2.4 ms against 0.1 ms).
const REPLACES: usize = 3;

/// What a pipeline delivers along with its calls.
#[derive(Clone, Copy, Default)]
struct Bring {
    library: bool,
    replace: bool,
    texts: bool,
}

/// What remains of a pipeline: the calls that were refused because something is missing, and the error of loading
/// the library, if that was sent and refused.
#[derive(Default)]
struct Left {
    refused: Vec<(Job, ServerError)>,
    unloaded: Option<ServerError>,
}

/// Sends `jobs` and delivers the answers.
pub(crate) async fn run(core: &Core, jobs: Vec<Job>) {
    let mut seen = core.loads.load(Ordering::Acquire);
    let mut left = send(core, jobs, Bring::default()).await;
    for attempt in 1..ATTEMPTS {
        let Left { refused, unloaded } = left;
        if refused.is_empty() {
            return;
        }
        if let Some(error) = unloaded
            && !falls_back(core, &error)
        {
            return refused.into_iter().for_each(|(job, _)| answer(job, Err(without_library(&error))));
        }
        add(&core.shared.counters.retries, refused.len());
        let needs_library = |(job, error): &(Job, ServerError)| job.call.function().is_some() && is_missing(error);
        let library = core.calls_functions() && refused.iter().any(needs_library);
        let jobs = refused.into_iter().map(|(job, _)| job).collect();
        left =
            bring(core, jobs, Bring { library, replace: attempt >= REPLACES, texts: true }, &mut seen, attempt).await;
    }
    left.refused.into_iter().for_each(|(job, error)| answer(job, Err(Trouble::Server(error))));
}

/// Sends `jobs` with what they lack. Only one pipeline does so at a time. A pipeline that had to wait for another
/// first sends its calls alone, since the other may have delivered what they lack: the library serves all calls,
/// but a script may have been a different one.
async fn bring(core: &Core, jobs: Vec<Job>, bring: Bring, seen: &mut u64, attempt: usize) -> Left {
    let lock = core.loading.lock().await;
    let loads = core.loads.load(Ordering::Acquire);
    let brought = std::mem::replace(seen, loads) != loads;
    if brought && attempt < if bring.library { ATTEMPTS - 1 } else { 2 } {
        drop(lock);
        return send(core, jobs, Bring::default()).await;
    }
    let left = send(core, jobs, bring).await;
    *seen = core.loads.fetch_add(1, Ordering::AcqRel) + 1;
    left
}

async fn send(core: &Core, mut jobs: Vec<Job>, bring: Bring) -> Left {
    let live = match core.connection().await {
        Ok(live) => live,
        Err(closed) => {
            let trouble = match closed {
                Closed::Away(why) => Trouble::Unsent(why),
                Closed::Refused(why) => Trouble::Wrong(why),
            };
            jobs.into_iter().for_each(|job| answer(job, Err(trouble.clone())));
            return Left::default();
        }
    };
    // The order matters: see `Call::hand_over`.
    jobs.retain(|job| {
        job.call.hand_over();
        !job.reply.is_closed()
    });
    if jobs.is_empty() {
        return Left::default();
    }
    add(&core.shared.counters.batches, 1);
    add(&core.shared.counters.calls, jobs.len());
    match live.send(&pipeline(core, &jobs, bring), core.shared.settings.response).await {
        Ok(answers) => hand_out(core, jobs, answers, bring),
        Err(why) => {
            core.discard(&live).await;
            jobs.into_iter().for_each(|job| answer(job, Err(Trouble::Unknown(why.clone()))));
            Left::default()
        }
    }
}

fn pipeline(core: &Core, jobs: &[Job], bring: Bring) -> Pipeline {
    let mut pipeline = Pipeline::with_capacity(jobs.len() + 1);
    if bring.library {
        add(&core.shared.counters.reloads, 1);
        let load = pipeline.cmd("FUNCTION").arg("LOAD");
        if bring.replace { load.arg("REPLACE") } else { load }.arg(code::library());
    }
    let (functions, mut brought) = (core.calls_functions(), HashSet::new());
    for job in jobs {
        if job.asking {
            pipeline.cmd("ASKING");
        }
        let form = match &job.call.code {
            Code::Lua(Some(name), _) if functions => Form::Function(name),
            Code::Lua(_, script) if bring.texts && brought.insert(script.sha.as_str()) => {
                add(&core.shared.counters.reloads, 1);
                Form::Text
            }
            _ => Form::Sha,
        };
        pipeline.add_command(job.call.command(form));
    }
    pipeline
}

fn hand_out(core: &Core, jobs: Vec<Job>, answers: Vec<Value>, bring: Bring) -> Left {
    let (mut left, mut answers) = (Left::default(), answers.into_iter());
    if bring.library
        && let Some(Value::ServerError(error)) = answers.next()
        && !is_there(&error)
    {
        left.unloaded = Some(error);
    }
    for job in jobs {
        if job.asking {
            answers.next();
        }
        match answers.next() {
            // Nothing that a command lacks can be loaded.
            Some(Value::ServerError(error)) if job.call.is_command() => {
                if command_verdict(&error) != Verdict::Unsure {
                    job.call.take_back();
                }
                answer(job, Err(Trouble::Server(error)));
            }
            Some(Value::ServerError(error)) => {
                job.call.take_back();
                if is_missing(&error) || (job.call.function().is_some() && turns_to_scripts(core, &error)) {
                    left.refused.push((job, error));
                } else {
                    answer(job, Err(Trouble::Server(error)));
                }
            }
            Some(value) => answer(job, Ok(value)),
            // Unreachable: the number of answers was checked.
            None => answer(job, Err(Trouble::Unknown("expected an answer to every call".into()))),
        }
    }
    left
}

fn is_missing(error: &ServerError) -> bool {
    verdict(error) == Verdict::Missing
}

/// Switches to scripts under `Auto` if the server does not support functions or does not let us use them. Returns
/// whether it did.
fn turns_to_scripts(core: &Core, error: &ServerError) -> bool {
    let turns = core.shared.settings.packaging == Packaging::Auto && lacks_functions(error) && core.calls_functions();
    if turns {
        core.functions.store(false, Ordering::Relaxed);
    }
    turns
}

/// Returns whether this error of FUNCTION LOAD makes the store use scripts instead, and switches to them if so.
fn falls_back(core: &Core, error: &ServerError) -> bool {
    let taken = core.shared.settings.packaging == Packaging::Auto && is_taken(error);
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

fn without_library(error: &ServerError) -> Trouble {
    if !is_taken(error) {
        return Trouble::Server(error.clone());
    }
    let words = words(error);
    Trouble::Wrong(format!(
        "another library holds the names of ours: {words}; FUNCTION DELETE it, or open the store with Packaging::Script"
    ))
}

fn answer(job: Job, answer: Result<Value, Trouble>) {
    // The receiver may have given up.
    let _ = job.reply.send(answer);
}
