//! Plays a vector file and counts what is right.

use std::fmt;

use serde_json::{Map, Value};

use crate::judge::{Verdict, is_error, judge};

/// What a home is not shown.
const HIDDEN: [&str; 3] = ["expect", "accept_headers", "pseudo"];
/// Complaints kept; the rest is only counted.
const MAX_COMPLAINTS: usize = 20;

/// What came out of playing vectors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Scenarios played.
    pub scenarios: u64,
    /// Operations judged.
    pub operations: u64,
    /// Judged lines that are right; scenario lines count too.
    pub right: u64,
    /// Judged lines that are wrong.
    pub wrong: u64,
    /// Judged lines of which an expected field, or the whole answer, is missing.
    pub missing: u64,
    /// Operations not judged, because their scenario has big numbers and was refused before.
    pub unjudged: u64,
    /// Scenarios with big numbers.
    pub big: u64,
    /// Those of them that were refused somewhere.
    pub big_refused: u64,
    /// What was wrong or missing, with its place; the first few.
    pub complaints: Vec<String>,
}

impl Tally {
    /// Whether everything judged is right.
    pub fn is_clean(&self) -> bool {
        self.wrong == 0 && self.missing == 0
    }

    /// Adds another file's.
    pub fn add(&mut self, other: Self) {
        self.scenarios += other.scenarios;
        self.operations += other.operations;
        self.right += other.right;
        self.wrong += other.wrong;
        self.missing += other.missing;
        self.unjudged += other.unjudged;
        self.big += other.big;
        self.big_refused += other.big_refused;
        self.complaints.extend(other.complaints);
        self.complaints.truncate(MAX_COMPLAINTS);
    }

    fn count(&mut self, place: impl fmt::Display, verdict: Verdict) {
        let complaint = match verdict {
            Verdict::Right => {
                self.right += 1;
                return;
            }
            Verdict::Wrong(what) => {
                self.wrong += 1;
                what
            }
            Verdict::Refused => {
                self.wrong += 1;
                "refused".to_owned()
            }
            Verdict::Missing(what) => {
                self.missing += 1;
                format!("{what} is missing")
            }
        };
        if self.complaints.len() < MAX_COMPLAINTS {
            self.complaints.push(format!("{place}: {complaint}"));
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} scenarios, {} operations judged; {} right, {} wrong, {} missing; big: {} exact, {} refused, {} operations not judged",
            self.scenarios,
            self.operations,
            self.right,
            self.wrong,
            self.missing,
            self.big - self.big_refused,
            self.big_refused,
            self.unjudged
        )
    }
}

/// A vector file that is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadVectors {
    line: usize,
    what: String,
}

impl fmt::Display for BadVectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for BadVectors {}

/// Plays the vectors of `text`. `ask` is shown each line without what is expected and gives the
/// answer, or nothing if it has none.
pub fn play(text: &str, mut ask: impl FnMut(&str) -> Option<String>) -> Result<Tally, BadVectors> {
    let mut tally = Tally::default();
    let mut scenario = CurrentScenario::default();
    for (index, line) in text.lines().enumerate() {
        let bad = |what: String| BadVectors { line: index + 1, what };
        let vector: Map<String, Value> = serde_json::from_str(line).map_err(|error| bad(error.to_string()))?;
        let shown = vector.iter().filter(|(name, _)| !HIDDEN.contains(&name.as_str()));
        let shown: Map<String, Value> = shown.map(|(name, value)| (name.clone(), value.clone())).collect();
        let answer = ask(&Value::Object(shown).to_string());
        let answer = answer.and_then(|answer| serde_json::from_str::<Value>(&answer).ok());
        let opens = vector.contains_key("scenario");
        if opens {
            scenario = CurrentScenario::open(&vector);
            tally.scenarios += 1;
            tally.big += u64::from(scenario.big);
        } else if scenario.refused {
            tally.unjudged += 1;
            continue;
        }
        let verdict = match answer {
            None => Verdict::Missing("the answer".to_owned()),
            Some(answer) if opens => judge_scenario(&vector, &answer),
            Some(answer) => judge(&vector, &answer),
        };
        if verdict == Verdict::Refused && scenario.big {
            scenario.refused = true;
            tally.big_refused += 1;
            tally.unjudged += u64::from(!opens);
            continue;
        }
        tally.operations += u64::from(!opens);
        tally.count(format!("line {} of {}", index + 1, scenario.name), verdict);
    }
    Ok(tally)
}

/// The scenario that is played.
#[derive(Default)]
struct CurrentScenario {
    name: String,
    big: bool,
    /// Big, and refused: nothing is judged any more.
    refused: bool,
}

impl CurrentScenario {
    fn open(vector: &Map<String, Value>) -> Self {
        let name = vector.get("scenario").and_then(Value::as_str).unwrap_or_default().to_owned();
        Self { name, big: vector.get("big") == Some(&Value::Bool(true)), refused: false }
    }
}

/// A scenario line is answered by an object, which says whether its policy is an error.
fn judge_scenario(vector: &Map<String, Value>, answer: &Value) -> Verdict {
    let wants_error = vector.get("policy_error") == Some(&Value::Bool(true));
    match answer {
        Value::Object(answer) if is_error(answer) == wants_error => Verdict::Right,
        Value::Object(_) if wants_error => Verdict::Wrong("expected an error".to_owned()),
        Value::Object(_) => Verdict::Refused,
        other => Verdict::Wrong(format!("not an object: {other}")),
    }
}
