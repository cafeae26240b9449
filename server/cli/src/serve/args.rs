//! The arguments of `tollgate serve`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tollgate_daemon::{ClusterAddress, Fsync, LogFormat, OnFullDisk, Scopes, ScriptAlias};
use tollgate_kernel::{OnError, Policy};

use super::values::{self, Bind};
use crate::server::AuthorityArgs;

const EXAMPLES: &str = "\
Examples:
  tollgate serve
  tollgate serve --data /var/lib/tollgate
  tollgate serve --policy login=\"5/min, 20/h\" --memory 1G
  tollgate serve --config tollgate.yaml
  tollgate serve --store redis://127.0.0.1:6379 --instances 4
  tollgate serve --store redis://127.0.0.1:6379 --store-keys session:
  tollgate serve --resp 7000 --http off
  tollgate token --scopes check,read --name billing --file tokens
  tollgate serve --resp 0.0.0.0 --http 0.0.0.0 --tokens tokens \\
      --tls-cert cert.pem --tls-key key.pem

Without options it listens on 127.0.0.1 alone, ports 7379 (Redis protocol) and
7380 (HTTP), and decides in its own memory: nothing is kept over a restart,
unless --data DIR is given. Then everything that was charged is in a journal
before it is answered, and time spent down counts as refill.
On this machine checks and reads are free, and resets over the Redis protocol,
whose clients delete their keys; --free says otherwise. Refunds, administration
and resets over HTTP need a token. One is made at the start, printed, and left in
a file that only this user can read, where tollgate refund finds it.

The policy file is read again when it changes: a wrong one changes nothing, and
what was consumed counts on. tollgate config check looks at one before.
SIGHUP reads policy file, tokens, certificate and key again, and opens the audit
file again, so that it can be rotated. SIGTERM and SIGINT end the
server after it has answered what came; a second one ends it at once.
TOLLGATE_SERVE_STORE names the store if --store does not, so that a password
need not be on the command line.
Exit code: 0 ended by a signal, 2 error.";

/// `--log`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogArg {
    #[default]
    Text,
    Json,
    Off,
}

impl From<LogArg> for LogFormat {
    fn from(log: LogArg) -> Self {
        match log {
            LogArg::Text => Self::Text,
            LogArg::Json => Self::Json,
            LogArg::Off => Self::Off,
        }
    }
}

/// `--persist`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PersistArg {
    /// Nothing.
    None,
    /// A snapshot now and then, and at a clean end.
    Snapshot,
    /// Everything, before it is answered.
    Journal,
}

/// `--fsync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FsyncArg {
    /// A loss of power forgets the last second.
    Everysec,
    /// It forgets nothing; answers wait for the disk.
    Always,
}

impl From<FsyncArg> for Fsync {
    fn from(fsync: FsyncArg) -> Self {
        match fsync {
            FsyncArg::Everysec => Self::EverySecond,
            FsyncArg::Always => Self::Always,
        }
    }
}

/// `--on-full-disk`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnFullDiskArg {
    /// Continue to decide without writing the journal.
    Keep,
    /// Decide by each policy's on_error, as after a failed write.
    Stop,
}

impl From<OnFullDiskArg> for OnFullDisk {
    fn from(on_full_disk: OnFullDiskArg) -> Self {
        match on_full_disk {
            OnFullDiskArg::Keep => Self::Keep,
            OnFullDiskArg::Stop => Self::Stop,
        }
    }
}

/// What `tollgate serve` takes.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    /// Where the Redis protocol is spoken: an address, a port, or off; repeatable [default: 127.0.0.1:7379]
    #[arg(long, value_name = "ADDR", value_parser = values::bind)]
    pub(crate) resp: Vec<Bind>,

    /// Where HTTP is spoken: an address, a port, or off; repeatable [default: 127.0.0.1:7380]
    #[arg(long, value_name = "ADDR", value_parser = values::bind)]
    pub(crate) http: Vec<Bind>,

    /// Answer clients in cluster mode as a cluster of one node, at HOST:PORT [default: where each client connected to]
    #[arg(long, value_name = "HOST:PORT", num_args = 0..=1)]
    pub(crate) cluster: Option<Option<ClusterAddress>>,

    /// Decide and keep keys in this Redis or Valkey: redis://, rediss://, redis+cluster:// or redis+sentinel://
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,

    /// How many servers use the store: while it is away, each decides by one Nth of every limit
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(crate) instances: Option<u16>,

    /// Keys of the store that callers reach beside those of limiters: all that begin with PREFIX; repeatable
    #[arg(long, value_name = "PREFIX")]
    pub(crate) store_keys: Vec<String>,

    /// What decides a call of another limiter's convention (FCALL, EVALSHA, CL.THROTTLE) while the store is away
    #[arg(long, value_name = "local|deny|allow", value_parser = values::on_error, default_value = "local")]
    pub(crate) store_on_error: OnError,

    #[command(flatten)]
    pub(crate) authority: AuthorityArgs,

    /// Start although the store does not answer; each policy's on_error decides until it does
    #[arg(long)]
    pub(crate) lazy: bool,

    /// A policy file, in YAML or TOML; it is read again when it changes
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// A policy that callers may ask for by its name; repeatable
    #[arg(long, value_name = "NAME=TEXT", value_parser = values::policy)]
    pub(crate) policy: Vec<Policy>,

    /// A script of your own that does what a published one does, by its SHA-1: SHA1=DIALECT; repeatable
    #[arg(long, value_name = "SHA1=DIALECT")]
    pub(crate) script: Vec<ScriptAlias>,

    /// The most memory of the embedded store, such as 256M or 1G
    #[arg(long, value_name = "SIZE", value_parser = values::size, default_value = "64M")]
    pub(crate) memory: usize,

    /// The most memory of the keys of other conventions (FCALL, CL.THROTTLE, INCR, …)
    #[arg(long, value_name = "SIZE", value_parser = values::size, default_value = "64M")]
    pub(crate) keys: usize,

    /// The most memory of the buffers of connections: commands, bodies, queues and replies
    #[arg(long, value_name = "SIZE", value_parser = values::buffers, default_value = "64M")]
    pub(crate) buffers: usize,

    /// Keep what was charged over a restart, in this directory of the server's own
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,

    /// What is kept there [default: journal]
    #[arg(long, value_enum, requires = "data")]
    pub(crate) persist: Option<PersistArg>,

    /// When the journal is synced to disk [default: everysec]
    #[arg(long, value_enum, requires = "data")]
    pub(crate) fsync: Option<FsyncArg>,

    /// How often a snapshot is written at least, such as 30s or 10min [default: 1min if there is no journal]
    #[arg(long, value_name = "PERIOD", value_parser = values::period, requires = "data")]
    pub(crate) snapshot_every: Option<Duration>,

    /// Start on damaged files too, using the intact part, and say what is left out
    #[arg(long, requires = "data")]
    pub(crate) repair: bool,

    /// What happens while there is no room on the disk [default: keep]
    #[arg(long, value_enum, requires = "data")]
    pub(crate) on_full_disk: Option<OnFullDiskArg>,

    /// Threads that serve connections [default: half as many as there are cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,

    /// A file of tokens, a line each: SCOPES SHA256HEX NAME; tollgate token makes them
    #[arg(long, value_name = "FILE")]
    pub(crate) tokens: Option<PathBuf>,

    /// What needs no token on loopback; over HTTP only check and read of it
    #[arg(long, value_name = "SCOPES", default_value_t = Scopes::FREE, conflicts_with = "insecure_no_auth")]
    pub(crate) free: Scopes,

    /// Require a token for everything, also on loopback
    #[arg(long, conflicts_with_all = ["insecure_no_auth", "free"])]
    pub(crate) require_token: bool,

    /// The certificate chain in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// Its key in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Allow addresses that other machines reach without TLS
    #[arg(long)]
    pub(crate) plaintext: bool,

    /// Allow everything without a token, from any address; scripts of an application still need one
    #[arg(long)]
    pub(crate) insecure_no_auth: bool,

    /// A proxy, or a network of them, whose X-Forwarded-For is trusted; repeatable
    #[arg(long, value_name = "CIDR")]
    pub(crate) trusted_proxy: Vec<String>,

    /// A name that HTTP clients may call the server by, beside its addresses; repeatable
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Vec<String>,

    /// Write who reset, banned and reloaded to this file, a JSON document a line; opened again at SIGHUP
    #[arg(long, value_name = "FILE")]
    pub(crate) audit: Option<PathBuf>,

    /// Keys are written to it as they are, instead of hashed
    #[arg(long, requires = "audit")]
    pub(crate) audit_keys: bool,

    /// Send traces to this collector: OTLP over HTTP, such as http://127.0.0.1:4318
    #[arg(long, value_name = "URL")]
    pub(crate) otlp: Option<String>,

    /// Trace one of N requests that carry no sampled trace context; 0 traces none
    #[arg(long, value_name = "N", requires = "otlp", default_value_t = 1_000)]
    pub(crate) otlp_sample: u64,

    /// How the log is written, a line an event on standard error
    #[arg(long, value_enum, default_value_t)]
    pub(crate) log: LogArg,
}

/// Omits the URL, which may hold a password.
impl std::fmt::Debug for ServeArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServeArgs").field("resp", &self.resp).field("http", &self.http).finish_non_exhaustive()
    }
}
