//! The arguments of `tollgate replay`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::format::TimeUnit;
use crate::policy::ModeArg;

const EXAMPLES: &str = "\
Examples:
  tollgate replay access_log --policy \"100/min, 1000/h\"
  tollgate replay access_log.gz --key ip,path --policy 5/min --top 20
  tollgate replay events.jsonl --policy 1/5s --policy \"10/s gcra burst=20\"
  zcat logs/*.gz | tollgate replay - --key user --policy 1000/h --json
  tollgate replay events.jsonl --policy 5/h --decisions decisions.jsonl

Input, plain or gzip, a request a line:
  JSON Lines    {\"t\":1700000000.5,\"key\":\"user:1\",\"cost\":3}
                t a number or an RFC 3339 time; cost 0 only looks, default 1
  access logs   the common and combined formats of web servers
                --key ip, ident, user, method, path, url, protocol, status,
                referer or agent; path is the url without its query
Time is the log's own. A line that is out of order is decided at the latest time
seen before it. Exit code: 0 done, 2 error.";

/// What `tollgate replay` takes.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReplayArgs {
    /// The recorded traffic; - reads standard input
    pub(crate) file: String,

    /// A policy such as "1/5s, 5/h"; give several to compare them
    #[arg(long, short, required = true, value_name = "POLICY")]
    pub(crate) policy: Vec<String>,

    /// A request that does not fit: all or nothing, what fits, or count it anyway
    #[arg(long, value_enum, default_value_t)]
    pub(crate) mode: ModeArg,

    /// Who is limited: one or more fields [default: key; ip in access logs]
    #[arg(long, short, value_name = "FIELD[,FIELD]")]
    pub(crate) key: Option<String>,

    /// The field of JSON lines that holds the time
    #[arg(long, value_name = "FIELD", default_value = "t")]
    pub(crate) time: String,

    /// The unit of times that are numbers; auto goes by the first one
    #[arg(long, value_enum, default_value_t, value_name = "UNIT")]
    pub(crate) time_unit: UnitArg,

    /// The format of the input; auto goes by the first line
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: FormatArg,

    /// How many of the keys hit hardest to show
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) top: usize,

    /// Write every decision to this file, a JSON object a line
    #[arg(long, value_name = "OUT")]
    pub(crate) decisions: Option<PathBuf>,

    /// Stop at the first line that is malformed or out of order
    #[arg(long)]
    pub(crate) strict: bool,

    /// Print one JSON document instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

impl ReplayArgs {
    /// Returns the name of the input for messages.
    pub(crate) fn shown_file(&self) -> String {
        if self.file == "-" { "standard input".to_owned() } else { self.file.clone() }
    }

    /// Returns the name of the file of decisions for messages.
    pub(crate) fn shown_decisions(&self) -> String {
        self.decisions.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
    }
}

/// `--time-unit`. The values say enough; help for each would make the whole help long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum UnitArg {
    #[default]
    Auto,
    S,
    Ms,
    Us,
    Ns,
}

impl UnitArg {
    /// Returns the unit, if one was named.
    pub(crate) fn unit(self) -> Option<TimeUnit> {
        match self {
            Self::Auto => None,
            Self::S => Some(TimeUnit::Seconds),
            Self::Ms => Some(TimeUnit::Millis),
            Self::Us => Some(TimeUnit::Micros),
            Self::Ns => Some(TimeUnit::Nanos),
        }
    }
}

/// `--format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatArg {
    #[default]
    Auto,
    Json,
    Clf,
}
