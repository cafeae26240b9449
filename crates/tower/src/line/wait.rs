//! The way of one request through the line.

use std::future::Future;

use tollgate_core::{Micros, Wait};

use super::Line;
use super::asked::{Ask, Asked, Waited};
use super::place::{Entered, Place};
use super::queue::Turn;

/// What an answer means to a request that has some time left.
enum Next {
    Pass,
    Sleep(Micros),
    Refuse,
}

impl Line {
    /// Asks for a request under this key, and has it wait until it fits.
    ///
    /// If nobody waits under the key it is asked at once, and a request that fits does not wait. Else it lines up, and
    /// is asked when its turn has come: never before those who came earlier. It is refused as soon as it is known that
    /// it would not fit before its deadline, with the answer that said so. A request whose turn has come is asked even
    /// if it was woken late; one whose deadline comes before its turn, since those before it wait long for their
    /// answers, is told then.
    ///
    /// A request that is dropped while it waits leaves no trace, wherever it was. If it was being asked, what it was
    /// charged is charged. An error of `ask` ends this request alone.
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
                // Others may have been refused meanwhile, and stand before it.
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
