//! The arguments of `check`, `peek`, `reset` and `refund`.

use clap::Args;

use crate::policy::ModeArg;
use crate::server::StoreArgs;

const CHECK: &str = "\
Examples:
  tollgate check user:42 \"100/min\"
  tollgate check user:42 \"100/min, 1000/h\" --cost 5 --full
  tollgate check user:42 \"100/min\" --store redis://127.0.0.1:6379
  tollgate check build \"3/h\" --json --store redis+cluster://10.0.0.1,10.0.0.2
  tollgate check deploy \"1/10min\" && ./deploy.sh

Without --store and TOLLGATE_STORE the server on this machine decides, the one
that tollgate serve starts. On a Redis the key and a script in the cache are all
that is left; nothing is installed.
Exit code: 0 allowed, 1 denied, 2 error. A store that does not answer is an
error: nobody decides in its place. A Tollgate server that decided without its
own store says so.";

const PEEK: &str = "\
Examples:
  tollgate peek user:42 \"100/min\"
  tollgate peek user:42 \"100/min, 1000/h\" --cost 5 --full --json

Answers what check would, and charges nothing; remaining is what is left now.
Exit code: 0 it would be allowed, 1 denied, 2 error.";

const RESET: &str = "\
Examples:
  tollgate reset user:42 \"100/min\"
  tollgate reset user:42 \"100/min\" --store redis://127.0.0.1:6379

What the key used under this policy is forgotten; what it used under others
stays. A Tollgate server wants a token for it: the one in the URL, else
TOLLGATE_TOKEN, else the one that a server on this machine left to its user.
Exit code: 0 done, 2 error.";

const REFUND: &str = "\
Examples:
  tollgate check user:42 100/min --cost 5 --json    # says at_us
  tollgate refund user:42 100/min 5 1790000000123456

Gives back what is still held of N units charged at AT_US, the at_us of the
decision that granted them. A Tollgate server wants a token with the scope
refund for it: the one in the URL, else TOLLGATE_TOKEN, else the one that a
server on this machine left to its user.
Exit code: 0 done, also if nothing is held any more; 2 error.";

/// What `tollgate check` takes.
#[derive(Args, Debug)]
#[command(after_help = CHECK)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) request: RequestArgs,
}

/// What `tollgate peek` takes.
#[derive(Args, Debug)]
#[command(after_help = PEEK)]
pub(crate) struct PeekArgs {
    #[command(flatten)]
    pub(crate) request: RequestArgs,
}

/// What `tollgate reset` takes.
#[derive(Args, Debug)]
#[command(after_help = RESET)]
pub(crate) struct ResetArgs {
    #[command(flatten)]
    pub(crate) subject: SubjectArgs,
}

/// What `tollgate refund` takes.
#[derive(Args, Debug)]
#[command(after_help = REFUND)]
pub(crate) struct RefundArgs {
    #[command(flatten)]
    pub(crate) subject: SubjectArgs,

    /// How many units
    #[arg(value_name = "N")]
    pub(crate) units: u64,

    /// When they were charged: at_us of the decision
    #[arg(value_name = "AT_US")]
    pub(crate) at_us: u64,
}

/// A request.
#[derive(Args, Debug)]
pub(crate) struct RequestArgs {
    /// How many units to ask for; 0 only looks
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) cost: u64,

    /// A request that does not fit: all or nothing, what fits, or count it anyway
    #[arg(long, value_enum, default_value_t)]
    pub(crate) mode: ModeArg,

    /// Show each limit in a table; JSON has them anyway
    #[arg(long)]
    pub(crate) full: bool,

    #[command(flatten)]
    pub(crate) subject: SubjectArgs,
}

/// A key under a policy in a store.
#[derive(Args, Debug)]
pub(crate) struct SubjectArgs {
    /// Who is limited
    pub(crate) key: String,

    /// A policy such as "100/min, 1000/h"
    pub(crate) policy: String,

    /// The policy's name, which its state is filed under; none for bare text
    #[arg(long)]
    pub(crate) name: Option<String>,

    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// Print one JSON document instead of text
    #[arg(long)]
    pub(crate) json: bool,
}
