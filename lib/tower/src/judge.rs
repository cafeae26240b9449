//! From a request's head to whether it passes: the key, the question, the answer, and the handling of failures.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{Response, StatusCode};
use tollgate_http::Told;
use tollgate_kernel::{Cost, Decision, Detail, EXACT, Micros, Source, StoreError, Wait};

use crate::key::{self, KeyBuf, KeyError};
use crate::limiter::Question;
use crate::line::{Ask, Asked, Line, Waited};
use crate::refusal::{Refusal, Why};
use crate::settle::Settle;
use crate::toll::Toll;
use crate::verdict::{Details, Verdict};

/// Names the source of the decision, if it was not the store.
const SOURCE: HeaderName = HeaderName::from_static("tollgate-source");

/// Sets the field that names the source, if that is not the store. If several layers set it, the strictest source
/// remains: closed before open before local.
pub(crate) fn label(source: Source, headers: &mut HeaderMap) {
    if source == Source::Home {
        return;
    }
    let stronger = [Source::Closed, Source::Open, Source::Local].into_iter().take_while(|other| *other != source);
    let there = headers.get(&SOURCE);
    if !stronger.into_iter().any(|other| there.is_some_and(|there| there == other.name())) {
        headers.insert(SOURCE, HeaderValue::from_static(source.name()));
    }
}

/// The result of a question.
pub(crate) enum Judged {
    Pass(Verdict),
    Refuse(Verdict, Grounds),
}

#[derive(Clone, Copy)]
pub(crate) enum Grounds {
    Limit,
    Line,
    Closed,
}

/// A pending judgement; it returns the head.
pub(crate) type Judging = Pin<Box<dyn Future<Output = (Parts, Judged)> + Send>>;
/// The pending settlement of a charge; it returns what is left.
pub(crate) type Settled = Pin<Box<dyn Future<Output = Option<Verdict>> + Send>>;

impl Toll {
    /// Writes the key of a request into a buffer of the caller, since keys are large to move.
    #[inline]
    pub(crate) fn write_key(&self, parts: &Parts, key: &mut KeyBuf) -> Result<(), KeyError> {
        key::write(&*self.key, parts, key)
    }

    /// Returns the decision, if it is known immediately and contains everything. A failure is reported by
    /// [`Toll::judge_now`], which asks again.
    #[inline]
    pub(crate) fn decide_now(&self, key: &[u8], question: Question) -> Option<Decision> {
        if self.line.is_some() { None } else { self.limiter.now_of_one(key, question) }
    }

    /// Returns the verdict for a decision of [`Toll::decide_now`].
    pub(crate) fn verdict_of_one(&self, decision: &Decision) -> Verdict {
        let count = self.limiter.policy().and_then(|policy| policy.limits().first()).map_or(0, |only| only.count());
        Verdict::Decided(*decision, Details::of_one(decision, count))
    }

    /// Returns the judgement, if it is known immediately.
    #[inline]
    pub(crate) fn judge_now(&self, key: &[u8], question: Question) -> Option<Judged> {
        if self.line_for(question).is_some() {
            return None;
        }
        let answer = self.limiter.now(key, question)?;
        Some(self.judge(answer, key, question))
    }

    /// Returns the judgement as a future.
    pub(crate) fn judge_later(self: Arc<Self>, parts: Parts, key: KeyBuf, question: Question) -> Judging {
        Box::pin(async move {
            let key = key.as_bytes();
            let judged = match self.line_for(question) {
                None => self.judge(self.ask(&parts, key, question).await, key, question),
                Some(line) => self.judge_in_line(line, &parts, key, question).await,
            };
            self.check_refunds(&judged);
            (parts, judged)
        })
    }

    /// Logs once if the store does not permit the refunds that `settle` may request, so that a missing permission
    /// shows with the first request and not with the first refund. The request does not wait for this. With
    /// `look_first`, nothing is charged and nothing refunded.
    fn check_refunds(self: &Arc<Self>, judged: &Judged) {
        let (Judged::Pass(verdict) | Judged::Refuse(verdict, _)) = judged;
        if self.settle.is_none() || self.look || verdict.source() != Source::Home || !self.limiter.begins_refunds() {
            return;
        }
        // Outside tokio the check is omitted; the first refund that fails is logged then.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let toll = self.clone();
        runtime.spawn(async move {
            if let Some(error) = toll.limiter.refund_refused().await {
                toll.log.tell_now("the store does not let us give back, so Settle::Refund will fail", &error);
            }
        });
    }

    /// Returns the line in which the request waits if it does not fit. A request of cost 0 passes without waiting.
    fn line_for(&self, question: Question) -> Option<&Line> {
        self.line.as_ref().filter(|_| question.cost().get() > 0)
    }

    async fn ask(&self, parts: &Parts, key: &[u8], question: Question) -> Result<Verdict, StoreError> {
        self.within_deadline(self.limiter.later(parts, key, question)).await
    }

    async fn within_deadline<T>(&self, asking: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let Some(deadline) = self.deadline else { return asking.await };
        let late = || StoreError::Away { why: format!("no answer within {deadline:?}"), untouched: false };
        tokio::time::timeout(deadline, asking).await.unwrap_or_else(|_| Err(late()))
    }

    async fn judge_in_line(&self, line: &Line, parts: &Parts, key: &[u8], question: Question) -> Judged {
        let cost = question.cost();
        // Requests that wait for different limiters are in different rows, even if their keys are the same.
        let row = [self.number.to_be_bytes().as_slice(), key].concat();
        let waited = line.wait(&row, |ask| {
            let question = match ask {
                Ask::Charge => question,
                Ask::Look => Question::Look(cost),
            };
            self.ask(parts, key, question)
        });
        match waited.await {
            Ok(Waited::Full(verdict) | Waited::Late(verdict)) => Judged::Refuse(verdict, Grounds::Line),
            Ok(Waited::Passed(verdict) | Waited::Refused(verdict)) => self.judge(Ok(verdict), key, question),
            Err(error) => self.judge(Err(error), key, question),
        }
    }

    /// Returns what an answer, or a failure, means for the request.
    pub(crate) fn judge(&self, answer: Result<Verdict, StoreError>, key: &[u8], question: Question) -> Judged {
        let verdict = match answer {
            Ok(verdict) => {
                if verdict.source() != Source::Home {
                    self.log.tell("a limit was not decided by its store", &verdict.source().name());
                }
                verdict
            }
            Err(error) => {
                self.log.tell("a limit could not be checked", &error);
                self.limiter.without_store(self.on_failure(), key, question)
            }
        };
        match (verdict.allowed(), verdict.source()) {
            (true, _) => Judged::Pass(verdict),
            (false, Source::Closed) => Judged::Refuse(verdict, Grounds::Closed),
            (false, _) => {
                let verdict = match self.limiter.policy() {
                    Some(policy) => verdict.in_seconds(policy, question.cost()),
                    None => verdict,
                };
                Judged::Refuse(verdict, Grounds::Limit)
            }
        }
    }

    /// Returns the response to a request that does not pass.
    pub(crate) fn refuse(&self, parts: &Parts, verdict: &Verdict, grounds: Grounds) -> Response<Bytes> {
        let why = match grounds {
            Grounds::Limit => Why::Limit(verdict),
            Grounds::Line => Why::Line(verdict),
            Grounds::Closed => Why::Closed(verdict),
        };
        let mut response = self.respond_to(parts, why);
        self.tell(verdict, response.headers_mut());
        let of_own = match verdict {
            Verdict::Custom(custom) => custom.retry_after.map(Micros::secs_up),
            Verdict::Decided(..) => None,
        };
        let wait = of_own.or(matches!(grounds, Grounds::Line | Grounds::Closed).then_some(1));
        if let (Some(seconds), false) = (wait, response.headers().contains_key(RETRY_AFTER)) {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }

    /// Returns the response to a request without a key, or `None` if it passes unchanged.
    pub(crate) fn refuse_without_key(&self, parts: &Parts, error: &KeyError) -> Option<Response<Bytes>> {
        if self.pass_without_key || matches!(error, KeyError::Setup(_)) {
            self.log.tell("a request has no key", error);
        }
        (!self.pass_without_key).then(|| self.respond_to(parts, Why::Key(error)))
    }

    fn respond_to(&self, parts: &Parts, why: Why<'_>) -> Response<Bytes> {
        let refusal = Refusal { parts, why, policy: self.limiter.policy() };
        match &self.respond {
            Some(respond) => respond(&refusal),
            None => refusal.response(),
        }
    }

    /// Writes the header fields of a decision.
    #[inline]
    pub(crate) fn tell_decision(&self, decision: &Decision, details: &[Detail], headers: &mut HeaderMap) {
        if let (Some(fields), Some(policy)) = (&self.prepared, self.limiter.policy()) {
            fields.write(&Told { policy, decision, details }, headers);
        }
    }

    /// Writes the header fields of a verdict.
    pub(crate) fn tell(&self, verdict: &Verdict, headers: &mut HeaderMap) {
        match verdict {
            Verdict::Decided(decision, details) => self.tell_decision(decision, details.as_slice(), headers),
            Verdict::Custom(custom) => {
                for (name, value) in &custom.headers {
                    headers.insert(name.clone(), value.clone());
                }
            }
        }
        label(verdict.source(), headers);
    }

    /// Returns the change that a response makes to the charge of its request, if any.
    pub(crate) fn settled(
        self: &Arc<Self>,
        decision: Option<Decision>,
        key: &KeyBuf,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Option<Settled> {
        let settle = self.settle.as_ref()?(status, headers);
        let (toll, key) = (self.clone(), key.clone());
        match settle {
            Settle::Keep => None,
            Settle::Refund => Some(Box::pin(async move { toll.refund(key.as_bytes(), decision?).await })),
            Settle::Charge(units) => {
                let cost = Cost::new(units.min(EXACT - 1)).unwrap_or(Cost::ONE);
                Some(Box::pin(async move { toll.count(key.as_bytes(), cost).await }))
            }
        }
    }

    /// Refunds what the store charged. Decisions from other sources were not charged in the store.
    async fn refund(&self, key: &[u8], decision: Decision) -> Option<Verdict> {
        let charged = Cost::new(decision.charged).filter(|cost| cost.get() > 0 && decision.source == Source::Home)?;
        let refunding = async {
            self.limiter.refund(key, charged, decision.at).await?;
            self.limiter.again(key, Question::Look(Cost::ONE)).await
        };
        self.settle_by(refunding, "a charge could not be given back").await
    }

    /// Charges the units that a response determined.
    async fn count(&self, key: &[u8], cost: Cost) -> Option<Verdict> {
        self.settle_by(self.limiter.again(key, Question::Count(cost)), "a response could not be charged").await
    }

    /// Waits for a refund or charge, no longer than for a decision, and returns what is left then.
    async fn settle_by(
        &self,
        asking: impl Future<Output = Result<Verdict, StoreError>>,
        failed: &str,
    ) -> Option<Verdict> {
        match self.within_deadline(asking).await {
            Ok(left) => Some(left.of_passed()),
            Err(error) => {
                self.log.tell(failed, &error);
                None
            }
        }
    }
}

impl Asked for Verdict {
    fn wait(&self) -> Option<Wait> {
        (!self.allowed()).then(|| self.retry_after().unwrap_or(Wait::Never))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_layers_the_label_of_the_strictest_stays() {
        use Source::{Closed, Home, Local, Open};
        for (labels, told) in [
            (&[Home][..], None),
            (&[Local, Home], Some("local")),
            (&[Closed, Open], Some("closed")),
            (&[Open, Closed], Some("closed")),
            (&[Open, Local], Some("open")),
            (&[Local, Open, Home], Some("open")),
        ] {
            let mut headers = HeaderMap::new();
            labels.iter().for_each(|source| label(*source, &mut headers));
            assert_eq!(headers.get(SOURCE).map(|source| source.to_str().unwrap()), told, "{labels:?}");
        }
    }
}
