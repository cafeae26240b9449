//! Waiting with a bound: a test that waits for ever tells nobody what it waited for.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::error::Error;

const PAUSE: Duration = Duration::from_millis(10);

/// Asks until there is an answer, an error, or no time left; at least once.
pub(crate) fn until<T>(
    bound: Duration,
    waiting: &str,
    mut ask: impl FnMut() -> Result<Option<T>, Error>,
) -> Result<T, Error> {
    let started = Instant::now();
    loop {
        if let Some(answer) = ask()? {
            return Ok(answer);
        }
        if started.elapsed() >= bound {
            return Err(Error::TimedOut { waiting: waiting.to_owned(), bound });
        }
        sleep(PAUSE);
    }
}
