//! The policies that are counted separately, within a bounded number of series.
//!
//! There may be ten thousand policies in the file and any number of texts that callers bring, and a page of metrics
//! must stay readable. So labels are given to the first policies that are *used*: most of ten thousand policies in a
//! file are idle, and those at its top deserve a series no more than others. A label reserves all the series it could
//! ever show at once, so that the page cannot exceed its bound later. Callers have separate bounds on labels and
//! series: whatever texts they choose, there is room for the server's own policies. Policies without a label are
//! counted together. `policy.rs` has the counters of one policy.

mod policy;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tollgate_kernel::Policy;

pub use policy::{FLIPS, LabelCounts, LimitCount, PolicyCounts, RULES, STANDINS, label};
use policy::{OTHER, OVERRIDE, short};

/// The most labels in total, and for policies that callers bring.
const MAX_LABELS: usize = 100;
const MAX_CALLERS: usize = 50;
/// The most series of all labels, and of the labels of callers.
const MAX_SERIES: usize = 1_500;
const MAX_CALLERS_SERIES: usize = 500;
/// The series that any label may show beside its limits: allowed and denied, the stand-ins, and the limits that are
/// counted together.
const EACH: usize = 2 + STANDINS.len() + 1;
/// The further series of a policy of the server: rules, flips and bans. Those it lacks now may come with the next file.
const EACH_OF_SERVER: usize = RULES.len() + FLIPS.len() + 1;

/// The owner of a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PolicyOwner {
    /// A text that callers bring, with or without a name.
    #[default]
    Callers,
    /// A policy of the server's configuration.
    Servers,
    /// Other limits for some keys of a policy of the server.
    Overrides,
}

/// The policies that are counted separately.
#[derive(Debug)]
pub struct PolicyCounters {
    places: Mutex<CountedLabels>,
    others: Arc<PolicyCounts>,
}

#[derive(Debug, Default)]
struct CountedLabels {
    by_label: HashMap<String, CountedLabel>,
    callers: usize,
    /// Series reserved in total, and by callers.
    series: usize,
    callers_series: usize,
}

/// A label and its counters.
#[derive(Debug)]
struct CountedLabel {
    totals: Arc<LabelCounts>,
    limits: Vec<Arc<LimitCount>>,
    is_callers: bool,
}

impl Default for PolicyCounters {
    fn default() -> Self {
        let totals = Arc::new(LabelCounts::new(OTHER.to_owned()));
        let others = PolicyCounts { totals, limits: [Arc::new(LimitCount::new(OTHER))].into() };
        Self { places: Mutex::default(), others: Arc::new(others) }
    }
}

impl PolicyCounters {
    /// Returns the counters for decisions under a policy: its own label if there is room, otherwise the shared one.
    pub fn policy(&self, policy: &Policy, owner: PolicyOwner) -> Arc<PolicyCounts> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let label = label(policy);
        if !places.has(&label, owner) && !places.add(&label, owner) {
            return Arc::clone(&self.others);
        }
        let names = match owner {
            PolicyOwner::Overrides => vec![OVERRIDE.to_owned()],
            _ => policy.limits().iter().map(|limit| short(&limit.name())).collect(),
        };
        let limits = names.iter().filter_map(|name| places.limit(&label, name)).collect();
        let totals = places.by_label.get(&label).map(|place| Arc::clone(&place.totals));
        totals.map_or_else(|| Arc::clone(&self.others), |totals| Arc::new(PolicyCounts { totals, limits }))
    }

    /// Releases the series of the server's policies that no longer exist, and of limits of its other policies that are
    /// no longer in use.
    pub fn sweep(&self, is_there: impl Fn(&str) -> bool) {
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

    /// Calls `each` for every label with its limits; the shared label comes last.
    pub fn each(&self, mut each: impl FnMut(&LabelCounts, &[Arc<LimitCount>])) {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.by_label.values().for_each(|place| each(&place.totals, &place.limits));
        each(&self.others.totals, &self.others.limits);
    }
}

impl CountedLabels {
    /// Returns whether a label has its series. A label that callers used before the server had a policy of that name
    /// becomes the server's.
    fn has(&mut self, label: &str, owner: PolicyOwner) -> bool {
        let Some(place) = self.by_label.get_mut(label) else { return false };
        if owner == PolicyOwner::Callers || !place.is_callers {
            return true;
        }
        if self.series + EACH_OF_SERVER > MAX_SERIES {
            return false;
        }
        place.is_callers = false;
        self.series += EACH_OF_SERVER;
        self.callers -= 1;
        self.callers_series -= EACH + place.limits.iter().filter(|limit| limit.name != OTHER).count();
        true
    }

    /// Reserves the series of a label; returns whether there was room.
    fn add(&mut self, label: &str, owner: PolicyOwner) -> bool {
        let is_callers = owner == PolicyOwner::Callers;
        let takes = if is_callers { EACH } else { EACH + EACH_OF_SERVER };
        let full =
            self.by_label.len() >= MAX_LABELS || self.series + takes > MAX_SERIES || self.by_label.contains_key(label);
        let too_many = self.callers >= MAX_CALLERS || self.callers_series + takes > MAX_CALLERS_SERIES;
        if full || is_callers && too_many {
            return false;
        }
        self.series += takes;
        if is_callers {
            self.callers += 1;
            self.callers_series += takes;
        }
        let place =
            CountedLabel { totals: Arc::new(LabelCounts::new(label.to_owned())), limits: Vec::new(), is_callers };
        self.by_label.insert(label.to_owned(), place);
        true
    }

    /// Returns the counter of a limit of a label, or the shared one if there is no room for its own.
    fn limit(&mut self, label: &str, name: &str) -> Option<Arc<LimitCount>> {
        let place = self.by_label.get_mut(label)?;
        let is_callers = place.is_callers;
        let room = self.series < MAX_SERIES && !(is_callers && self.callers_series >= MAX_CALLERS_SERIES);
        let find = |name: &str| place.limits.iter().find(|limit| limit.name == name).map(Arc::clone);
        let name = match find(name) {
            Some(found) => return Some(found),
            None if room => name,
            None => OTHER,
        };
        if let Some(found) = find(name) {
            return Some(found);
        }
        // The shared counter has been reserved since the label was added.
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
mod tests;
