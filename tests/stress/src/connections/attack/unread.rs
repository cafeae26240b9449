//! Asks as much as it can send, and never reads.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::addresses::{all, connect};
use super::{Attack, Figures};
use crate::Failure;
use crate::connections::client::command;
use crate::connections::identity::{NAME, trusting};

/// Questions that are sent at once.
const PIPELINE: usize = 64;

pub(super) async fn run(attack: Arc<Attack>, is_tls: bool) -> Result<Figures, Failure> {
    let connector = if is_tls { Some(TlsConnector::from(trusting(&attack.plan.cert)?)) } else { None };
    all(&attack, |attack, number| one(attack, number, connector.clone())).await
}

async fn one(attack: Arc<Attack>, number: usize, connector: Option<TlsConnector>) -> Figures {
    let mut figures = Figures { tried: 1, ..Figures::default() };
    match connected(&attack, number, connector).await {
        Ok(mut stream) => {
            figures.held = 1;
            send(&attack, number, &mut stream, &mut figures).await;
        }
        Err(_) => figures.wrong = 1,
    }
    figures
}

async fn connected(
    attack: &Attack,
    number: usize,
    connector: Option<TlsConnector>,
) -> io::Result<Box<dyn AsyncWrite + Unpin + Send>> {
    let stream = connect(attack, attack.plan.from(number)).await?;
    let Some(connector) = connector else { return Ok(Box::new(stream)) };
    let name = ServerName::try_from(NAME).map_err(io::Error::other)?;
    Ok(Box::new(connector.connect(name, stream).await?))
}

/// Sends until it is cut off or told to end.
async fn send(attack: &Attack, number: usize, stream: &mut (dyn AsyncWrite + Unpin + Send), figures: &mut Figures) {
    let question = command(&["TG.CHECK", &format!("unread:{number}"), "1000000/min"]);
    let questions = question.repeat(PIPELINE);
    let mut last = Instant::now();
    let mut end = attack.end.clone();
    loop {
        let mut left = &questions[..];
        while !left.is_empty() {
            let written = tokio::select! {
                written = stream.write(left) => written,
                _ = end.wait_for(|end| *end) => return,
            };
            match written {
                Ok(0) | Err(_) => return figures.cut(last),
                Ok(written) => left = &left[written..],
            }
            last = Instant::now();
        }
        figures.requests += PIPELINE as u64;
    }
}
