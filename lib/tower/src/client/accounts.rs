//! The accounts of all keys, limited in number.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tollgate_kernel::Timestamp;

use super::account::{Account, ObeyArrival, WaitLimits};

/// When the table is full of holds that have not ended, one part in this many is removed at once, so that searching
/// for those that end first costs little for each request.
const PART: usize = 16;

#[derive(Debug, Default)]
pub(super) struct AccountTable {
    accounts: Mutex<HashMap<Box<str>, Arc<Account>>>,
}

impl AccountTable {
    /// Enters a request under this key. If the table is full, accounts whose hold has ended are removed, then those
    /// whose hold ends first; never one with requests in flight or waiting. If all have such requests, a new
    /// account is not kept.
    pub(super) fn enter(
        &self,
        key: &str,
        most: usize,
        limits: WaitLimits,
        now: Timestamp,
    ) -> (Arc<Account>, ObeyArrival) {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(account) = accounts.get(key) {
            return (Arc::clone(account), account.enter(limits, now));
        }
        if accounts.len() >= most {
            forget(&mut accounts, most, now);
        }
        let account = Arc::new(Account::default());
        if accounts.len() < most {
            accounts.insert(key.into(), Arc::clone(&account));
        }
        let entered = account.enter(limits, now);
        (account, entered)
    }

    /// Returns how many accounts are kept.
    pub(super) fn len(&self) -> usize {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

fn forget(accounts: &mut HashMap<Box<str>, Arc<Account>>, most: usize, now: Timestamp) {
    accounts.retain(|_, account| account.is_busy() || account.ends().is_some_and(|ends| ends > now));
    if accounts.len() < most {
        return;
    }
    let idle = accounts.values().filter(|account| !account.is_busy());
    let mut ends: Vec<Timestamp> = idle.filter_map(|account| account.ends()).collect();
    let part = most.div_ceil(PART).min(ends.len());
    if part == 0 {
        return;
    }
    let last = *ends.select_nth_unstable(part - 1).1;
    let mut left = part;
    accounts.retain(|_, account| {
        let goes = left > 0 && !account.is_busy() && account.ends().is_some_and(|ends| ends <= last);
        left -= usize::from(goes);
        !goes
    });
}
