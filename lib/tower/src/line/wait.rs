//! The path of one request through the line.

use std::future::Future;

use tollgate_kernel::{Micros, Wait};

use super::WaitLine;
use super::position::{LineArrival, LinePosition};
use super::question::{LineAnswer, LineOutcome, LineQuestion};
use super::queue::WaiterStatus;

/// What an answer means for a request that has some time left.
enum LineStep {
    Pass,
    Sleep(Micros),
    Refuse,
}

impl WaitLine {
    /// Asks about a request under this key, and makes it wait until it fits.
    ///
    /// If no request waits under the key, `ask` is called immediately, and a request that fits does not wait.
    /// Otherwise the request joins the line, and `ask` is called when it is its turn: never before the requests
    /// that came earlier. The request is refused as soon as it is known that it would not fit before its deadline,
    /// with the answer that said so. A request whose turn has come is asked about even if it was woken late. A
    /// request whose deadline passes before its turn, because the requests before it wait long for their answers,
    /// ends at its deadline.
    ///
    /// A request that is dropped while it waits leaves no trace. If it was dropped during a call of `ask`, whatever
    /// that call charged remains charged. An error of `ask` ends only this request.
    pub async fn wait<T, E, F, R>(&self, key: &[u8], mut ask: F) -> Result<LineOutcome<T>, E>
    where
        T: LineAnswer,
        F: FnMut(LineQuestion) -> R,
        R: Future<Output = Result<T, E>>,
    {
        let position = match LinePosition::enter(&self.core, key) {
            LineArrival::Behind(position) => position,
            LineArrival::Full => return Ok(LineOutcome::Full(ask(LineQuestion::Look).await?)),
            LineArrival::Alone => {
                let answer = ask(LineQuestion::Charge).await?;
                let span = match LineStep::of(&answer, self.core.longest) {
                    LineStep::Pass => return Ok(LineOutcome::Passed(answer)),
                    LineStep::Refuse => return Ok(LineOutcome::Refused(answer)),
                    LineStep::Sleep(span) => span,
                };
                let Some(position) = LinePosition::join(&self.core, key) else {
                    return Ok(LineOutcome::Full(answer));
                };
                drop(answer);
                // Other requests may have been refused in the meantime and be in line before it.
                if position.leads() {
                    position.sleep(span).await;
                }
                position
            }
        };
        while position.wait_turn().await == WaiterStatus::Head {
            let answer = position.watch(ask(LineQuestion::Charge)).await?;
            let span = match LineStep::of(&answer, position.time_left()) {
                LineStep::Pass => return Ok(LineOutcome::Passed(answer)),
                LineStep::Refuse => return Ok(LineOutcome::Refused(answer)),
                LineStep::Sleep(span) => span,
            };
            drop(answer);
            position.sleep(span).await;
        }
        let late = position.time_left() == Micros::ZERO;
        let answer = ask(LineQuestion::Look).await?;
        Ok(if late { LineOutcome::Late(answer) } else { LineOutcome::Full(answer) })
    }
}

impl LineStep {
    fn of(answer: &impl LineAnswer, left: Micros) -> Self {
        match answer.wait() {
            None => Self::Pass,
            Some(Wait::After(span)) if span <= left => Self::Sleep(span),
            Some(_) => Self::Refuse,
        }
    }
}
