//! What one connection asked of its own keys, in order, and whether what a server knows afterwards can have come
//! of it.
//!
//! Nobody else touches these keys, so how each stands after every request is known exactly. A server that was
//! killed knows of a beginning of what the connection sent: at least all that was answered (or, after a loss of
//! power, all that was answered until some moment), and the same beginning for all its keys.

use std::time::Instant;

/// What happens to a request that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OverflowRule {
    /// Nothing is charged.
    Whole,
    /// What fits is.
    Part,
    /// It is charged all the same.
    Anyway,
}

/// What a key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capacity {
    pub(crate) overflow: OverflowRule,
    pub(crate) most: u64,
}

/// What is done to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Charge(u64),
    /// Units given back.
    Refund(u64),
    Reset,
}

impl Capacity {
    /// What is used after an act.
    pub(crate) fn after(self, used: u64, act: Act) -> u64 {
        let free = self.most.saturating_sub(used);
        match (act, self.overflow) {
            (Act::Reset, _) => 0,
            (Act::Refund(units), _) => used.saturating_sub(units),
            (Act::Charge(units), OverflowRule::Anyway) => used + units,
            (Act::Charge(units), OverflowRule::Part) => used + units.min(free),
            (Act::Charge(units), OverflowRule::Whole) if units <= free => used + units,
            (Act::Charge(_), OverflowRule::Whole) => used,
        }
    }
}

/// An act that was sent.
#[derive(Clone, Copy, Debug)]
struct SentAct {
    /// Its place among all that the connection sent.
    place: usize,
    act: Act,
    /// When its reply was read.
    answered: Option<Instant>,
}

/// A key, and what was done to it.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub(crate) key: String,
    capacity: Capacity,
    base: u64,
    /// What it stands at once all that was answered is done.
    used: u64,
    answered: usize,
    sent: Vec<SentAct>,
}

impl Account {
    pub(crate) fn new(key: String, capacity: Capacity, base: u64) -> Self {
        Self { key, capacity, base, used: base, answered: 0, sent: Vec::new() }
    }

    /// Whether a reset was sent after the last act that was answered.
    pub(crate) fn is_resetting(&self) -> bool {
        self.sent[self.answered..].iter().any(|sent| sent.act == Act::Reset)
    }

    /// The least and the most that it can stand at, if all that was answered until `until` is done.
    pub(crate) fn bounds(&self, until: Option<Instant>) -> (u64, u64) {
        let must = self.must(until);
        let stands = self.stands().skip(must);
        stands.fold((u64::MAX, 0), |(least, most), used| (least.min(used), most.max(used)))
    }

    /// Acts that must have been done.
    fn must(&self, until: Option<Instant>) -> usize {
        let must = |sent: &&SentAct| sent.answered.is_some_and(|at| until.is_none_or(|until| at <= until));
        self.sent.iter().take_while(must).count()
    }

    /// What it stands at before the first act, and after each.
    fn stands(&self) -> impl Iterator<Item = u64> {
        let acts = self.sent.iter().scan(self.base, |used, sent| {
            *used = self.capacity.after(*used, sent.act);
            Some(*used)
        });
        std::iter::once(self.base).chain(acts)
    }
}

/// All keys of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) accounts: Vec<Account>,
    sent: usize,
}

/// How much was asked, and how far back the last that was forgotten had been answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HistoryFigures {
    pub(crate) answered: u64,
    pub(crate) unanswered: u64,
    /// Acts that were answered and are not there.
    pub(crate) forgotten: u64,
    /// The first of them, if there is one.
    pub(crate) oldest: Option<Instant>,
}

impl History {
    pub(crate) fn of(accounts: Vec<Account>) -> Self {
        Self { accounts, sent: 0 }
    }

    /// Acts that were sent.
    pub(crate) fn sent(&self) -> usize {
        self.sent
    }

    /// Notes that an act goes out; answers its number among those of its key.
    pub(crate) fn send(&mut self, account: usize, act: Act) -> usize {
        let place = self.sent;
        self.sent += 1;
        let sent = &mut self.accounts[account].sent;
        sent.push(SentAct { place, act, answered: None });
        sent.len() - 1
    }

    /// Notes that it was answered; answers what the key must stand at, and what was taken. Replies come in order.
    pub(crate) fn answer(&mut self, account: usize, number: usize, at: Instant) -> (u64, u64) {
        let account = &mut self.accounts[account];
        let sent = &mut account.sent[number];
        sent.answered = Some(at);
        let before = account.used;
        account.used = account.capacity.after(before, sent.act);
        account.answered = number + 1;
        (account.used, account.used.abs_diff(before))
    }

    /// Judges what the server knows: `found` of each account, in order. All that was answered until `until` must
    /// be there; all that was answered at all, if none.
    pub(crate) fn judge(&self, found: &[u64], until: Option<Instant>) -> Result<HistoryFigures, String> {
        let mut agree = vec![0_usize; self.sent + 2];
        let must = self.accounts.iter().map(|account| match account.must(until) {
            0 => 0,
            must => account.sent[must - 1].place + 1,
        });
        let must = must.max().unwrap_or(0);
        for (account, found) in self.accounts.iter().zip(found) {
            // After each act the account stands so until the next of its acts.
            let starts = std::iter::once(0).chain(account.sent.iter().map(|sent| sent.place + 1));
            let ends = account.sent.iter().map(|sent| sent.place + 1).chain([self.sent + 1]);
            for ((start, end), stands) in starts.zip(ends).zip(account.stands()) {
                if stands == *found {
                    agree[start..end].iter_mut().for_each(|agree| *agree += 1);
                }
            }
        }
        let point = (must..=self.sent).rev().find(|point| agree[*point] == self.accounts.len());
        match point {
            Some(point) => Ok(self.told(point)),
            None => Err(self.complain(found, until)),
        }
    }

    fn told(&self, point: usize) -> HistoryFigures {
        let all = || self.accounts.iter().flat_map(|account| &account.sent);
        let answered = all().filter(|sent| sent.answered.is_some()).count() as u64;
        let forgotten = || all().filter(|sent| sent.place >= point).filter_map(|sent| sent.answered);
        HistoryFigures {
            answered,
            unanswered: self.sent as u64 - answered,
            forgotten: forgotten().count() as u64,
            oldest: forgotten().min(),
        }
    }

    /// What is wrong, by the first account that cannot stand so, else that no one moment explains all.
    fn complain(&self, found: &[u64], until: Option<Instant>) -> String {
        for (account, found) in self.accounts.iter().zip(found) {
            let must = account.must(until);
            if !account.stands().skip(must).any(|stands| stands == *found) {
                let (least, most) = account.bounds(until);
                let once = if account.stands().any(|stands| stands == *found) { ", as it did before" } else { "" };
                return format!(
                    "{}: {found} used{once}; expected {least} to {most} after {} acts, of which {must} count for sure",
                    account.key,
                    account.sent.len()
                );
            }
        }
        format!("no one moment explains all {} keys of a connection, each of which could stand so", found.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const CAPACITY: Capacity = Capacity { overflow: OverflowRule::Whole, most: 5 };

    /// Two keys; the acts with the moments at which they were answered.
    fn history(acts: &[(usize, Act, Option<u64>)]) -> (History, Instant) {
        let start = Instant::now();
        let accounts = ["a", "b"].map(|key| Account::new(key.to_owned(), CAPACITY, 0)).to_vec();
        let mut history = History::of(accounts);
        for (account, act, answered) in acts {
            let number = history.send(*account, *act);
            if let Some(at) = answered {
                history.answer(*account, number, start + Duration::from_millis(*at));
            }
        }
        (history, start)
    }

    #[test]
    fn what_was_answered_is_there_and_what_was_sent_may_be() {
        let acts = [(0, Act::Charge(1), Some(1)), (0, Act::Charge(2), Some(2)), (0, Act::Charge(2), None)];
        let (history, _) = history(&acts);
        for (found, is_right) in [(0, false), (1, false), (3, true), (4, false), (5, true), (6, false)] {
            assert_eq!(history.judge(&[found, 0], None).is_ok(), is_right, "{found}");
        }
        let told = history.judge(&[3, 0], None).unwrap();
        assert_eq!((told.answered, told.unanswered, told.forgotten), (2, 1, 0));
    }

    #[test]
    fn what_does_not_fit_is_charged_as_the_mode_says() {
        for (overflow, after) in [(OverflowRule::Whole, 4), (OverflowRule::Part, 5), (OverflowRule::Anyway, 7)] {
            let capacity = Capacity { overflow, most: 5 };
            assert_eq!(capacity.after(4, Act::Charge(3)), after, "{overflow:?}");
        }
        assert_eq!(CAPACITY.after(4, Act::Refund(3)), 1);
        assert_eq!(CAPACITY.after(4, Act::Reset), 0);
    }

    #[test]
    fn a_reset_that_was_not_answered_may_have_happened() {
        let acts = [(0, Act::Charge(3), Some(1)), (0, Act::Reset, None), (0, Act::Charge(1), None)];
        let (history, _) = history(&acts);
        assert!(history.accounts[0].is_resetting());
        for (found, is_right) in [(0, true), (1, true), (2, false), (3, true)] {
            assert_eq!(history.judge(&[found, 0], None).is_ok(), is_right, "{found}");
        }
    }

    #[test]
    fn one_beginning_explains_all_keys() {
        // Were the second act forgotten, the third would be too.
        let acts = [(0, Act::Charge(1), None), (0, Act::Charge(1), None), (1, Act::Charge(1), None)];
        let (history, _) = history(&acts);
        for (found, is_right) in [([0, 0], true), ([1, 0], true), ([2, 0], true), ([2, 1], true), ([1, 1], false)] {
            assert_eq!(history.judge(&found, None).is_ok(), is_right, "{found:?}");
        }
        assert!(history.judge(&[1, 1], None).unwrap_err().contains("no one moment"));
    }

    #[test]
    fn a_loss_of_power_may_forget_what_was_answered_last() {
        let acts = [(0, Act::Charge(1), Some(10)), (0, Act::Charge(1), Some(20)), (1, Act::Charge(1), Some(30))];
        let (history, start) = history(&acts);
        let until = |millis| Some(start + Duration::from_millis(millis));
        assert!(history.judge(&[1, 0], until(20)).is_err());
        let told = history.judge(&[1, 0], until(15)).unwrap();
        assert_eq!((told.forgotten, told.oldest), (2, until(20)));
        assert!(history.judge(&[0, 0], until(15)).is_err());
        assert_eq!(history.judge(&[2, 1], until(15)).unwrap().oldest, None);
        // What came later is not there without what came before.
        assert!(history.judge(&[1, 1], until(15)).is_err());
    }
}
