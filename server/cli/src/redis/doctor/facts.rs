//! What a node reports about itself. Managed servers refuse some of it; it is unknown then.

use crate::server::value::field;
use crate::server::{ServerConnection, ServerError};

/// INFO, and some of CONFIG.
pub(super) struct NodeFacts {
    info: Option<String>,
    config: Vec<(&'static str, Option<String>)>,
}

const CONFIG: [&str; 4] = ["save", "appendfsync", "min-replicas-to-write", "min-replicas-max-lag"];

impl NodeFacts {
    pub(super) fn of(connection: &mut ServerConnection) -> Result<Self, ServerError> {
        let info = unless_refused(connection.query::<String>(&["INFO", "everything"]))?;
        let mut config = Vec::new();
        for name in CONFIG {
            let answer = unless_refused(connection.query::<Vec<String>>(&["CONFIG", "GET", name]))?;
            config.push((name, answer.and_then(|pair| pair.into_iter().nth(1))));
        }
        Ok(Self { info, config })
    }

    /// Returns a field of INFO; `None` if it is not reported.
    pub(super) fn info(&self, name: &str) -> Option<&str> {
        field(self.info.as_deref()?, name)
    }

    /// Returns a number of INFO.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.info(name)?.parse().ok()
    }

    /// Returns a setting; `None` if CONFIG is refused.
    pub(super) fn config(&self, name: &str) -> Option<&str> {
        self.config.iter().find(|(listed, _)| *listed == name)?.1.as_deref()
    }
}

/// Returns the answer; `None` if the server refuses it, an error if the server is away.
fn unless_refused<T>(answer: Result<T, ServerError>) -> Result<Option<T>, ServerError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(ServerError::Refused { .. } | ServerError::UnexpectedReply { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
