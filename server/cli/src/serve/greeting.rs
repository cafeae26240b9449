//! The first output of the server: where it listens, what decides, what needs a token, and what to try.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tollgate_daemon::{
    ClusterSettings, Fsync, OnFullDisk, PersistMode, PersistSettings, RESP_PORT, Scope, Scopes, Server, ServerSettings,
};

use super::ServeArgs;
use super::start_token::StartToken;

/// What is known before the server starts.
pub(crate) struct Greeting {
    /// The store that decides, in a form that may be printed; `None` for the embedded one.
    place: Option<String>,
    /// The number of servers that use it, if given.
    instances: Option<u16>,
    memory: usize,
    /// What is kept over a restart, in words.
    kept: Option<String>,
    policies: Vec<String>,
    config: Option<String>,
    tokens: Option<String>,
    cert: Option<String>,
    cluster: Option<String>,
    is_open: bool,
    /// What needs no token on loopback.
    free: Scopes,
    wanted: usize,
}

impl Greeting {
    pub(crate) fn new(args: &ServeArgs, settings: &ServerSettings, place: Option<String>) -> Self {
        let shown = |path: &std::path::PathBuf| path.display().to_string();
        Self {
            place,
            instances: settings.instances,
            memory: settings.memory,
            kept: settings.data.as_ref().map(kept),
            policies: args.policy.iter().map(|policy| format!("{} = {policy}", policy.name())).collect(),
            config: settings.config.as_ref().map(shown),
            tokens: settings.tokens.as_ref().map(shown),
            cluster: settings.cluster.as_ref().map(cluster),
            cert: settings.tls.as_ref().map(|files| shown(&files.cert)),
            is_open: settings.insecure_no_auth,
            free: if settings.require_token { Scopes::NONE } else { settings.free },
            wanted: settings.limits.connections,
        }
    }

    /// Returns the text.
    pub(crate) fn text(&self, server: &Server, start_token: &StartToken) -> String {
        let (resp, http) = (server.resp_addrs(), server.http_addrs());
        let is_inside = [resp, http].iter().all(|addrs| addrs.iter().all(is_inside));
        let free = if is_inside { self.free } else { Scopes::NONE };
        let mut rows = vec![("Redis protocol", listed(resp)), ("HTTP", listed(http))];
        if let Some(cert) = &self.cert {
            rows.push(("TLS", format!("with {cert}")));
        }
        if let Some(cluster) = &self.cluster {
            rows.push(("cluster mode", cluster.clone()));
        }
        rows.push(("decided by", self.decider()));
        if self.place.is_some() {
            rows.push(("while it is away", self.standin()));
        }
        if let Some(kept) = &self.kept {
            rows.push(("kept", kept.clone()));
            rows.extend(server.recovery_report().iter().map(|fact| ("found", fact.clone())));
        }
        rows.extend(self.policies.iter().map(|policy| ("policy", policy.clone())));
        if let Some(config) = &self.config {
            let count = server.policies().saturating_sub(self.policies.len());
            let plural = if count == 1 { "y" } else { "ies" };
            rows.push(("policy file", format!("{config}, {count} polic{plural}, read again when it changes")));
        }
        rows.push(("without a token", self.without_token(free, !http.is_empty())));
        if let Some(tokens) = &self.tokens {
            rows.push(("tokens", format!("of {tokens}, read again at SIGHUP")));
        }
        if let Some((token, place)) = start_token.token() {
            rows.push(("token", token.to_owned()));
            rows.push(match place {
                Ok(path) => ("", format!("kept in {}, for commands of this user", path.display())),
                Err(why) => ("", format!("kept nowhere: {why}")),
            });
        }
        if server.connections() < self.wanted {
            let text =
                format!("at most {}, since the system allows no more open files: ulimit -n", server.connections());
            rows.push(("connections", text));
        }
        let mut text = format!("tollgate {} is up\n\n", env!("CARGO_PKG_VERSION"));
        for (name, what) in rows {
            text += &format!("  {name:<17}{what}\n");
        }
        text += "\nTry:\n";
        for line in self.tries(resp.first(), http.first(), free.has(Scope::Check) || self.is_open) {
            text += &format!("  {line}\n");
        }
        text + "\n"
    }

    fn decider(&self) -> String {
        match &self.place {
            Some(place) => format!("{place}, which keeps the state; this server keeps none of its own"),
            None if self.kept.is_some() => format!("the embedded store, at most {} MiB", self.memory >> 20),
            None => format!(
                "the embedded store, at most {} MiB, in memory only:\n{:19}nothing is kept over a restart, unless \
                 --data DIR is given",
                self.memory >> 20,
                ""
            ),
        }
    }

    /// Returns what decides while the store does not answer, under policies without a setting of their own.
    fn standin(&self) -> String {
        match self.instances {
            None => format!(
                "this server, by all of each limit. Warning: several servers\n{:19}then admit several times as much; \
                 --instances N gives each its part",
                ""
            ),
            Some(1) => "this server, by all of each limit, as the only one".to_owned(),
            Some(count) => format!("this server, by one of {count} parts of each limit, rounded down, at least 1"),
        }
    }

    fn without_token(&self, free: Scopes, has_http: bool) -> String {
        if self.is_open {
            return "everything but scripts of an application, from any address: --insecure-no-auth".to_owned();
        }
        if free.is_none() {
            return "nothing".to_owned();
        }
        let spaced = |scopes: Scopes| scopes.to_string().replace(',', ", ");
        let over_http = free.within(Scopes::FREE_OVER_HTTP);
        match over_http {
            _ if !has_http || over_http == free => format!("{}, from this machine", spaced(free)),
            Scopes::NONE => format!("{}, from this machine; over HTTP nothing", spaced(free)),
            _ => format!("{}, from this machine; over HTTP {}", spaced(free), spaced(over_http)),
        }
    }

    /// Returns lines to paste.
    fn tries(&self, resp: Option<&SocketAddr>, http: Option<&SocketAddr>, is_free: bool) -> Vec<String> {
        let mut lines = Vec::new();
        let words = "user:42 \"100/min\"";
        if let Some(addr) = resp.map(reached) {
            let login = if is_free { "" } else { "REDISCLI_AUTH=$TOLLGATE_TOKEN " };
            let host =
                if addr.ip() == IpAddr::V4(Ipv4Addr::LOCALHOST) { String::new() } else { format!("-h {} ", addr.ip()) };
            let tls = self.cert.as_ref().map_or(String::new(), |cert| format!("--tls --cacert {cert} "));
            lines.push(format!("{login}redis-cli {host}-p {} {tls}TG.CHECK {words}", addr.port()));
        }
        if let Some(addr) = http.map(reached) {
            let login = if is_free { "" } else { " -H \"authorization: Bearer $TOLLGATE_TOKEN\"" };
            let (scheme, tls) = match &self.cert {
                Some(cert) => ("https", format!(" --cacert {cert}")),
                None => ("http", String::new()),
            };
            lines.push(format!(
                "curl {scheme}://{addr}/v1/check{tls}{login} -H 'content-type: application/json' \\\n    \
                 -d '{{\"key\":\"user:42\",\"policy\":\"100/min\"}}'"
            ));
        }
        if let Some(addr) = resp.map(reached) {
            let store = match &self.cert {
                Some(cert) => format!(" --store tollgates://{addr} --ca {cert}"),
                None if addr == SocketAddr::from((Ipv4Addr::LOCALHOST, RESP_PORT)) => String::new(),
                None => format!(" --store tollgate://{addr}"),
            };
            lines.push(format!("tollgate check {words}{store}"));
        }
        lines
    }
}

/// Describes what is kept, how and where, and what survives a crash or a loss of power.
fn kept(keeping: &PersistSettings) -> String {
    let dir = keeping.dir.display();
    let (what, worth) = match keeping.persist {
        PersistMode::Snapshot => ("a snapshot now and then", "a crash forgets what was charged since the last one"),
        PersistMode::Journal(Fsync::EverySecond) => {
            ("every charge, synced every second", "a crash forgets nothing, a loss of power the last second")
        }
        PersistMode::Journal(Fsync::Always) => ("every charge, synced before it is answered", "nothing is forgotten"),
    };
    let full = match keeping.on_full_disk {
        OnFullDisk::Keep => "",
        OnFullDisk::Stop => ";\n                   on a full disk policies say who decides",
    };
    format!("{what}, in {dir}:\n{:19}{worth}{full}", "")
}

fn is_inside(addr: &SocketAddr) -> bool {
    addr.ip().to_canonical().is_loopback()
}

/// Describes what clients in cluster mode are told.
fn cluster(settings: &ClusterSettings) -> String {
    match &settings.announced {
        Some(address) => format!("one node, which owns every slot, at {address}"),
        None => "one node, which owns every slot, at the address that a client connects to".to_owned(),
    }
}

fn listed(addrs: &[SocketAddr]) -> String {
    let addrs: Vec<String> = addrs.iter().map(SocketAddr::to_string).collect();
    if addrs.is_empty() { "off".to_owned() } else { addrs.join(", ") }
}

/// Returns an address as this machine reaches it.
fn reached(addr: &SocketAddr) -> SocketAddr {
    let ip = match addr.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    (ip, addr.port()).into()
}
