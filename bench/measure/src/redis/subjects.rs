//! What is measured: every dialect, and the native call by every algorithm, as function and as script.
//!
//! Where a call has several keys, each is another random one: the state of each is its own, so it costs the
//! same as keys that belong together.

use std::time::{Duration, SystemTime};

use tollgate_kernel::Policy;
use tollgate_redis::lua::{algorithms, compact, dialect_script, script};

use crate::RunOptions;
use crate::home::{Failure, Home};

/// How a subject is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Function,
    Script,
}

impl Form {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::Script => "script",
        }
    }
}

/// One thing to measure.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) name: String,
    /// The function, or the script of the same name.
    pub(crate) call: &'static str,
    pub(crate) keys: Vec<&'static str>,
    pub(crate) arguments: Vec<String>,
    /// Whether the first argument is a policy, which a script takes in compact form.
    native: bool,
    /// At most so many times the empty script.
    pub(crate) target: Option<f64>,
    /// What the script took that this replaces.
    pub(crate) original: Option<f64>,
    /// Whether a key of it holds one record.
    pub(crate) one_record: bool,
}

impl Subject {
    fn dialect(name: &str, call: &'static str, keys: &[&'static str], arguments: &[&str]) -> Self {
        Self {
            name: name.to_owned(),
            call,
            keys: keys.to_vec(),
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            native: false,
            target: None,
            original: None,
            one_record: !name.contains("2 "),
        }
    }

    fn native(call: &'static str, policy: &str) -> Self {
        let one_record = call == "tollgate" && !policy.contains(',');
        let name = if call == "tollgate" { policy.to_owned() } else { format!("{policy}, only looked at") };
        Self { native: true, one_record, ..Self::dialect(&name, call, &["tg:{u:__rand_int__}"], &[policy]) }
    }

    fn at_most(mut self, target: f64) -> Self {
        self.target = Some(target);
        self
    }

    fn was(mut self, original: f64) -> Self {
        self.original = Some(original);
        self
    }

    /// Whether somebody asked for it.
    pub(crate) fn is_wanted(&self, options: &RunOptions) -> bool {
        options.wants(&self.name) || options.wants(self.call)
    }

    /// Whether it only looks at what another call has left.
    pub(crate) fn looks(&self) -> bool {
        self.call == "tollgate_peek"
    }

    /// The same on the call that charges.
    pub(crate) fn charging(&self) -> Self {
        Self { call: "tollgate", ..self.clone() }
    }

    /// The command, whose script is loaded by now.
    pub(crate) fn command(&self, home: &mut Home, form: Form) -> Result<Vec<String>, Failure> {
        let mut arguments = self.arguments.clone();
        let mut words = match form {
            Form::Function => vec!["FCALL".to_owned(), self.call.to_owned()],
            Form::Script if self.native => {
                let policy: Policy = arguments.first().ok_or("no policy")?.parse()?;
                let script = script(self.call, &algorithms(&policy)).ok_or("no such call")?;
                home.load(&script)?;
                arguments = vec![compact(&policy)];
                vec!["EVALSHA".to_owned(), script.sha.clone()]
            }
            Form::Script => {
                let script = dialect_script(self.call).ok_or("no such dialect")?;
                home.load(&script)?;
                vec!["EVALSHA".to_owned(), script.sha]
            }
        };
        words.push(self.keys.len().to_string());
        words.extend(self.keys.iter().map(|&key| key.to_owned()));
        words.extend(arguments);
        Ok(words)
    }
}

/// All of them. Dialects that are told the time are told one second, as redis-benchmark cannot let it pass;
/// rolling is told microseconds of a tenth of a second, in no order.
pub(crate) fn subjects() -> Vec<Subject> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let seconds = now.to_string();
    let micros = format!("{}__rand_int__", now / 1_000_000);
    let (s, us) = (seconds.as_str(), micros.as_str());
    let key = "tg:{u:__rand_int__}";
    let other = "tg:{u:__rand_int__}2";
    let (slots_1, slots_2) = ("[[1000000,60,1]]", "[[1000000,60,1],[5000000,3600,60]]");
    let (ar1_1, ar1_2) = ("[[1000000,2,1]]", "[[1000000,2,1],[5000000,2,60]]");
    let rolling_1 = ["1", "1", us, "0", "1000", "1000000", "60"];
    let rolling_2 = ["1", "1", us, "0", "0", "1000", "10000", "1000000", "60000000", "60", "60"];
    let of = Subject::dialect;
    vec![
        of("fixed_window", "fixed_window", &[key], &["1000000", "60"]).at_most(4.0).was(4.8),
        of("token_bucket", "token_bucket", &[key], &["1000000", "60", "100"]).at_most(4.5).was(9.8),
        of("slot_window", "slot_window", &[key], &["1", "n", slots_1, s]).at_most(5.0).was(10.5),
        of("slot_window, 2 limits", "slot_window", &[key], &["1", "n", slots_2, s]).at_most(7.0).was(17.0),
        of("ar1", "ar1", &[key], &["1", "n", ar1_1, s]).at_most(4.0).was(4.9),
        of("ar1, 2 limits", "ar1", &[key], &["1", "n", ar1_2, s]).at_most(6.0).was(9.6),
        of("sliding_window", "sliding_window", &[key], &["60000", "1000"]).at_most(4.5).was(6.2),
        of("sliding_window, 2 windows", "sliding_window", &[key], &["60000", "1000", "3600000", "100000"])
            .at_most(5.5)
            .was(7.1),
        of("rolling", "rolling", &[key], &rolling_1).at_most(5.5).was(13.0),
        of("rolling, 2 limits", "rolling", &[key, other], &rolling_2).at_most(8.0).was(20.0),
        of("api_counter", "api_counter", &["{api:__rand_int__}"], &["1000000"]),
        Subject::native("tollgate", "100000/min gcra").at_most(4.5),
        Subject::native("tollgate", "100/min").at_most(5.0),
        Subject::native("tollgate", "100/min fixed"),
        Subject::native("tollgate", "100/min bucket burst=20"),
        Subject::native("tollgate", "100/min slots resolution=1s"),
        Subject::native("tollgate", "100/min estimate"),
        Subject::native("tollgate", "100/10s decay factor=2"),
        Subject::native("tollgate", "100/s gcra, 1000/min"),
        Subject::native("tollgate", "100/s gcra, 1000/min, 10000/h fixed").at_most(8.0),
        Subject::native("tollgate_peek", "100/min"),
    ]
}
