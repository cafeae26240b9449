//! The reason why a request has no answer.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use tollgate_kernel::Micros;

use super::account::SendRefusal;

/// The reason why a request has no answer: it was not sent, or the inner service failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum ObeyError<E> {
    /// It was not sent: the service accepts no requests for this time.
    Held {
        /// The minimum time to wait before the request is made again.
        retry_after: Duration,
    },
    /// It was not sent: the maximum number of requests is already waiting for this service.
    Full {
        /// The minimum time to wait before the request is made again.
        retry_after: Duration,
    },
    /// It was sent, and failed.
    Inner(E),
}

impl<E> ObeyError<E> {
    /// Returns how long to wait before the request is made again, if it was not sent.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Held { retry_after } | Self::Full { retry_after } => Some(*retry_after),
            Self::Inner(_) => None,
        }
    }
}

impl<E> From<SendRefusal> for ObeyError<E> {
    fn from(refusal: SendRefusal) -> Self {
        match refusal {
            SendRefusal::Held(wait) => Self::Held { retry_after: wait.into() },
            SendRefusal::Full(wait) => Self::Full { retry_after: wait.into() },
        }
    }
}

impl<E> fmt::Display for ObeyError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held { retry_after } => {
                let wait = Micros::from(*retry_after);
                write!(
                    f,
                    "not sent: the service asked for nothing more for {wait}; try again then, or let requests wait with ObeyLayer::longest"
                )
            }
            Self::Full { retry_after } => {
                let wait = Micros::from(*retry_after);
                write!(
                    f,
                    "not sent: the service asked for nothing more for {wait}, and as many requests wait for it as may; see ObeyLayer::most_waiting"
                )
            }
            Self::Inner(_) => f.write_str("the request was sent and failed"),
        }
    }
}

impl<E: Error + 'static> Error for ObeyError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Inner(error) => Some(error),
            Self::Held { .. } | Self::Full { .. } => None,
        }
    }
}
