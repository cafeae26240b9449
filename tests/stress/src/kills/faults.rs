//! Disks that are full, and disks whose syncs fail: what is answered meanwhile, and that it gets well.
//!
//! Policies say what is answered while nothing can be kept, unless a full disk is to be decided on: `deny` refuses
//! (source closed), `allow` lets pass (open), `local` decides in memory (local). A metric tells it. Whoever waits for
//! an answer in the moment of the failure may find the connection ended, and then does not know whether it was
//! charged. Once the disk is well, a snapshot makes the journal well, and a kill forgets nothing from then on.

use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::rounds::judge_panic;
use super::shim::{Shim, Trouble};
use super::words;
use crate::serving::{Folder, Metrics, Reply, Resp, ServerProcess};
use crate::{Failure, Report};

/// How long a server may take to notice, and to get well: it tries every five seconds.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(5);
/// Checks of each policy before, meanwhile and after.
const CHECKS: u64 = 40;
/// What each policy holds.
const HOLDS: u64 = 100_000;

/// A way for a disk to fail.
struct Fault {
    name: &'static str,
    trouble: Trouble,
    fsync: &'static str,
    /// What a full disk means.
    on_full: &'static str,
    /// What the metric says.
    health: f64,
    /// Policies say who decides.
    is_away: bool,
}

const FAULTS: &[Fault] = &[
    Fault {
        name: "full disk, decided on",
        trouble: Trouble::Full,
        fsync: "everysec",
        on_full: "keep",
        health: 1.0,
        is_away: false,
    },
    Fault {
        name: "full disk, stopped",
        trouble: Trouble::Full,
        fsync: "everysec",
        on_full: "stop",
        health: 1.0,
        is_away: true,
    },
    Fault {
        name: "failing sync, everysec",
        trouble: Trouble::Failing,
        fsync: "everysec",
        on_full: "keep",
        health: 2.0,
        is_away: true,
    },
    Fault {
        name: "failing sync, always",
        trouble: Trouble::Failing,
        fsync: "always",
        on_full: "keep",
        health: 2.0,
        is_away: true,
    },
];

/// The policies, by `on_error`; each with the source of answers while nothing can be kept, and whether they pass.
const POLICIES: [(&str, &str, bool); 3] =
    [("deny", "closed", false), ("allow", "open", true), ("local", "local", true)];

/// Tries every fault for some time, all at once, since each waits most of it.
pub(super) fn fail(report: &mut Report, lasts: Duration) -> Result<(), Failure> {
    let done: Vec<Result<Report, Failure>> = std::thread::scope(|scope| {
        let tried: Vec<_> = FAULTS.iter().map(|fault| scope.spawn(move || fault.try_out(lasts))).collect();
        tried
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(Failure("a fault panicked".to_owned()))))
            .collect()
    });
    for done in done {
        report.absorb(done?);
    }
    Ok(())
}

/// What one policy answered.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    /// Units granted by the server itself or by its memory alone: they are counted.
    counted: u64,
    /// Answers of others, which may have been counted.
    others: u64,
    /// What is used by the last answer that tells it.
    used: u64,
}

impl Fault {
    fn try_out(&self, lasts: Duration) -> Result<Report, Failure> {
        let mut report = Report::default();
        let folder = Folder::new("faults")?;
        let shim = Shim::build(folder.path())?;
        let data = Folder::new("faults-data")?;
        let disk = shim.watch(data.path())?;
        let config = folder.at("tollgate.yaml");
        write_policies(&config)?;
        let more = ["--on-full-disk", self.on_full, "--config", &config.display().to_string()].map(str::to_owned);
        let words = |data: &Path| [&words(data, self.fsync, None)[..], &more].concat();
        let mut server = ServerProcess::start(&words(data.path()), &shim.set(data.path()))?;
        let http = server.http.ok_or_else(|| Failure("the server has no HTTP".to_owned()))?;
        let (to, mut resp) = (server.resp, Resp::connect(server.resp)?);
        let mut counts = [Count::default(); POLICIES.len()];

        self.ask(&mut report, (&mut resp, to), &mut counts, &["home"; 3])?;
        shim.trouble(self.trouble)?;
        let start = Instant::now();
        self.wait(http, self.health, || self.ask_once(&mut report, (&mut resp, to), &mut counts, None))?;
        let sources = if self.is_away { POLICIES.map(|(_, source, _)| source) } else { ["home"; 3] };
        self.ask(&mut report, (&mut resp, to), &mut counts, &sources)?;
        self.alarmed(&server)?;
        // Long enough, and it tries in vain to get well.
        std::thread::sleep(lasts.saturating_sub(start.elapsed()));
        self.ask(&mut report, (&mut resp, to), &mut counts, &sources)?;
        shim.trouble(Trouble::None)?;
        self.wait(http, 0.0, || Ok(()))?;
        let lasted = start.elapsed();
        self.ask(&mut report, (&mut resp, to), &mut counts, &["home"; 3])?;
        server.kill()?;
        judge_panic(&mut report, self.name, &server);

        // What must be on the disk is; else what was written is there.
        let left = Folder::new("faults-data")?;
        let after = if self.fsync == "always" {
            shim.lose(disk, data.path(), left.path(), None)?;
            &left
        } else {
            &data
        };
        let server = ServerProcess::start(&words(after.path()), &[])?;
        self.judge(&mut report, &server, &counts)?;
        judge_panic(&mut report, self.name, &server);
        report.say(format!("{}: well again after {lasted:.1?}; what was used is not forgotten", self.name));
        Ok(report)
    }

    /// Asks each policy for a while; answers must come from these sources.
    fn ask(
        &self,
        report: &mut Report,
        (resp, to): (&mut Resp, SocketAddr),
        counts: &mut [Count; 3],
        sources: &[&str; 3],
    ) -> Result<(), Failure> {
        (0..CHECKS).try_for_each(|_| self.ask_once(report, (resp, to), counts, Some(sources)))
    }

    /// Asks each policy once. At first nobody can know who answers.
    fn ask_once(
        &self,
        report: &mut Report,
        (resp, to): (&mut Resp, SocketAddr),
        counts: &mut [Count; 3],
        sources: Option<&[&str; 3]>,
    ) -> Result<(), Failure> {
        for (place, (policy, away, passes)) in POLICIES.iter().enumerate() {
            let count = &mut counts[place];
            let reply = match (resp.ask(&["TG.CHECK", "key", policy, "REST", "SOURCE"]), sources) {
                (Err(error), None) if error.kind() == ErrorKind::UnexpectedEof => {
                    count.others += 1;
                    *resp = Resp::connect(to)?;
                    continue;
                }
                (reply, _) => reply.map_err(|error| Failure(format!("{}: {policy}: {error}", self.name)))?,
            };
            let Reply::Array(parts) = &reply else {
                return Err(Failure(format!("{}: {policy}: expected a decision, found {reply:?}", self.name)));
            };
            let source = parts.last().map(Reply::text).unwrap_or_default();
            let is_expected = match sources {
                Some(sources) => source == sources[place],
                None => source == "home" || source == *away,
            };
            let is_right = is_expected && (source == "home" || (reply.at(0).int() == Some(1)) == *passes);
            report.demand(is_right, || format!("{}: {policy}: expected {sources:?}, found {reply:?}", self.name));
            let left = reply.at(2).int().unwrap_or(0);
            let used = HOLDS.saturating_add_signed(left.saturating_neg());
            match source.as_str() {
                "home" | "local" => {
                    count.counted += 1;
                    // Each is the last and one more; others may have been counted.
                    report.demand((count.counted..=count.counted + count.others).contains(&used), || {
                        format!("{}: {policy}: {used} used, expected {} or more", self.name, count.counted)
                    });
                    count.used = used;
                }
                _ => count.others += 1,
            }
        }
        Ok(())
    }

    /// Waits until the metric says something; does something meanwhile.
    fn wait(
        &self,
        http: SocketAddr,
        health: f64,
        mut meanwhile: impl FnMut() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let until = Instant::now() + PATIENCE;
        loop {
            let metrics = Metrics::read(http)?;
            if metrics.value("tollgate_journal_health") == Some(health) {
                return Ok(());
            }
            if Instant::now() > until {
                let found = metrics.family("tollgate_journal");
                return Err(Failure(format!(
                    "{}: health {health} expected within {PATIENCE:?}, found {found}",
                    self.name
                )));
            }
            meanwhile()?;
            std::thread::sleep(LOOK);
        }
    }

    /// Waits until the log tells it.
    fn alarmed(&self, server: &ServerProcess) -> Result<(), Failure> {
        let until = Instant::now() + PATIENCE;
        loop {
            let said = server.said();
            if said.iter().any(|line| line.contains("not_kept")) {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(Failure(format!("{}: no alarm in the log: {}", self.name, said.join(" | "))));
            }
            std::thread::sleep(LOOK);
        }
    }

    fn judge(&self, report: &mut Report, server: &ServerProcess, counts: &[Count; 3]) -> Result<(), Failure> {
        let mut resp = Resp::connect(server.resp)?;
        for ((policy, ..), count) in POLICIES.iter().zip(counts) {
            let reply = resp.ask(&["TG.PEEK", "key", policy])?;
            let left = reply.at(2).int().ok_or_else(|| Failure(format!("{policy}: found {reply:?}")))?;
            let used = HOLDS.saturating_add_signed(left.saturating_neg());
            report.demand(used == count.used, || {
                format!("{}: {policy}: {used} used after a kill, expected {}", self.name, count.used)
            });
        }
        Ok(())
    }
}

fn write_policies(path: &Path) -> Result<(), Failure> {
    let mut text = "policies:\n".to_owned();
    for (policy, ..) in POLICIES {
        text += &format!("  {policy}:\n    limit: \"{HOLDS}/366d fixed\"\n    on_error: {policy}\n");
    }
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    Ok(std::io::Write::write_all(&mut file, text.as_bytes())?)
}
