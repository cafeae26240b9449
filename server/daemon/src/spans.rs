//! The attributes of a request's span: the policy, a hash of the key, the outcome. Never the key.

use tollgate_kernel::Decision;
use tollgate_telemetry::traces::RequestSpan;

use tollgate_engine::{Engine, EngineAnswer, EnginePolicy, EngineQuestion, QuestionPart};
use tollgate_keyspace::Fault;

/// Records the decisions of a policy, each for its key.
pub(crate) fn decisions<'a>(
    span: &mut RequestSpan,
    engine: &Engine,
    known: &EnginePolicy,
    keys: impl ExactSizeIterator<Item = &'a [u8]>,
    decisions: &[Decision],
) {
    let count = keys.len();
    about(span, engine, known, keys);
    outcome(span, known, count, decisions);
}

/// Records the policy, and the hash of the key if there is exactly one.
fn about<'a>(
    span: &mut RequestSpan,
    engine: &Engine,
    known: &EnginePolicy,
    mut keys: impl ExactSizeIterator<Item = &'a [u8]>,
) {
    span.set("tollgate.policy", known.label().as_str());
    if keys.len() == 1
        && let Some(key) = keys.next()
    {
        span.set("tollgate.key_hash", engine.key_hash(key).as_str());
    }
}

fn outcome(span: &mut RequestSpan, known: &EnginePolicy, count: usize, decisions: &[Decision]) {
    let allowed = decisions.iter().filter(|decision| decision.allowed).count();
    if count == 1 {
        span.set("tollgate.allowed", allowed == 1);
    } else {
        span.set("tollgate.batch_size", count);
        span.set("tollgate.allowed_count", allowed);
    }
    let Some(decision) = decisions.first() else { return };
    span.set("tollgate.source", decision.source.name());
    let limit = decision.limited_by.and_then(|place| known.policy.limits().get(place));
    if let Some(limit) = limit.filter(|_| count == 1) {
        span.set("tollgate.limited_by", limit.name().as_str());
    }
}

/// Records a question and its answer.
pub(crate) fn answer(
    span: &mut RequestSpan,
    engine: &Engine,
    question: &EngineQuestion,
    answer: &Result<EngineAnswer, Fault>,
) {
    let one = |part: &QuestionPart, span: &mut RequestSpan| {
        about(span, engine, &part.known, [part.key.as_slice()].into_iter())
    };
    match (question, answer) {
        (EngineQuestion::Check(ask), Ok(EngineAnswer::Decided(verdict))) => {
            one(&ask.part, span);
            let known = &ask.part.known;
            outcome(span, verdict.applied(known), 1, std::slice::from_ref(&verdict.decision));
            if known.rules.is_some() {
                span.set("tollgate.rule", verdict.rule.name());
            }
        }
        (EngineQuestion::Check(ask), _) => one(&ask.part, span),
        (EngineQuestion::Reset(part) | EngineQuestion::Refund { part, .. }, _) => one(part, span),
        (EngineQuestion::All(parts), Ok(EngineAnswer::Together(together, _))) => {
            span.set("tollgate.batch_size", parts.len());
            span.set("tollgate.allowed", together.allowed);
        }
        (EngineQuestion::All(parts), _) => span.set("tollgate.batch_size", parts.len()),
    }
    if let Err(fault) = answer {
        span.fail(fault.code.word());
    }
}

/// Returns the command that asks a question.
pub(crate) fn command(question: &EngineQuestion) -> &'static str {
    match question {
        EngineQuestion::Check(ask) if ask.peek => "TG.PEEK",
        EngineQuestion::Check(_) => "TG.CHECK",
        EngineQuestion::Reset(_) => "TG.RESET",
        EngineQuestion::Refund { .. } => "TG.REFUND",
        EngineQuestion::All(_) => "TG.CHECKALL",
    }
}
