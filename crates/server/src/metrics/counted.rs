//! Which policies are told apart, within a number of series.
//!
//! There may be ten thousand policies in the file and any number of texts that callers bring, and a page of
//! metrics must stay one that can be read. So a label is given to the first policies that are *used*: of
//! ten thousand in a file most are asleep, and those at its top are no more worth a series than others. A
//! label takes all the series it could ever show at once, so that the page cannot outgrow its bound later.
//! Callers have labels and series of their own number: whatever texts they choose, there is room for the
//! server's own policies. What finds no room is counted together.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tollgate_core::Policy;

use super::policy::{FLIPS, LimitCount, OTHER, OVERRIDE, PolicyCounts, RULES, STANDINS, Tally, label, short};

/// Labels in all, and those of policies that callers bring.
const MOST_LABELS: usize = 100;
const MOST_CALLERS: usize = 50;
/// Series of all labels, and those that policies of callers may take of them.
const MOST_SERIES: usize = 1_500;
const MOST_CALLERS_SERIES: usize = 500;
/// Series that any label may show beside its limits: allowed and denied, who stood in, and the limits that
/// are counted together.
const EACH: usize = 2 + STANDINS.len() + 1;
/// And a policy of the server: rules, flips and bans. Whatever it has none of may come with the next file.
const EACH_OF_SERVER: usize = RULES.len() + FLIPS.len() + 1;

/// Whose a policy is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Whose {
    /// A text that callers bring, perhaps under a name.
    #[default]
    Callers,
    /// The server was told of it.
    Servers,
    /// Other limits for some keys of a policy of the server.
    Overrides,
}

/// The policies that are told apart.
#[derive(Debug)]
pub(super) struct Counted {
    places: Mutex<Places>,
    others: Arc<PolicyCounts>,
}

#[derive(Debug, Default)]
struct Places {
    by_label: HashMap<String, Place>,
    callers: usize,
    /// Series taken in all, and of them by callers.
    series: usize,
    callers_series: usize,
}

/// A label.
#[derive(Debug)]
struct Place {
    tally: Arc<Tally>,
    limits: Vec<Arc<LimitCount>>,
    is_callers: bool,
}

impl Default for Counted {
    fn default() -> Self {
        let tally = Arc::new(Tally::new(OTHER.to_owned()));
        let others = PolicyCounts { tally, limits: [Arc::new(LimitCount::new(OTHER))].into() };
        Self { places: Mutex::default(), others: Arc::new(others) }
    }
}

impl Counted {
    /// Where decisions under a policy are counted: under its own label while there is room, else with others.
    pub(super) fn policy(&self, policy: &Policy, whose: Whose) -> Arc<PolicyCounts> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let label = label(policy);
        if !places.has(&label, whose) && !places.add(&label, whose) {
            return Arc::clone(&self.others);
        }
        let names = match whose {
            Whose::Overrides => vec![OVERRIDE.to_owned()],
            _ => policy.limits().iter().map(|limit| short(&limit.name())).collect(),
        };
        let limits = names.iter().filter_map(|name| places.limit(&label, name)).collect();
        let tally = places.by_label.get(&label).map(|place| Arc::clone(&place.tally));
        tally.map_or_else(|| Arc::clone(&self.others), |tally| Arc::new(PolicyCounts { tally, limits }))
    }

    /// Gives the room of the server's own policies back that there are no more, and of limits of the others that
    /// nobody counts under any more.
    pub(super) fn sweep(&self, is_there: impl Fn(&str) -> bool) {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let mut freed = 0;
        places.by_label.retain(|label, place| {
            if place.is_callers {
                return true;
            }
            let stays = is_there(label);
            let before = place.limits.len();
            place.limits.retain(|limit| limit.name == OTHER || stays && Arc::strong_count(limit) > 1);
            freed += before - place.limits.len();
            freed += if stays { 0 } else { EACH + EACH_OF_SERVER };
            stays
        });
        places.series -= freed;
    }

    /// Every label with its limits, that of the others last.
    pub(super) fn each(&self, mut each: impl FnMut(&Tally, &[Arc<LimitCount>])) {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.by_label.values().for_each(|place| each(&place.tally, &place.limits));
        each(&self.others.tally, &self.others.limits);
    }
}

impl Places {
    /// Whether a label has its room. One that callers chose before the server had a policy of that name becomes
    /// the server's.
    fn has(&mut self, label: &str, whose: Whose) -> bool {
        let Some(place) = self.by_label.get_mut(label) else { return false };
        if whose == Whose::Callers || !place.is_callers {
            return true;
        }
        if self.series + EACH_OF_SERVER > MOST_SERIES {
            return false;
        }
        place.is_callers = false;
        self.series += EACH_OF_SERVER;
        self.callers -= 1;
        self.callers_series -= EACH + place.limits.iter().filter(|limit| limit.name != OTHER).count();
        true
    }

    /// Makes room for a label; answers whether there was.
    fn add(&mut self, label: &str, whose: Whose) -> bool {
        let is_callers = whose == Whose::Callers;
        let takes = if is_callers { EACH } else { EACH + EACH_OF_SERVER };
        let full = self.by_label.len() >= MOST_LABELS
            || self.series + takes > MOST_SERIES
            || self.by_label.contains_key(label);
        let too_many = self.callers >= MOST_CALLERS || self.callers_series + takes > MOST_CALLERS_SERIES;
        if full || is_callers && too_many {
            return false;
        }
        self.series += takes;
        if is_callers {
            self.callers += 1;
            self.callers_series += takes;
        }
        let place = Place { tally: Arc::new(Tally::new(label.to_owned())), limits: Vec::new(), is_callers };
        self.by_label.insert(label.to_owned(), place);
        true
    }

    /// The counter of a limit of a label; the one of all others if there is no room for one of its own.
    fn limit(&mut self, label: &str, name: &str) -> Option<Arc<LimitCount>> {
        let place = self.by_label.get_mut(label)?;
        let is_callers = place.is_callers;
        let room = self.series < MOST_SERIES && !(is_callers && self.callers_series >= MOST_CALLERS_SERIES);
        let find = |name: &str| place.limits.iter().find(|limit| limit.name == name).map(Arc::clone);
        let name = match find(name) {
            Some(found) => return Some(found),
            None if room => name,
            None => OTHER,
        };
        if let Some(found) = find(name) {
            return Some(found);
        }
        // The one of all others has its room since the label was added.
        if name != OTHER {
            self.series += 1;
            self.callers_series += usize::from(is_callers);
        }
        let made = Arc::new(LimitCount::new(name));
        place.limits.push(Arc::clone(&made));
        Some(made)
    }
}

#[cfg(test)]
#[path = "counted_tests.rs"]
mod tests;
