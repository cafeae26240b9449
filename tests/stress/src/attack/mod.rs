//! A server among callers that mean harm and an operator with bad luck.
//!
//! The attacker has a token of scope check and one of scope read. He must not become unlimited, clear a quota, keep
//! honest callers from theirs, take more memory than the caps say, nor silence health and gate; and whatever he did,
//! what an operator stops must start again. Each known way is a play that takes seconds; the mixture plays all roles at
//! once, at random, beside honest callers whose every grant is recorded.
//!
//! | file | what it is |
//! |---|---|
//! | `stage.rs` | the server of a play: caps, tokens, policies, data |
//! | `caller.rs`, `http.rs` | how it is asked |
//! | `checker.rs` | whether what was granted can have been granted by the limits |
//! | `plays/` | the known ways, each by itself |
//! | `mix/` | all roles at once |

mod caller;
mod checker;
mod http;
mod mix;
mod plays;
mod stage;
mod watch;

use std::time::Instant;

use crate::args::Args;
use crate::{Campaign, Failure, Report};
use stage::Caps;

pub(crate) const CAMPAIGN: Campaign = Campaign {
    name: "attack",
    options: &[
        ("minutes", 10, "minutes of the mixture, after the plays; 0 is one short round"),
        ("seconds", 30, "seconds of a round of the mixture"),
        ("attackers", 2, "connections of the attacker that ask in the mixture; 0 leaves him out"),
        ("buffers", 64, "MiB that buffers and queues of the server may take beside --memory and --keys"),
        ("patience", 40, "seconds within which what an attacker holds must be given back to others"),
    ],
    texts: &[
        ("memory", "4M,16M,64M", "--memory of the servers of the mixture, a list over which rounds rotate"),
        ("luck", "", "the operator's bad luck in all rounds of the mixture: restarts, clock or disk"),
        ("only", "", "the plays to be played, a list of parts of their names; mix is the mixture"),
    ],
    help: "callers that mean harm and an operator with bad luck, beside honest callers",
    run,
};

/// The word for the mixture.
const MIX: &str = "mix";

fn run(args: &Args) -> Result<Report, Failure> {
    let memory = args.words("memory").into_iter().map(megabytes).collect::<Result<Vec<u64>, _>>()?;
    let only = args.words("only");
    let is_known = |word: &&str| *word == MIX || plays::PLAYS.iter().any(|play| play.name.contains(*word));
    if let Some(unknown) = only.iter().find(|word| !is_known(word)) {
        let names: Vec<&str> = plays::PLAYS.iter().map(|play| play.name).collect();
        return Err(Failure(format!("--only {unknown}: expected a part of {}, {MIX}", names.join(", "))));
    }
    let is_wanted = |name: &str| only.is_empty() || only.iter().any(|word| name.contains(word));
    let mut report = Report::default();
    plays::play(&mut report, args, is_wanted)?;
    if is_wanted(MIX) && !memory.is_empty() {
        let started = Instant::now();
        mix::rounds(&mut report, args, &memory, started)?;
    }
    Ok(report)
}

/// `4M` or `4` as MiB.
fn megabytes(word: &str) -> Result<u64, Failure> {
    let number = word.strip_suffix(['M', 'm']).unwrap_or(word).parse().ok();
    number
        .filter(|number| (1..=4096).contains(number))
        .ok_or_else(|| Failure(format!("--memory {word}: expected sizes such as 4M,16M,64M")))
}
