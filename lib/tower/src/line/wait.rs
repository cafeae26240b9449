//! The path of one request through the line.

use std::future::Future;

use tollgate_kernel::{Micros, Wait};

use super::Line;
use super::asked::{Ask, Asked, Waited};
use super::place::{Entered, Place};
use super::queue::Turn;

/// What an answer means for a request that has some time left.
enum Next {
    Pass,
    Sleep(Micros),
    Refuse,
}

impl Line {
    /// Asks about a request under this key, and makes it wait until it fits.
    ///
    /// If no request waits under the key, `ask` is called immediately, and a request that fits does not wait.
    /// Otherwise the request joins the line, and `ask` is called when it is its turn: never before the requests
    /// that came earlier. The request is refused as soon as it is known that it would not fit before its deadline,
    /// with the answer that said so. A request whose turn has come is asked about even if it was woken late. A
    /// request whose deadline passes before its turn, because the requests before it wait long for their answers,
    /// ends at its deadline.
    ///
    /// A request that is dropped while it waits leaves no trace, wherever it was. If it was dropped during a call
    /// of `ask`, whatever that call charged remains charged. An error of `ask` ends only this request.
    pub async fn wait<T, E, F, R>(&self, key: &[u8], mut ask: F) -> Result<Waited<T>, E>
    where
        T: Asked,
        F: FnMut(Ask) -> R,
        R: Future<Output = Result<T, E>>,
    {
        let place = match Place::enter(&self.shared, key) {
            Entered::Behind(place) => place,
            Entered::Full => return Ok(Waited::Full(ask(Ask::Look).await?)),
            Entered::Alone => {
                let answer = ask(Ask::Charge).await?;
                let span = match Next::of(&answer, self.shared.longest) {
                    Next::Pass => return Ok(Waited::Passed(answer)),
                    Next::Refuse => return Ok(Waited::Refused(answer)),
                    Next::Sleep(span) => span,
                };
                let Some(place) = Place::join(&self.shared, key) else { return Ok(Waited::Full(answer)) };
                drop(answer);
                // Other requests may have been refused in the meantime and be in line before it.
                if place.leads() {
                    place.sleep(span).await;
                }
                place
            }
        };
        while place.turn().await == Turn::Own {
            let answer = place.watch(ask(Ask::Charge)).await?;
            let span = match Next::of(&answer, place.left()) {
                Next::Pass => return Ok(Waited::Passed(answer)),
                Next::Refuse => return Ok(Waited::Refused(answer)),
                Next::Sleep(span) => span,
            };
            drop(answer);
            place.sleep(span).await;
        }
        let late = place.left() == Micros::ZERO;
        let answer = ask(Ask::Look).await?;
        Ok(if late { Waited::Late(answer) } else { Waited::Full(answer) })
    }
}

impl Next {
    fn of(answer: &impl Asked, left: Micros) -> Self {
        match answer.wait() {
            None => Self::Pass,
            Some(Wait::After(span)) if span <= left => Self::Sleep(span),
            Some(_) => Self::Refuse,
        }
    }
}
