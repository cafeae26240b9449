//! A story on a real server whose clock is ours.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tollgate_kernel::{Policy, Request, Source, Store};
use tollgate_kit::Server;
use tollgate_redis::{Packaging, Redis};

use super::story::{Act, Story};
use crate::Failure;

/// No policy of a story admits so many at once.
const MAX_ASKED: usize = 64;

/// What one policy lived through.
pub(super) struct PolicyHistory {
    pub(super) policy: Policy,
    /// When what was decided, by true time in microseconds.
    pub(super) admitted: Vec<i64>,
    pub(super) refused: Vec<Refusal>,
    /// Times a refusal's wait was over, and the policy still refused.
    pub(super) broken_waits: Vec<String>,
    pub(super) immortal: bool,
    /// What the last refusal promised, until something was admitted or the clock jumped.
    promised: Option<i64>,
}

pub(super) struct Refusal {
    pub(super) at: i64,
    /// The wait it told; never, if it told none.
    pub(super) wait: Option<i64>,
    /// Until all would have been as new.
    pub(super) reset: i64,
    /// Jumps before it, and admissions.
    pub(super) jumps: u64,
    pub(super) admitted: usize,
}

struct Clock {
    server: Server,
    /// From the real clock to the server's, in seconds; and the part of it that is jumps.
    offset: i64,
    jumped: i64,
    jumps: u64,
}

impl Clock {
    /// Begins just after the edge of a minute, so that windows that follow the clock are alike in all stories.
    fn start() -> Result<Self, Failure> {
        let server = Server::builder().moveable_clock().start()?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as i64;
        let mut clock = Self { server, offset: 0, jumped: 0, jumps: 0 };
        clock.set((60_000 - now % 60_000).div_euclid(1_000) + 1)?;
        Ok(clock)
    }

    fn set(&mut self, offset: i64) -> Result<(), Failure> {
        self.offset = offset;
        Ok(self.server.set_clock_offset(offset)?)
    }
}

/// Plays a story; answers what came of each policy.
pub(super) async fn play(story: &Story, packaging: Packaging) -> Result<Vec<PolicyHistory>, Failure> {
    let mut clock = Clock::start()?;
    let builder = Redis::builder(&clock.server.url()).packaging(packaging).deadline(Duration::from_secs(10));
    let store = builder.response_timeout(Duration::from_secs(10)).connect().await?;
    let mut lives: Vec<PolicyHistory> = story.policies()?.into_iter().map(PolicyHistory::new).collect();
    for act in &story.acts {
        match act {
            Act::Pass(0) | Act::Jump(0) => {}
            Act::Pass(seconds) => clock.set(clock.offset + seconds)?,
            Act::Jump(seconds) => {
                clock.jumped += seconds;
                clock.jumps += 1;
                clock.set(clock.offset + seconds)?;
                lives.iter_mut().for_each(|life| life.promised = None);
            }
            Act::Ask => {
                for (number, life) in lives.iter_mut().enumerate() {
                    life.ask(&store, &clock, number).await?;
                }
            }
        }
    }
    clock.server.scan_all(|_, left| {
        if left == -1
            && let Some(life) = lives.first_mut()
        {
            life.immortal = true;
        }
    })?;
    Ok(lives)
}

impl PolicyHistory {
    fn new(policy: Policy) -> Self {
        Self {
            policy,
            admitted: Vec::new(),
            refused: Vec::new(),
            broken_waits: Vec::new(),
            immortal: false,
            promised: None,
        }
    }

    /// Asks until it is refused.
    async fn ask(&mut self, store: &Redis, clock: &Clock, number: usize) -> Result<(), Failure> {
        let key = format!("life-{number}");
        for _ in 0..MAX_ASKED {
            let decision = store.check(&self.policy, key.as_bytes(), Request::ONE).await?;
            if decision.source != Source::Home {
                return Err(Failure(format!("the server did not answer: {:?}", store.stats())));
            }
            let at = decision.at.get() as i64 - clock.jumped * 1_000_000;
            if decision.allowed {
                self.admitted.push(at);
                self.promised = None;
                continue;
            }
            if let Some(promised) = self.promised.filter(|promised| at >= *promised) {
                self.broken_waits.push(format!("refused {} us after its wait was over", at - promised));
            }
            let wait = decision.retry_after.span().map(|wait| wait.get() as i64);
            self.promised = wait.map(|wait| at + wait);
            let reset = decision.reset_after.get() as i64;
            self.refused.push(Refusal { at, wait, reset, jumps: clock.jumps, admitted: self.admitted.len() });
            return Ok(());
        }
        Err(Failure(format!("{} admits without end", self.policy)))
    }
}
