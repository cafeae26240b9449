//! The options of a campaign: `--name number` or `--name words`, each with a default; `--json` has neither.

use std::fmt::Write;

use crate::{CAMPAIGNS, Campaign, Setting};

/// Every campaign takes it.
const SEED: Setting = ("seed", 1, "what is chosen at random; the same seed again is the same choice");

/// The options of one run.
#[derive(Clone, Debug)]
pub struct Args {
    numbers: Vec<(&'static str, u64)>,
    texts: Vec<(&'static str, String)>,
}

impl Args {
    /// Reads the words after the campaign's name.
    pub fn read(campaign: &Campaign, words: &[String]) -> Result<Self, String> {
        let settings = campaign.options.iter().chain([&SEED]);
        let mut args = Self {
            numbers: settings.map(|(name, default, _)| (*name, *default)).collect(),
            texts: campaign.texts.iter().map(|(name, default, _)| (*name, (*default).to_owned())).collect(),
        };
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            if let Some((_, text)) = args.texts.iter_mut().find(|(name, _)| word.strip_prefix("--") == Some(name)) {
                let value = rest.next().ok_or_else(|| format!("{word}: expected words, for example {word} {text}"))?;
                value.clone_into(text);
                continue;
            }
            let known = args.numbers.iter_mut().find(|(name, _)| word.strip_prefix("--") == Some(name));
            let (_, number) = known.ok_or_else(|| format!("unknown argument {word:?}; see torture --help"))?;
            if word == "--json" {
                *number = 1;
                continue;
            }
            let value = rest.next().map_or("nothing", String::as_str);
            *number = value.replace('_', "").parse().map_err(|_| {
                format!("{word}: expected a whole number, found {value:?}; for example {word} {}", *number)
            })?;
        }
        Ok(args)
    }

    /// The value of an option; one that the campaign does not list is 0.
    pub fn get(&self, name: &str) -> u64 {
        self.numbers.iter().find(|(known, _)| *known == name).map_or(0, |(_, value)| *value)
    }

    /// The words of an option, which commas part; one that the campaign does not list has none.
    pub fn words(&self, name: &str) -> Vec<&str> {
        let text = self.texts.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text);
        text.split(',').map(str::trim).filter(|word| !word.is_empty()).collect()
    }

    /// The same, at least 1.
    pub fn some(&self, name: &str) -> u64 {
        self.get(name).max(1)
    }
}

/// The text of `torture --help`.
pub fn help() -> String {
    let mut text = "torture CAMPAIGN [--option value]...\n\nA campaign without options is the full one.\n".to_owned();
    for Campaign { name, options, texts, help, .. } in CAMPAIGNS {
        let _ = writeln!(text, "\n{name}: {help}");
        for (option, default, what) in options.iter().chain([&SEED]) {
            let _ = writeln!(text, "  --{option:<12} {what} (default: {default})");
        }
        for (option, default, what) in *texts {
            let default = if default.is_empty() { "all" } else { default };
            let _ = writeln!(text, "  --{option:<12} {what} (default: {default})");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_over_their_defaults() {
        let read = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            Args::read(&CAMPAIGNS[0], &words)
        };
        let args = read(&["--operations", "20_000", "--seed", "7"]).unwrap();
        assert_eq!((args.get("operations"), args.get("seed"), args.get("connections")), (20_000, 7, 64));
        for words in [&["--operations"][..], &["--operations", "many"], &["--unknown", "1"], &["seed"]] {
            assert!(read(words).is_err(), "{words:?}");
        }
        assert!(help().contains("--connections"));
    }

    #[test]
    fn options_of_words_are_lists() {
        let campaign = CAMPAIGNS.iter().find(|campaign| !campaign.texts.is_empty()).unwrap();
        let read = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            Args::read(campaign, &words)
        };
        let args = read(&["--only", "fresh, names", "--minutes", "0"]).unwrap();
        assert_eq!(args.words("only"), ["fresh", "names"]);
        assert_eq!((args.words("memory"), args.get("minutes")), (vec!["4M", "16M", "64M"], 0));
        assert!(args.words("unknown").is_empty() && read(&["--only"]).is_err());
    }
}
