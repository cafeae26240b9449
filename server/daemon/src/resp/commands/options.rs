//! The options behind a key and a policy: `COST n`, `MODE m`, `NAME word`, `REST`, `FULL`, `SOURCE`.

use tollgate_kernel::{Cost, EXACT, Mode};

use super::Args;
use tollgate_engine::DetailLevel;
use tollgate_keyspace::Fault;

/// The options of a command, each given once at most.
#[derive(Debug, Default)]
pub(super) struct CommandOptions<'a> {
    pub(super) cost: Option<Cost>,
    pub(super) mode: Option<Mode>,
    pub(super) name: Option<&'a [u8]>,
    pub(super) tells: Option<DetailLevel>,
    pub(super) source: bool,
}

/// The options that a command takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OptionSet {
    /// COST, MODE, NAME, REST, FULL, SOURCE.
    All,
    /// COST, MODE, NAME.
    Asking,
    /// COST, NAME.
    Part,
    /// NAME.
    Name,
}

impl OptionSet {
    const fn words(self) -> &'static str {
        match self {
            Self::All => "COST n, MODE m, NAME word, REST, FULL or SOURCE",
            Self::Asking => "COST n, MODE m or NAME word",
            Self::Part => "COST n, NAME word or AND",
            Self::Name => "NAME word",
        }
    }
}

impl<'a> CommandOptions<'a> {
    /// Parses options from the argument at `at` to the end, or to a word AND for parts; returns where it stopped.
    pub(super) fn parse(args: &Args<'a>, mut at: usize, accepted: OptionSet) -> Result<(Self, usize), Fault> {
        let mut options = Self::default();
        while at < args.len() {
            if accepted == OptionSet::Part && args.is(at, "AND") {
                break;
            }
            at += options.word(args, at, accepted)?;
        }
        Ok((options, at))
    }

    /// Parses one option; returns how many arguments it took.
    fn word(&mut self, args: &Args<'a>, at: usize, accepted: OptionSet) -> Result<usize, Fault> {
        let value = || {
            args.get(at + 1).ok_or_else(|| {
                Fault::wrong(format!(
                    "syntax error: expected a value behind {}",
                    tollgate_keyspace::quoted(args.at(at))
                ))
            })
        };
        let twice = |given: bool| match given {
            true => {
                Err(Fault::wrong(format!("syntax error: expected {} once", tollgate_keyspace::quoted(args.at(at)))))
            }
            false => Ok(()),
        };
        let (all, asking, part) = (
            accepted == OptionSet::All,
            accepted != OptionSet::Name && accepted != OptionSet::Part,
            accepted != OptionSet::Name,
        );
        if part && args.is(at, "COST") {
            twice(self.cost.is_some())?;
            self.cost = Some(cost("COST", value()?)?);
            return Ok(2);
        }
        if asking && args.is(at, "MODE") {
            twice(self.mode.is_some())?;
            let text = value()?;
            let mode = std::str::from_utf8(text).ok().and_then(|text| Mode::from_name(&text.to_ascii_lowercase()));
            self.mode = Some(mode.ok_or_else(|| Fault::expected("MODE", "binary, nary or uniform", text))?);
            return Ok(2);
        }
        if args.is(at, "NAME") {
            twice(self.name.is_some())?;
            self.name = Some(value()?);
            return Ok(2);
        }
        let tells =
            [("REST", DetailLevel::Rest), ("FULL", DetailLevel::Full)].into_iter().find(|(word, _)| args.is(at, word));
        if let Some((_, tells)) = tells.filter(|_| all) {
            twice(self.tells.is_some())?;
            self.tells = Some(tells);
            return Ok(1);
        }
        if all && args.is(at, "SOURCE") {
            twice(self.source)?;
            self.source = true;
            return Ok(1);
        }
        Err(Fault::expected("syntax error", accepted.words(), args.at(at)))
    }
}

/// Parses an argument as a whole number.
pub(super) fn whole(name: &str, text: &[u8], most: u64) -> Result<u64, Fault> {
    let digits = std::str::from_utf8(text).ok().filter(|text| !text.starts_with('+'));
    let number = digits.and_then(|text| text.parse().ok()).filter(|number| *number <= most);
    number.ok_or_else(|| Fault::expected(name, &format!("an integer from 0 to {most}"), text))
}

/// Parses an argument as a cost.
pub(super) fn cost(name: &str, text: &[u8]) -> Result<Cost, Fault> {
    let most = EXACT - 1;
    let cost = Cost::new(whole(name, text, most)?);
    cost.ok_or_else(|| Fault::expected(name, &format!("an integer from 0 to {most}"), text))
}
