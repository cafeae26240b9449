//! The policies a server knows: those of its configuration, by name, and texts that callers bring, parsed once.
//!
//! Names are looked up in the generation in use, so a request that comes after a reload sees the new one. Callers
//! choose texts and names, so what is stored of them is bounded: in two halves, of which the older is dropped when the
//! younger is full. A policy that a caller brings never reaches the state of a policy of the server: its keys are
//! separate, even under the same name.
//!
//! | file | what it is |
//! |---|---|
//! | `generation.rs` | the policies of the server's configuration, valid and ready to be used, under a number |
//! | `rules/` | what a policy has beside its limits: lists, bans, overrides, a candidate |

mod generation;
mod rules;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use arc_swap::{ArcSwap, Guard};
use tollgate_kernel::{Policy, is_word};

pub use generation::{EnginePolicy, GenerationError, PolicyGeneration};
pub use rules::Flips;
pub(crate) use rules::{BESIDE, BanCapacityError, BanRecord, BanRule, Bans, OverrideRule, PolicyRules};
use tollgate_keyspace::{Fault, quoted};

/// The most texts of one half.
const HALF: usize = 1_024;
/// The most limits of all texts of one half: a limit takes some hundred bytes.
const MAX_LIMITS_OF_HALF: usize = 4_096;
/// The longest policy text, in bytes.
const MAX_TEXT: usize = 4_096;
/// The most names that an error lists.
const MAX_LISTED: usize = 10;

/// The policies a server knows.
#[derive(Default)]
pub struct PolicyRegistry {
    generation: ArcSwap<PolicyGeneration>,
    /// The number of the generation in use, which is quicker to read.
    number: AtomicU64,
    texts: RwLock<TextCache>,
}

#[derive(Default)]
struct TextCache {
    young: HashMap<Box<[u8]>, Arc<EnginePolicy>, foldhash::quality::RandomState>,
    old: HashMap<Box<[u8]>, Arc<EnginePolicy>, foldhash::quality::RandomState>,
    /// The limits of the younger half.
    limits: usize,
}

impl PolicyRegistry {
    /// Returns the generation in use.
    pub(super) fn load(&self) -> Guard<Arc<PolicyGeneration>> {
        self.generation.load()
    }

    /// Makes requests use another generation from now on.
    pub(super) fn put(&self, next: PolicyGeneration) {
        let number = next.number;
        self.generation.store(Arc::new(next));
        self.number.store(number, Ordering::Release);
    }

    /// Returns whether a policy is what its name or text means now.
    #[inline]
    pub fn is_current(&self, known: &EnginePolicy) -> bool {
        known.generation == 0 || known.generation == self.number.load(Ordering::Acquire)
    }

    /// Returns the policy of this text, or of this name in a generation; `make` is called once while a text is
    /// remembered.
    pub(super) fn find(
        &self,
        generation: &PolicyGeneration,
        text: &[u8],
        name: Option<&[u8]>,
        make: impl FnOnce(Policy) -> Result<EnginePolicy, Fault>,
    ) -> Result<Arc<EnginePolicy>, Fault> {
        // Every text contains a slash, and no name does.
        if text.contains(&b'/') {
            let filed = name.and_then(|name| std::str::from_utf8(name).ok()).and_then(|name| generation.find(name));
            if let Some(known) = filed {
                let requested = parse_policy(text, name)?;
                if known.rules.is_none()
                    && known.policy.limits() == requested.limits()
                    && known.policy.mode() == requested.mode()
                {
                    return Ok(Arc::clone(known));
                }
                let name = known.policy.name();
                return Err(Fault::wrong(format!(
                    "NAME: expected a name that no policy of the server has, found {name}; ask for {name} itself, or bring \
                     the text under another name"
                )));
            }
            return self.cached(&id(text, name), || parse_policy(text, name), make);
        }
        let Some(word) = std::str::from_utf8(text).ok().filter(|text| is_word(text)) else {
            return self.cached(&id(text, name), || parse_policy(text, name), make);
        };
        let known = generation.find(word).ok_or_else(|| unknown(word, generation))?;
        let Some(name) = name.filter(|name| *name != text) else { return Ok(Arc::clone(known)) };
        if known.rules.is_some() {
            let text =
                format!("NAME: expected none beside {word}, whose lists, overrides or bans are under its own name");
            return Err(Fault::wrong(text));
        }
        // It belongs to this generation alone.
        let id = [text, b"\0", name, b"\0", &generation.number.to_le_bytes()].concat();
        self.cached(
            &id,
            || apart(known.policy.clone(), name, generation),
            |policy| Ok(EnginePolicy { generation: generation.number, ..make(policy)? }),
        )
    }

    fn cached(
        &self,
        id: &[u8],
        read: impl FnOnce() -> Result<Policy, Fault>,
        make: impl FnOnce(Policy) -> Result<EnginePolicy, Fault>,
    ) -> Result<Arc<EnginePolicy>, Fault> {
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
                let policy = read()?;
                Arc::new(make(policy)?)
            }
        };
        let limits = known.policy.limits().len();
        if texts.young.len() >= HALF || texts.limits + limits > MAX_LIMITS_OF_HALF {
            texts.old = std::mem::take(&mut texts.young);
            texts.limits = 0;
        }
        texts.limits += limits;
        texts.young.insert(id.into(), Arc::clone(&known));
        Ok(known)
    }
}

/// Returns the key under which a text is remembered. Neither texts nor names contain a zero byte.
fn id<'a>(text: &'a [u8], name: Option<&[u8]>) -> std::borrow::Cow<'a, [u8]> {
    match name {
        None => text.into(),
        Some(name) => [text, b"\0", name].concat().into(),
    }
}

fn parse_policy(text: &[u8], name: Option<&[u8]>) -> Result<Policy, Fault> {
    if text.len() > MAX_TEXT {
        return Err(Fault::wrong(format!("policy: expected at most {MAX_TEXT} bytes, found {}", text.len())));
    }
    let text = std::str::from_utf8(text).map_err(|_| Fault::expected("policy", "text in UTF-8", text))?;
    let policy: Policy = text.parse().map_err(|error| Fault::wrong(format!("policy: {error}")))?;
    match name {
        None => Ok(policy),
        Some(name) => named(policy, name),
    }
}

/// Returns a policy of the server under a name that a caller chose, which no other policy of the server may have.
fn apart(policy: Policy, name: &[u8], generation: &PolicyGeneration) -> Result<Policy, Fault> {
    let named = named(policy, name)?;
    match generation.find(named.name()) {
        None => Ok(named),
        Some(_) => Err(Fault::expected("NAME", "a name that no policy of the server has", name)),
    }
}

fn named(policy: Policy, name: &[u8]) -> Result<Policy, Fault> {
    let word = std::str::from_utf8(name).ok().filter(|name| is_word(name));
    if word.is_some_and(|word| word.contains(BESIDE)) {
        let expected = format!("a name without {BESIDE}, which is for what the server files beside a policy");
        return Err(Fault::expected("NAME", &expected, name));
    }
    let named = word.and_then(|name| policy.with_name(name).ok());
    named.ok_or_else(|| Fault::expected("NAME", "1 to 64 letters, digits, - and _", name))
}

fn unknown(name: &str, generation: &PolicyGeneration) -> Fault {
    let mut names: Vec<String> =
        generation.listed.iter().take(MAX_LISTED).map(|known| known.policy.name().to_owned()).collect();
    if let Some(more) = generation.listed.len().checked_sub(MAX_LISTED).filter(|more| *more > 0) {
        names.push(format!("and {more} more"));
    }
    let names = if names.is_empty() { "no policy here has a name".to_owned() } else { names.join(", ") };
    let found = quoted(name.as_bytes());
    Fault::wrong(format!("policy: expected a policy such as \"100/min\", or a name ({names}), found {found}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::PolicyOwner;
    use crate::home::Home;
    use tollgate_memory::{MIN_CAP, Memory};

    struct RegistryFixture {
        policies: PolicyRegistry,
        home: Home,
    }

    fn tested(listed: &[(&str, &str)]) -> RegistryFixture {
        let home = Home::embedded(Memory::new(MIN_CAP), Box::new(tollgate_memory::MonotonicClock::new()));
        let named = |(name, text): &(&str, &str)| text.parse::<Policy>().unwrap().with_name(name).unwrap();
        let given: Vec<Policy> = listed.iter().map(named).collect();
        let policies = PolicyRegistry::default();
        policies.put(
            PolicyGeneration::new(
                1,
                &given,
                Default::default(),
                &PolicyGeneration::default(),
                &home,
                &Default::default(),
            )
            .unwrap(),
        );
        RegistryFixture { policies, home }
    }

    impl RegistryFixture {
        fn find(&self, text: &str, name: Option<&str>) -> Result<Arc<EnginePolicy>, Fault> {
            let make = |policy| Ok(EnginePolicy::new(policy, &self.home, PolicyOwner::Callers)?);
            self.policies.find(&self.policies.load(), text.as_bytes(), name.map(str::as_bytes), make)
        }
    }

    #[test]
    fn a_text_is_parsed_once_and_forgotten_when_others_push_it_out() {
        let tested = tested(&[]);
        let first = tested.find("100/min", None).unwrap();
        assert!(Arc::ptr_eq(&first, &tested.find("100/min", None).unwrap()));
        for count in 1..=HALF {
            tested.find(&format!("{count}/s"), None).unwrap();
        }
        // It is in the older half, from which it is taken back.
        assert!(Arc::ptr_eq(&first, &tested.find("100/min", None).unwrap()));
        for count in 1..=2 * HALF {
            tested.find(&format!("{count}/h"), None).unwrap();
        }
        assert!(!Arc::ptr_eq(&first, &tested.find("100/min", None).unwrap()));
        let texts = tested.policies.texts.read().unwrap();
        assert!(texts.young.len() <= HALF && texts.old.len() <= HALF);
    }

    #[test]
    fn a_text_cannot_be_brought_under_the_name_of_a_policy_of_the_server() {
        let tested = tested(&[("login", "5/min"), ("api", "9/s")]);
        let login = tested.find("login", None).unwrap();
        assert!(
            Arc::ptr_eq(&login, &tested.find("5/min", Some("login")).unwrap()),
            "the same limits are the policy itself"
        );
        for (text, name) in [("9/min", "login"), ("1/s gcra", "login"), ("login", "api")] {
            let said = tested.find(text, Some(name)).unwrap_err().text;
            assert!(said.contains("expected a name that no policy of the server has"), "{said}");
        }
        // Any number of other names is possible.
        (0..20_000).for_each(|number| _ = tested.find("1/s", Some(&format!("n{number}"))).unwrap());
    }

    #[test]
    fn texts_of_many_limits_are_remembered_for_less_long() {
        let tested = tested(&[]);
        let text = |number: usize| (1..=32).map(|limit| format!("{number}/{limit}h")).collect::<Vec<_>>().join(", ");
        (1..=HALF).for_each(|number| _ = tested.find(&text(number), None).unwrap());
        let texts = tested.policies.texts.read().unwrap();
        let limits = |half: &HashMap<_, Arc<EnginePolicy>, _>| {
            half.values().map(|known| known.policy.limits().len()).sum::<usize>()
        };
        assert!(limits(&texts.young) <= MAX_LIMITS_OF_HALF && limits(&texts.old) <= MAX_LIMITS_OF_HALF);
    }

    #[test]
    fn a_name_under_another_name_is_of_its_generation() {
        let tested = tested(&[("login", "5/min")]);
        let first = tested.find("login", Some("other")).unwrap();
        assert_eq!((first.policy.name(), first.policy.to_string().as_str()), ("other", "5/min"));
        assert!(Arc::ptr_eq(&first, &tested.find("login", Some("other")).unwrap()));
        assert!(Arc::ptr_eq(&tested.find("login", None).unwrap(), &tested.find("login", Some("login")).unwrap()));
        let given = "7/min".parse::<Policy>().unwrap().with_name("login").unwrap();
        let next = PolicyGeneration::new(
            2,
            &[given],
            Default::default(),
            &PolicyGeneration::default(),
            &tested.home,
            &Default::default(),
        )
        .unwrap();
        tested.policies.put(next);
        assert!(!tested.policies.is_current(&first));
        let second = tested.find("login", Some("other")).unwrap();
        assert_eq!((second.policy.to_string().as_str(), second.generation), ("7/min", 2));
    }

    #[test]
    fn wrong_policies_say_what_was_expected() {
        let some = tested(&[]);
        for (text, name, said) in [
            ("5/parsec", None, "policy: column 3: expected a unit"),
            ("login", None, "or a name (no policy here has a name), found \"login\""),
            ("1/s", Some("a b"), "NAME: expected 1 to 64 letters"),
            ("1/s", Some("login--refusals"), "NAME: expected a name without --"),
            ("", None, "policy: column 1"),
        ] {
            let error = some.find(text, name).unwrap_err();
            assert!(error.text.contains(said), "{error}");
        }
        assert!(some.find(&"1/s,".repeat(2_000), None).unwrap_err().text.contains("at most 4096 bytes"));
        let names: Vec<String> = (0..12).map(|number| format!("p{number}")).collect();
        let names: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "1/s")).collect();
        let said = tested(&names).find("q", None).unwrap_err().text;
        assert!(said.contains("(p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, and 2 more), found \"q\""), "{said}");
    }
}
