//! Policy texts, parsed once. Callers choose texts and names, so both are kept within bounds: texts in two
//! generations, of which the older is forgotten when the younger is full; names up to a number.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};

use tollgate_core::{Policy, is_word};
use tollgate_memory::Prepared;

use crate::fault::{Fault, quoted};
use crate::metrics::PolicyCounts;

/// The texts of one generation.
const GENERATION: usize = 1_024;
/// The longest policy text, in bytes.
const LONGEST_TEXT: usize = 4_096;
/// The policy names that callers may bring, beside those the server was started with.
const MOST_NAMES: usize = 1_000;

/// A policy and what the server keeps beside it.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) policy: Policy,
    /// As the embedded store knows it, if that is the home.
    pub(crate) prepared: Option<Prepared>,
    pub(crate) counts: Arc<PolicyCounts>,
}

/// The policies a server knows.
#[derive(Default)]
pub(crate) struct Policies {
    listed: Vec<Policy>,
    texts: RwLock<Texts>,
}

#[derive(Default)]
struct Texts {
    young: HashMap<Box<[u8]>, Arc<Known>, foldhash::quality::RandomState>,
    old: HashMap<Box<[u8]>, Arc<Known>, foldhash::quality::RandomState>,
    names: HashSet<Box<str>>,
}

impl Policies {
    /// Policies that callers may ask for by name.
    pub(crate) fn new(listed: Vec<Policy>) -> Self {
        Self { listed, texts: RwLock::default() }
    }

    /// The policies that have names, in the order given.
    pub(crate) fn listed(&self) -> &[Policy] {
        &self.listed
    }

    /// The policy of this text or name; `make` is asked once while it is remembered.
    pub(crate) fn find(
        &self,
        text: &[u8],
        name: Option<&[u8]>,
        make: impl FnOnce(&Policy) -> Result<Known, Fault>,
    ) -> Result<Arc<Known>, Fault> {
        // No text has a zero byte, and no name either.
        let joined;
        let id = match name {
            None => text,
            Some(name) => {
                joined = [text, b"\0", name].concat();
                &joined
            }
        };
        {
            let texts = self.texts.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(known) = texts.young.get(id) {
                return Ok(Arc::clone(known));
            }
        }
        let mut texts = self.texts.write().unwrap_or_else(PoisonError::into_inner);
        let known = match texts.old.get(id) {
            Some(known) => Arc::clone(known),
            None => {
                let policy = self.read(text, name)?;
                let is_listed = self.listed.iter().any(|listed| listed.name() == policy.name());
                if !policy.name().is_empty() && !is_listed && !texts.names.contains(policy.name()) {
                    if texts.names.len() >= MOST_NAMES {
                        let text = format!(
                            "NAME: expected at most {MOST_NAMES} different names; callers should not choose them"
                        );
                        return Err(Fault::wrong(text));
                    }
                    texts.names.insert(policy.name().into());
                }
                Arc::new(make(&policy)?)
            }
        };
        if texts.young.len() >= GENERATION {
            texts.old = std::mem::take(&mut texts.young);
        }
        texts.young.insert(id.into(), Arc::clone(&known));
        Ok(known)
    }

    fn read(&self, text: &[u8], name: Option<&[u8]>) -> Result<Policy, Fault> {
        let policy = self.text(text)?;
        let Some(name) = name else { return Ok(policy) };
        let word = std::str::from_utf8(name).ok().filter(|name| is_word(name));
        let named = word.and_then(|name| policy.with_name(name).ok());
        named.ok_or_else(|| Fault::expected("NAME", "1 to 64 letters, digits, - and _", name))
    }

    fn text(&self, text: &[u8]) -> Result<Policy, Fault> {
        if text.len() > LONGEST_TEXT {
            return Err(Fault::wrong(format!("policy: expected at most {LONGEST_TEXT} bytes, found {}", text.len())));
        }
        let text = std::str::from_utf8(text).map_err(|_| Fault::expected("policy", "text in UTF-8", text))?;
        // Every text has a slash, and no name has one.
        if !text.contains('/') && is_word(text) {
            let listed = self.listed.iter().find(|listed| listed.name() == text);
            return listed.cloned().ok_or_else(|| self.unknown(text));
        }
        text.parse().map_err(|error| Fault::wrong(format!("policy: {error}")))
    }

    fn unknown(&self, name: &str) -> Fault {
        let names: Vec<&str> = self.listed.iter().map(Policy::name).collect();
        let names = if names.is_empty() { "no policy here has a name".to_owned() } else { names.join(", ") };
        let found = quoted(name.as_bytes());
        Fault::wrong(format!("policy: expected a policy such as \"100/min\", or a name ({names}), found {found}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(policies: &Policies, text: &str, name: Option<&str>) -> Result<Arc<Known>, Fault> {
        policies.find(text.as_bytes(), name.map(str::as_bytes), |policy| {
            Ok(Known { policy: policy.clone(), prepared: None, counts: Arc::default() })
        })
    }

    #[test]
    fn a_text_is_parsed_once_and_forgotten_when_others_push_it_out() {
        let policies = Policies::default();
        let first = find(&policies, "100/min", None).unwrap();
        assert!(Arc::ptr_eq(&first, &find(&policies, "100/min", None).unwrap()));
        for count in 1..=GENERATION {
            find(&policies, &format!("{count}/s"), None).unwrap();
        }
        // In the older generation, from where it comes back.
        assert!(Arc::ptr_eq(&first, &find(&policies, "100/min", None).unwrap()));
        for count in 1..=2 * GENERATION {
            find(&policies, &format!("{count}/h"), None).unwrap();
        }
        assert!(!Arc::ptr_eq(&first, &find(&policies, "100/min", None).unwrap()));
        let texts = policies.texts.read().unwrap();
        assert!(texts.young.len() <= GENERATION && texts.old.len() <= GENERATION);
    }

    #[test]
    fn names_are_those_of_the_server_or_few() {
        let login: Policy = "5/min".parse().unwrap();
        let policies = Policies::new(vec![login.with_name("login").unwrap()]);
        assert_eq!(find(&policies, "login", None).unwrap().policy.name(), "login");
        for number in 0..MOST_NAMES {
            find(&policies, "1/s", Some(&format!("n{number}"))).unwrap();
        }
        assert!(find(&policies, "1/s", Some("one-more")).unwrap_err().text.contains("at most 1000"));
        find(&policies, "9/min", Some("login")).unwrap();
        find(&policies, "2/s", Some("n7")).unwrap();
    }

    #[test]
    fn wrong_policies_say_what_was_expected() {
        let policies = Policies::default();
        for (text, name, said) in [
            ("5/parsec", None, "policy: column 3: expected a unit"),
            ("login", None, "or a name (no policy here has a name), found \"login\""),
            ("1/s", Some("a b"), "NAME: expected 1 to 64 letters"),
            ("", None, "policy: column 1"),
        ] {
            let error = find(&policies, text, name).unwrap_err();
            assert!(error.text.contains(said), "{error}");
        }
        assert!(find(&policies, &"1/s,".repeat(2_000), None).unwrap_err().text.contains("at most 4096 bytes"));
    }
}
