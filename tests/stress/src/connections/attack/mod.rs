//! The attackers: a process of their own, started with the word `attack`. It says `ready` when it has begun,
//! works until it is done or its standard input ends, and answers a line of figures.
//!
//! | file | what they do |
//! |---|---|
//! | `idle.rs` | connect, and say nothing more, at once or after a long pipeline |
//! | `unread.rs` | ask and never read, plain and over TLS |
//! | `slow.rs` | send a byte now and then: HTTP heads, commands |
//! | `half.rs` | begin a handshake and do not end it |
//! | `storm.rs` | connect and leave, over and over |
//! | `lines.rs` | send what a browser would |
//! | `guess.rs` | log in with wrong tokens |
//! | `hoard.rs` | make the server keep bytes: half of a long command, commands that wait for EXEC, its replies |
//! | `plan.rs`, `figures.rs`, `addresses.rs` | what they are told; what they tell; connections from an address |

mod addresses;
mod figures;
mod guess;
mod half;
mod hoard;
mod idle;
mod lines;
mod plan;
mod slow;
mod storm;
mod unread;

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

pub(super) use figures::Figures;
pub(super) use idle::split;
pub(super) use lines::VICTIM;
pub(super) use plan::Plan;

use super::Sizes;
use super::server::Server;
use crate::Failure;

type AttackFuture = Pin<Box<dyn Future<Output = Result<Figures, Failure>>>>;

/// A way to attack.
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// What they do, for people.
    pub(super) what: &'static str,
    /// Whether they attack the server that speaks TLS.
    pub(super) is_tls: bool,
    pub(super) is_http: bool,
    /// How many there are.
    pub(super) count: fn(&Sizes) -> usize,
    /// How long they may go on.
    pub(super) lasts: fn(&Sizes) -> Duration,
    pub(super) expected: Expectation,
    run: fn(Arc<Attack>) -> AttackFuture,
}

/// What must come of the attackers, beside what must come of every attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expectation {
    /// As many are held as the caps say, and no more.
    FillCaps,
    /// All are cut off.
    BeCut,
    /// All are cut off, if they are waited for as long as commands may take.
    BeCutLate,
    /// Nothing more.
    DoNoHarm,
}

/// What all attackers of a process share.
struct Attack {
    plan: Plan,
    end: watch::Receiver<bool>,
}

/// All ways.
pub(super) static KINDS: &[Kind] = &[
    Kind {
        name: "idle",
        what: "connect, say nothing",
        is_tls: false,
        is_http: false,
        count: |sizes| sizes.idle,
        lasts: |sizes| sizes.lasts,
        expected: Expectation::FillCaps,
        run: |attack| Box::pin(idle::run(attack, 0)),
    },
    Kind {
        name: "rested",
        what: "a long pipeline, then nothing",
        is_tls: false,
        is_http: false,
        count: |sizes| sizes.idle,
        lasts: |sizes| sizes.lasts,
        expected: Expectation::FillCaps,
        run: |attack| Box::pin(idle::run(attack, idle::PIPELINE)),
    },
    Kind {
        name: "unread",
        what: "pipeline, never read",
        is_tls: false,
        is_http: false,
        count: |sizes| sizes.unread,
        lasts: |sizes| sizes.patience,
        expected: Expectation::BeCut,
        run: |attack| Box::pin(unread::run(attack, false)),
    },
    Kind {
        name: "unread-tls",
        what: "the same over TLS",
        is_tls: true,
        is_http: false,
        count: |sizes| sizes.unread,
        lasts: |sizes| sizes.patience,
        expected: Expectation::BeCut,
        run: |attack| Box::pin(unread::run(attack, true)),
    },
    Kind {
        name: "hoard",
        what: "half of long commands, MULTI, EXEC",
        is_tls: false,
        is_http: false,
        count: |sizes| 3 * sizes.unread,
        lasts: |sizes| sizes.lasts,
        expected: Expectation::DoNoHarm,
        run: |attack| Box::pin(hoard::run(attack)),
    },
    Kind {
        name: "slow-http",
        what: "a byte of a head now and then",
        is_tls: false,
        is_http: true,
        count: |sizes| sizes.slow,
        lasts: |sizes| sizes.patience,
        expected: Expectation::BeCut,
        run: |attack| Box::pin(slow::run(attack, slow::HEAD)),
    },
    Kind {
        name: "slow-resp",
        what: "a byte of a command now and then",
        is_tls: false,
        is_http: false,
        count: |sizes| sizes.slow,
        lasts: |sizes| if sizes.sees_slow_commands_cut() { sizes.patience } else { sizes.lasts },
        expected: Expectation::BeCutLate,
        run: |attack| Box::pin(slow::run(attack, slow::COMMAND)),
    },
    Kind {
        name: "half-tls",
        what: "handshakes that do not end",
        is_tls: true,
        is_http: false,
        count: |sizes| sizes.half,
        lasts: |sizes| sizes.patience,
        expected: Expectation::BeCut,
        run: |attack| Box::pin(half::run(attack)),
    },
    Kind {
        name: "storm",
        what: "connect and leave",
        is_tls: false,
        is_http: false,
        count: |_| storm::AT_ONCE,
        lasts: |sizes| sizes.lasts,
        expected: Expectation::DoNoHarm,
        run: |attack| Box::pin(storm::run(attack)),
    },
    Kind {
        name: "lines",
        what: "what browsers send",
        is_tls: false,
        is_http: false,
        count: |_| lines::AT_ONCE,
        lasts: |sizes| sizes.lasts,
        expected: Expectation::BeCut,
        run: |attack| Box::pin(lines::run(attack)),
    },
    Kind {
        name: "guess",
        what: "AUTH with wrong tokens",
        is_tls: false,
        is_http: false,
        count: |_| guess::AT_ONCE,
        lasts: |sizes| sizes.lasts,
        expected: Expectation::DoNoHarm,
        run: |attack| Box::pin(guess::run(attack)),
    },
];

impl Kind {
    /// Where they attack.
    pub(super) fn target(&self, server: &Server) -> SocketAddr {
        if self.is_http { server.http } else { server.resp }
    }
}

impl Attack {
    /// Says that the attack has begun.
    fn ready(&self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        writeln!(out, "ready")?;
        out.flush()
    }

    fn is_over(&self) -> bool {
        *self.end.borrow()
    }

    /// Waits for the end.
    async fn over(&self) {
        let _ = self.end.clone().wait_for(|end| *end).await;
    }
}

/// Attacks as `Plan::words` says.
pub(crate) fn attack(words: &[String]) -> Result<(), Failure> {
    let plan = Plan::read(words)?;
    let (ends, end) = watch::channel(false);
    std::thread::spawn(move || {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        ends.send(true)
    });
    let run = plan.kind.run;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let figures = runtime.block_on(run(Arc::new(Attack { plan, end })))?;
    // Whoever is left leaves before it is told.
    drop(runtime);
    let mut out = io::stdout().lock();
    writeln!(out, "{}", figures.words())?;
    Ok(out.flush()?)
}
