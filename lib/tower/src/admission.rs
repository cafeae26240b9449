//! From a request's head to whether it passes: the key, the question, the answer, and the handling of failures.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{Response, StatusCode};
use tollgate_http::DecisionReport;
use tollgate_kernel::{Cost, Decision, Detail, EXACT, Micros, Source, StoreError, Wait};

use crate::key::{self, KeyBuf, KeyError};
use crate::limiter::LimiterQuestion;
use crate::line::{LineAnswer, LineOutcome, LineQuestion, WaitLine};
use crate::refusal::{GateRefusal, RefusalReason};
use crate::route_rules::RouteRules;
use crate::settle::Settlement;
use crate::verdict::{Details, LimiterVerdict};

/// Names the source of the decision, if it was not the store.
const SOURCE: HeaderName = HeaderName::from_static("tollgate-source");

/// Sets the field that names the source, if that is not the store. If several layers set it, the strictest source
/// remains: closed before open before local.
pub(crate) fn write_source(source: Source, headers: &mut HeaderMap) {
    if source == Source::Home {
        return;
    }
    let stronger = [Source::Closed, Source::Open, Source::Local].into_iter().take_while(|other| *other != source);
    let present = headers.get(&SOURCE);
    if !stronger.into_iter().any(|other| present.is_some_and(|present| present == other.name())) {
        headers.insert(SOURCE, HeaderValue::from_static(source.name()));
    }
}

/// Whether a request passes, with the verdict of the limiter.
pub(crate) enum Admission {
    Pass(LimiterVerdict),
    Refuse(LimiterVerdict, RefusalKind),
}

/// What a refusal is due to: a [`RefusalReason`] without the verdict.
#[derive(Clone, Copy)]
pub(crate) enum RefusalKind {
    Limit,
    Line,
    Closed,
}

/// A pending admission; it returns the head.
pub(crate) type AdmissionFuture = Pin<Box<dyn Future<Output = (Parts, Admission)> + Send>>;
/// The pending settlement of a charge; it returns what is left.
pub(crate) type SettlementFuture = Pin<Box<dyn Future<Output = Option<LimiterVerdict>> + Send>>;

impl RouteRules {
    /// Writes the key of a request into a buffer of the caller, since keys are large to move.
    #[inline]
    pub(crate) fn write_key(&self, parts: &Parts, key: &mut KeyBuf) -> Result<(), KeyError> {
        key::write(&*self.key, parts, key)
    }

    /// Returns the decision, if it is known immediately and contains everything. A failure is reported by
    /// [`RouteRules::admit_now`], which asks again.
    #[inline]
    pub(crate) fn decide_now(&self, key: &[u8], question: LimiterQuestion) -> Option<Decision> {
        if self.line.is_some() { None } else { self.limiter.decision_now(key, question) }
    }

    /// Returns the verdict for a decision of [`RouteRules::decide_now`].
    pub(crate) fn verdict_of_one(&self, decision: &Decision) -> LimiterVerdict {
        let count = self.limiter.policy().and_then(|policy| policy.limits().first()).map_or(0, |only| only.count());
        LimiterVerdict::Decided(*decision, Details::of_one(decision, count))
    }

    /// Returns the admission, if it is known immediately.
    #[inline]
    pub(crate) fn admit_now(&self, key: &[u8], question: LimiterQuestion) -> Option<Admission> {
        if self.line_for(question).is_some() {
            return None;
        }
        let answer = self.limiter.verdict_now(key, question)?;
        Some(self.admission_of(answer, key, question))
    }

    /// Returns the admission as a future.
    pub(crate) fn admit_later(
        self: Arc<Self>,
        parts: Parts,
        key: KeyBuf,
        question: LimiterQuestion,
    ) -> AdmissionFuture {
        Box::pin(async move {
            let key = key.as_bytes();
            let admission = match self.line_for(question) {
                None => self.admission_of(self.ask(&parts, key, question).await, key, question),
                Some(line) => self.admit_in_line(line, &parts, key, question).await,
            };
            self.check_refunds(&admission);
            (parts, admission)
        })
    }

    /// Logs once if the store does not permit the refunds that `settle` may request, so that a missing permission
    /// shows with the first request and not with the first refund. The request does not wait for this. With
    /// `look_first`, nothing is charged and nothing refunded.
    fn check_refunds(self: &Arc<Self>, admission: &Admission) {
        let (Admission::Pass(verdict) | Admission::Refuse(verdict, _)) = admission;
        if self.settle.is_none() || self.look || verdict.source() != Source::Home || !self.limiter.begins_refund_check()
        {
            return;
        }
        // Outside tokio the check is omitted; the first refund that fails is logged then.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let route = self.clone();
        runtime.spawn(async move {
            if let Some(error) = route.limiter.refund_refused().await {
                route.log.report_now("the store does not let us give back, so Settlement::Refund will fail", &error);
            }
        });
    }

    /// Returns the line in which the request waits if it does not fit. A request of cost 0 passes without waiting.
    fn line_for(&self, question: LimiterQuestion) -> Option<&WaitLine> {
        self.line.as_ref().filter(|_| question.cost().get() > 0)
    }

    async fn ask(&self, parts: &Parts, key: &[u8], question: LimiterQuestion) -> Result<LimiterVerdict, StoreError> {
        self.within_deadline(self.limiter.verdict_later(parts, key, question)).await
    }

    async fn within_deadline<T>(&self, asking: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let Some(deadline) = self.deadline else { return asking.await };
        let late = || StoreError::Away { why: format!("no answer within {deadline:?}"), untouched: false };
        tokio::time::timeout(deadline, asking).await.unwrap_or_else(|_| Err(late()))
    }

    async fn admit_in_line(&self, line: &WaitLine, parts: &Parts, key: &[u8], question: LimiterQuestion) -> Admission {
        let cost = question.cost();
        // Requests that wait for different limiters are in different rows, even if their keys are the same.
        let row = [self.number.to_be_bytes().as_slice(), key].concat();
        let waited = line.wait(&row, |ask| {
            let question = match ask {
                LineQuestion::Charge => question,
                LineQuestion::Look => LimiterQuestion::Look(cost),
            };
            self.ask(parts, key, question)
        });
        match waited.await {
            Ok(LineOutcome::Full(verdict) | LineOutcome::Late(verdict)) => {
                Admission::Refuse(verdict, RefusalKind::Line)
            }
            Ok(LineOutcome::Passed(verdict) | LineOutcome::Refused(verdict)) => {
                self.admission_of(Ok(verdict), key, question)
            }
            Err(error) => self.admission_of(Err(error), key, question),
        }
    }

    /// Returns what an answer, or a failure, means for the request.
    pub(crate) fn admission_of(
        &self,
        answer: Result<LimiterVerdict, StoreError>,
        key: &[u8],
        question: LimiterQuestion,
    ) -> Admission {
        let verdict = match answer {
            Ok(verdict) => {
                if verdict.source() != Source::Home {
                    self.log.report("a limit was not decided by its store", &verdict.source().name());
                }
                verdict
            }
            Err(error) => {
                self.log.report("a limit could not be checked", &error);
                self.limiter.without_store(self.on_failure(), key, question)
            }
        };
        match (verdict.allowed(), verdict.source()) {
            (true, _) => Admission::Pass(verdict),
            (false, Source::Closed) => Admission::Refuse(verdict, RefusalKind::Closed),
            (false, _) => {
                let verdict = match self.limiter.policy() {
                    Some(policy) => verdict.in_seconds(policy, question.cost()),
                    None => verdict,
                };
                Admission::Refuse(verdict, RefusalKind::Limit)
            }
        }
    }

    /// Returns the response to a request that does not pass.
    pub(crate) fn refuse(&self, parts: &Parts, verdict: &LimiterVerdict, kind: RefusalKind) -> Response<Bytes> {
        let reason = match kind {
            RefusalKind::Limit => RefusalReason::Limit(verdict),
            RefusalKind::Line => RefusalReason::Line(verdict),
            RefusalKind::Closed => RefusalReason::Closed(verdict),
        };
        let mut response = self.respond_to(parts, reason);
        self.write_fields(verdict, response.headers_mut());
        let custom_wait = match verdict {
            LimiterVerdict::Custom(custom) => custom.retry_after.map(Micros::secs_up),
            LimiterVerdict::Decided(..) => None,
        };
        let wait = custom_wait.or(matches!(kind, RefusalKind::Line | RefusalKind::Closed).then_some(1));
        if let (Some(seconds), false) = (wait, response.headers().contains_key(RETRY_AFTER)) {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }

    /// Returns the response to a request without a key, or `None` if it passes unchanged.
    pub(crate) fn refuse_without_key(&self, parts: &Parts, error: &KeyError) -> Option<Response<Bytes>> {
        if self.pass_without_key || matches!(error, KeyError::Setup(_)) {
            self.log.report("a request has no key", error);
        }
        (!self.pass_without_key).then(|| self.respond_to(parts, RefusalReason::Key(error)))
    }

    fn respond_to(&self, parts: &Parts, reason: RefusalReason<'_>) -> Response<Bytes> {
        let refusal = GateRefusal { parts, reason, policy: self.limiter.policy() };
        match &self.respond {
            Some(respond) => respond(&refusal),
            None => refusal.response(),
        }
    }

    /// Writes the header fields of a decision.
    #[inline]
    pub(crate) fn write_decision_fields(&self, decision: &Decision, details: &[Detail], headers: &mut HeaderMap) {
        if let (Some(fields), Some(policy)) = (&self.prepared, self.limiter.policy()) {
            fields.write(&DecisionReport { policy, decision, details }, headers);
        }
    }

    /// Writes the header fields of a verdict.
    pub(crate) fn write_fields(&self, verdict: &LimiterVerdict, headers: &mut HeaderMap) {
        match verdict {
            LimiterVerdict::Decided(decision, details) => {
                self.write_decision_fields(decision, details.as_slice(), headers)
            }
            LimiterVerdict::Custom(custom) => {
                for (name, value) in &custom.headers {
                    headers.insert(name.clone(), value.clone());
                }
            }
        }
        write_source(verdict.source(), headers);
    }

    /// Returns the change that a response makes to the charge of its request, if any.
    pub(crate) fn settlement(
        self: &Arc<Self>,
        decision: Option<Decision>,
        key: &KeyBuf,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Option<SettlementFuture> {
        let settle = self.settle.as_ref()?(status, headers);
        let (route, key) = (self.clone(), key.clone());
        match settle {
            Settlement::Keep => None,
            Settlement::Refund => Some(Box::pin(async move { route.refund(key.as_bytes(), decision?).await })),
            Settlement::Charge(units) => {
                let cost = Cost::new(units.min(EXACT - 1)).unwrap_or(Cost::ONE);
                Some(Box::pin(async move { route.count(key.as_bytes(), cost).await }))
            }
        }
    }

    /// Refunds what the store charged. Decisions from other sources were not charged in the store.
    async fn refund(&self, key: &[u8], decision: Decision) -> Option<LimiterVerdict> {
        let charged = Cost::new(decision.charged).filter(|cost| cost.get() > 0 && decision.source == Source::Home)?;
        let refunding = async {
            self.limiter.refund(key, charged, decision.at).await?;
            self.limiter.ask_again(key, LimiterQuestion::Look(Cost::ONE)).await
        };
        self.settle_by(refunding, "a charge could not be given back").await
    }

    /// Charges the units that a response determined.
    async fn count(&self, key: &[u8], cost: Cost) -> Option<LimiterVerdict> {
        self.settle_by(self.limiter.ask_again(key, LimiterQuestion::Count(cost)), "a response could not be charged")
            .await
    }

    /// Waits for a refund or charge, no longer than for a decision, and returns what is left then.
    async fn settle_by(
        &self,
        asking: impl Future<Output = Result<LimiterVerdict, StoreError>>,
        failed: &str,
    ) -> Option<LimiterVerdict> {
        match self.within_deadline(asking).await {
            Ok(verdict) => Some(verdict.into_passed()),
            Err(error) => {
                self.log.report(failed, &error);
                None
            }
        }
    }
}

impl LineAnswer for LimiterVerdict {
    fn wait(&self) -> Option<Wait> {
        (!self.allowed()).then(|| self.retry_after().unwrap_or(Wait::Never))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_layers_the_source_of_the_strictest_stays() {
        use Source::{Closed, Home, Local, Open};
        for (sources, written) in [
            (&[Home][..], None),
            (&[Local, Home], Some("local")),
            (&[Closed, Open], Some("closed")),
            (&[Open, Closed], Some("closed")),
            (&[Open, Local], Some("open")),
            (&[Local, Open, Home], Some("open")),
        ] {
            let mut headers = HeaderMap::new();
            sources.iter().for_each(|source| write_source(*source, &mut headers));
            assert_eq!(headers.get(SOURCE).map(|source| source.to_str().unwrap()), written, "{sources:?}");
        }
    }
}
