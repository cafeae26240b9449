//! The server from inside, where no `tollgate` is given: the same library, with caps of the campaign.

use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::time::Duration;

use tollgate_daemon::{ConnectionLimits, Server, ServerSettings, TlsFiles};

use super::Caps;
use super::identity::Files;
use crate::Failure;

/// What a server is started with, as words.
pub(super) fn words(caps: Caps, files: &Files, is_tls: bool) -> Vec<String> {
    let caps = [caps.connections, caps.reserved, caps.prefix, caps.handshake].map(|cap| cap.to_string());
    let path = |path: &std::path::Path| path.display().to_string();
    let mut words = [&caps[..], &[path(&files.tokens)]].concat();
    if is_tls {
        words.extend([path(&files.cert), path(&files.key)]);
    }
    words
}

/// Serves until standard input ends.
pub(crate) fn serve(words: &[String]) -> Result<(), Failure> {
    let (caps, tokens, tls) = match words {
        [caps @ .., tokens] if caps.len() == 4 => (caps, tokens, None),
        [caps @ .., tokens, cert, key] if caps.len() == 4 => (caps, tokens, Some((cert, key))),
        _ => return Err(Failure("expected four caps, a file of tokens, and perhaps certificate and key".to_owned())),
    };
    let caps = caps.iter().map(|cap| cap.parse()).collect::<Result<Vec<usize>, _>>()?;
    let limits = ConnectionLimits {
        connections: caps[0],
        reserved: caps[1],
        connections_per_prefix: caps[2],
        handshake: Duration::from_secs(caps[3] as u64),
        ..ConnectionLimits::default()
    };
    let any = Some((Ipv4Addr::LOCALHOST, 0).into());
    let server = Server::start(ServerSettings {
        resp: any,
        http: any,
        tokens: Some(tokens.into()),
        tls: tls.map(|(cert, key)| TlsFiles { cert: cert.into(), key: key.into() }),
        limits,
        ..ServerSettings::default()
    })?;
    let addr = |addr: Option<_>| addr.map_or_else(|| "off".to_owned(), |addr: std::net::SocketAddr| addr.to_string());
    writeln!(io::stdout(), "  Redis protocol   {}", addr(server.resp_addr()))?;
    writeln!(io::stdout(), "  HTTP             {}", addr(server.http_addr()))?;
    writeln!(io::stdout(), "Try:")?;
    io::stdin().read_to_end(&mut Vec::new())?;
    server.stop();
    Ok(())
}
