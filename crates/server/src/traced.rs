//! What the span of a request tells: the policy, a hash for the key, what came of it. Never the key.

use tollgate_core::Decision;
use tollgate_otlp::Span;

use crate::desk::{Answer, Desk, Known, Part, Question};
use crate::fault::Fault;

/// Tells the decisions of a policy, each with its key.
pub(crate) fn decisions<'a>(
    span: &mut Span,
    desk: &Desk,
    known: &Known,
    keys: impl ExactSizeIterator<Item = &'a [u8]>,
    decisions: &[Decision],
) {
    let count = keys.len();
    about(span, desk, known, keys);
    outcome(span, known, count, decisions);
}

/// The policy, and the key if there is one.
fn about<'a>(span: &mut Span, desk: &Desk, known: &Known, mut keys: impl ExactSizeIterator<Item = &'a [u8]>) {
    span.set("tollgate.policy", known.label().as_str());
    if keys.len() == 1
        && let Some(key) = keys.next()
    {
        span.set("tollgate.key_hash", desk.ops.hash(key).as_str());
    }
}

fn outcome(span: &mut Span, known: &Known, count: usize, decisions: &[Decision]) {
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

/// Tells a question and its answer.
pub(crate) fn answer(span: &mut Span, desk: &Desk, question: &Question, answer: &Result<Answer, Fault>) {
    let one = |part: &Part, span: &mut Span| about(span, desk, &part.known, [part.key.as_slice()].into_iter());
    match (question, answer) {
        (Question::Check(ask), Ok(Answer::Decided(verdict))) => {
            one(&ask.part, span);
            let known = &ask.part.known;
            outcome(span, verdict.asked(known), 1, std::slice::from_ref(&verdict.decision));
            if known.rules.is_some() {
                span.set("tollgate.rule", verdict.rule.name());
            }
        }
        (Question::Check(ask), _) => one(&ask.part, span),
        (Question::Reset(part) | Question::Refund { part, .. }, _) => one(part, span),
        (Question::All(parts), Ok(Answer::Together(together, _))) => {
            span.set("tollgate.batch_size", parts.len());
            span.set("tollgate.allowed", together.allowed);
        }
        (Question::All(parts), _) => span.set("tollgate.batch_size", parts.len()),
    }
    if let Err(fault) = answer {
        span.fail(fault.code.word());
    }
}

/// The command that asks a question.
pub(crate) fn command(question: &Question) -> &'static str {
    match question {
        Question::Check(ask) if ask.peek => "TG.PEEK",
        Question::Check(_) => "TG.CHECK",
        Question::Reset(_) => "TG.RESET",
        Question::Refund { .. } => "TG.REFUND",
        Question::All(_) => "TG.CHECKALL",
    }
}
