//! The settings of the server, from the arguments.

use std::net::SocketAddr;

use tollgate_daemon::{
    AuditFile, ClusterSettings, Collector, HTTP_PORT, PersistMode, PersistSettings, RESP_PORT, ServerSettings,
    StoreKeySettings, TlsFiles, trusted_proxy,
};
use tollgate_redis::Redis;

use super::ServeArgs;
use super::args::PersistArg;
use super::values::Bind;
use crate::error::CliError;

/// Returns the settings.
pub(crate) fn of(args: &ServeArgs, store: Option<Redis>) -> Result<ServerSettings, CliError> {
    let default = ServerSettings::default();
    let (resp, more_resp) = addresses("--resp", &args.resp, RESP_PORT, default.resp)?;
    let (http, more_http) = addresses("--http", &args.http, HTTP_PORT, default.http)?;
    for (place, policy) in args.policy.iter().enumerate() {
        if args.policy[..place].iter().any(|other| other.name() == policy.name()) {
            let (found, expected) = (policy.name().to_owned(), "each name once");
            return Err(CliError::Argument { what: "--policy", found, expected });
        }
    }
    let proxy = |text: &String| {
        let expected = "an address such as 127.0.0.1 or a network such as 10.0.0.0/8";
        trusted_proxy(text).map_err(|_| CliError::Argument { what: "--trusted-proxy", found: text.clone(), expected })
    };
    let tls = args.tls_cert.clone().zip(args.tls_key.clone()).map(|(cert, key)| TlsFiles { cert, key });
    Ok(ServerSettings {
        resp,
        http,
        more_resp,
        more_http,
        cluster: args.cluster.clone().map(|announced| ClusterSettings { announced }),
        threads: args.threads.map_or(default.threads, usize::from),
        memory: args.memory,
        keys: args.keys,
        buffers: args.buffers,
        store,
        store_keys: StoreKeySettings {
            prefixes: args.store_keys.iter().map(|prefix| prefix.clone().into_bytes()).collect(),
            on_error: args.store_on_error,
        },
        instances: args.instances,
        data: data(args)?,
        policies: args.policy.clone(),
        config: args.config.clone(),
        scripts: args.script.clone(),
        tokens: args.tokens.clone(),
        free: args.free,
        require_token: args.require_token,
        insecure_no_auth: args.insecure_no_auth,
        tls,
        plaintext: args.plaintext,
        trusted_proxies: args.trusted_proxy.iter().map(proxy).collect::<Result<_, _>>()?,
        hosts: args.host.clone(),
        log: args.log.into(),
        traces: args.otlp.clone().map(|endpoint| Collector { endpoint, one_of: args.otlp_sample }),
        audit: args.audit.clone().map(|path| AuditFile { path, keys: args.audit_keys }),
        ..default
    })
}

/// Returns the settings of the data that is kept over a restart.
fn data(args: &ServeArgs) -> Result<Option<PersistSettings>, CliError> {
    let Some(dir) = &args.data else { return Ok(None) };
    let mut keeping = PersistSettings::new(dir);
    let journal = PersistMode::Journal(args.fsync.map(Into::into).unwrap_or_default());
    match args.persist {
        Some(PersistArg::None) => return Ok(None),
        Some(PersistArg::Snapshot) if args.fsync.is_some() => {
            let (found, expected) =
                ("--persist snapshot".to_owned(), "--persist journal: snapshots alone are always synced");
            return Err(CliError::Argument { what: "--fsync", found, expected });
        }
        Some(PersistArg::Snapshot) => keeping.persist = PersistMode::Snapshot,
        Some(PersistArg::Journal) | None => keeping.persist = journal,
    }
    keeping.snapshot_every = args.snapshot_every;
    keeping.repair = args.repair;
    keeping.on_full_disk = args.on_full_disk.map(Into::into).unwrap_or_default();
    Ok(Some(keeping))
}

/// Returns the first address and the others.
fn addresses(
    what: &'static str,
    named: &[Bind],
    port: u16,
    default: Option<SocketAddr>,
) -> Result<(Option<SocketAddr>, Vec<SocketAddr>), CliError> {
    if named.is_empty() {
        return Ok((default, Vec::new()));
    }
    if named.len() > 1 && named.contains(&Bind::Off) {
        let (found, expected) = ("off".to_owned(), "addresses, or off alone");
        return Err(CliError::Argument { what, found, expected });
    }
    let mut addresses = named.iter().filter_map(|bind| bind.addr(port));
    Ok((addresses.next(), addresses.collect()))
}
