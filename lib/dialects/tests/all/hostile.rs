//! No bytes make a dialect panic, and a call that was parsed can be run.

use tollgate_dialects::{Action, ApiCounterUsage, DIALECTS, Dialect, Output, RollingOptions};
use tollgate_kernel::{KeyState, Mode, Policy, Reader, Request, Timestamp, Writer};
use tollgate_random::Rng;

/// Calls that are wrong in some way, or nearly right.
struct HostileCalls(Rng);

impl HostileCalls {
    fn bytes(&mut self) -> Vec<u8> {
        (0..self.0.below(12)).map(|_| self.0.next_u64() as u8).collect()
    }

    /// Returns an argument that is mostly plausible, often a number at the end of a range.
    fn argument(&mut self) -> Vec<u8> {
        const NUMBERS: &[&str] = &[
            "0",
            "1",
            "2",
            "3",
            "10",
            "60",
            "1000",
            "10000",
            "-1",
            "-0",
            "0.5",
            "1e3",
            "1e-7",
            "1e308",
            "1.5",
            "9007199254740990",
            "9007199254740991",
            "9007199254740992",
            "9007199254740993",
            "18446744073709551615",
            "18446744073709551616",
            "-9223372036854775808",
            "9007199254",
            "10000000",
            "1700000000000000",
            "0.1",
            "333.3333333333333",
            "nan",
            "inf",
            "",
            " 1",
            "0x10",
            "99999999999999999999999999999999999999999999",
        ];
        match self.0.below(8) {
            0 => self.bytes(),
            1 => self.limits(),
            2 => self.0.next_u64().to_string().into_bytes(),
            _ => self.0.pick(NUMBERS).as_bytes().to_vec(),
        }
    }

    /// Returns an argument that is nearly always an integer, of any size.
    fn number(&mut self) -> Vec<u8> {
        if self.0.one_in(16) {
            self.argument()
        } else {
            (self.0.next_u64() >> (10 + self.0.index(54))).to_string().into_bytes()
        }
    }

    fn limits(&mut self) -> Vec<u8> {
        const NUMBERS: &[&str] = &[
            "0",
            "1",
            "2",
            "5",
            "60",
            "1.5",
            "0.1",
            "1e-3",
            "1e9",
            "9007199254740992",
            "-1",
            "3600",
            "1e300",
            "1.0001",
        ];
        let limits: Vec<String> = (0..1 + self.0.below(3))
            .map(|_| {
                let [a, b, c] = [0; 3].map(|_| self.0.pick(NUMBERS));
                match self.0.below(4) {
                    0 => format!(r#"{{"maxOcurrences":{a},"limitDuration":{b},"durationResolution":{c},"decay":{b}}}"#),
                    _ => format!("[{a},{b},{c}]"),
                }
            })
            .collect();
        let mut json = format!("[{}]", limits.join(",")).into_bytes();
        if self.0.one_in(6) {
            let at = self.0.index(json.len());
            json[at] = self.0.next_u64() as u8;
        }
        json
    }

    /// Returns arguments in the number and order of a valid call.
    fn shaped(&mut self, dialect: &Dialect) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        let mut keys = vec![self.bytes()];
        let usual = match dialect.name {
            "api_counter" => 1,
            "fixed_window" | "sliding_window" => 2,
            "token_bucket" | "cl.throttle" => 3,
            _ => 5,
        };
        let number = if self.0.one_in(4) { self.0.index(9) } else { usual };
        let mut args: Vec<Vec<u8>> = (0..number).map(|_| self.argument()).collect();
        match dialect.name {
            "slot_window" | "ar1" => {
                args = vec![self.argument(), self.bytes(), self.limits(), self.argument(), self.argument()];
            }
            "rolling" => {
                keys = (0..1 + self.0.below(3)).map(|_| self.bytes()).collect();
                args = (0..3 + 4 * keys.len()).map(|_| self.number()).collect();
                args[0] = self.0.index(4).to_string().into_bytes();
            }
            "api_counter" => keys = vec![[b"{api:", &self.bytes()[..], b"}"].concat()],
            _ => {}
        }
        (keys, args)
    }
}

/// The policy and state of a dialect, as stored in a data directory, read back equal for all limits and calls.
fn assert_written(policy: &Policy, state: &KeyState) {
    let mut to = Writer::default();
    policy.write(&mut to);
    state.write(&mut to);
    let words = to.into_bytes();
    let from = &mut Reader::new(&words);
    assert_eq!(Policy::read(from).as_ref(), Some(policy));
    assert_eq!(KeyState::read(from).as_ref(), Some(state));
    assert!(from.is_done());
}

#[test]
fn no_bytes_make_a_dialect_panic() {
    const TRIES: usize = 60_000;
    let mut calls = HostileCalls(Rng::new(1));
    for dialect in DIALECTS {
        let (mut state, mut usage, mut read, mut told) = (KeyState::default(), ApiCounterUsage::default(), 0, 0);
        let mut counts = [0, 0];
        for _ in 0..TRIES {
            let (keys, args) = calls.shaped(dialect);
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            match (dialect.parse)(&keys, &args) {
                Ok(call) => {
                    read += 1;
                    let home = Timestamp::saturating(calls.0.next_u64() >> calls.0.below(64));
                    for _ in 0..3 {
                        if let Ok(outcome) = call.run_with(&mut state, &mut usage, home)
                            && let Some(decision) = outcome.decision
                        {
                            let _ = (outcome.reply.to_string(), call.ttl(&decision, home));
                            // In uniform mode a reply does not tell that attempts came too soon after others.
                            let spaced = call.policy().limits().iter().any(|limit| limit.spacing().is_some());
                            let asks = |request: &Request| {
                                request.cost.get() > 0 && !(spaced && request.mode == Some(Mode::Uniform))
                            };
                            if matches!(call.action(), Action::Check(request) if asks(request)) {
                                let allows = (dialect.allows)(outcome.reply.values());
                                assert_eq!(
                                    allows, decision.allowed,
                                    "{}: {} {decision:?}",
                                    dialect.name, outcome.reply
                                );
                                let output = Output::from(outcome.reply.clone());
                                assert_eq!(output.values(), outcome.reply.values());
                                counts[usize::from(allows)] += 1;
                            }
                            told += 1;
                        }
                    }
                    assert_written(call.policy(), &state);
                }
                Err(error) => {
                    let message = error.to_string();
                    assert!(!message.ends_with('.') && !message.contains(['\r', '\n']), "{message}");
                    assert!(message.contains("expected"), "{message}");
                }
            }
        }
        // Enough of the calls got past the parser for the test to mean something.
        assert!(counts.iter().all(|count| *count > 10), "{}: {counts:?} refused and allowed", dialect.name);
        assert!(read > TRIES / 1_000 && told > read, "{}: {read} read, {told} told", dialect.name);
    }
}

#[test]
fn no_bytes_make_the_options_panic() {
    let mut rng = Rng::new(42);
    let good = br#"{"interval":1000,"maxInInterval":10,"minDifference":100,"buckets":1000,"limits":[{"interval":1}]}"#;
    for _ in 0..20_000 {
        let mut json = good.to_vec();
        for _ in 0..1 + rng.below(4) {
            let at = rng.index(json.len());
            json[at] = rng.next_u64() as u8;
        }
        let _ = RollingOptions::from_json(&json).map(|options| options.call(b"id", rng.next_u64(), Timestamp::MAX));
    }
}

#[test]
fn a_refused_call_changes_nothing() {
    let mut state = KeyState::default();
    let home = Timestamp::saturating(1_700_000_000_000_000);
    let slot_window = tollgate_dialects::find("slot_window").unwrap();
    let ask = |state: &mut KeyState, count: &str| {
        let args: [&[u8]; 4] = [count.as_bytes(), b"ns", b"[[5,10,1]]", b"1000"];
        (slot_window.parse)(&[b"k"], &args).and_then(|call| call.run(state, home))
    };
    ask(&mut state, "3").unwrap();
    let before = state.clone();
    assert!(ask(&mut state, "1.5").is_err());
    assert!(ask(&mut state, "9007199254740992").is_err());
    assert!(ask(&mut state, "9007199254740991").is_err());
    assert_eq!(state, before);
}
