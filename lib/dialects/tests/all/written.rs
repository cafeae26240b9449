//! Each dialect's policies and the states of its keys as words, one example each; `hostile.rs` tries random ones.

use tollgate_dialects::{DIALECTS, find};
use tollgate_kernel::{KeyState, Micros, Policy, Reader, Timestamp, Writer};

const START: u64 = 1_700_000_000_000_000;

/// A call of every dialect, several with limits that policy text cannot express.
const CALLS: [(&str, &[&str], &[&str]); 10] = [
    ("sliding_window", &["k"], &["3600000", "100", "60000", "10"]),
    ("sliding_window", &["k"], &["60000", "9007199254740992", "60000", "3", "0.5"]),
    ("fixed_window", &["k"], &["10", "60"]),
    ("token_bucket", &["k"], &["15", "60", "3"]),
    ("slot_window", &["k"], &["1", "ns", "[[5,3600,600],[7,1000,0.001]]", "NOW"]),
    ("ar1", &["k"], &["1", "ns", "[[2.5,1.25,10],[100,2,60]]", "NOW"]),
    ("rolling", &["0:id", "1:id"], &["1", "1", "NOW", "0", "30", "5", "9", "333.5", "14.25", "2", "4"]),
    ("rolling", &["0:id"], &["0", "3", "NOW", "2000", "5", "100", "10000"]),
    ("api_counter", &["{api:token}"], &["5"]),
    ("cl.throttle", &["k"], &["15", "30", "60", "1"]),
];

fn read_back(policy: &Policy, state: &KeyState) -> (Option<Policy>, Option<KeyState>) {
    let mut to = Writer::default();
    policy.write(&mut to);
    state.write(&mut to);
    let words = to.into_bytes();
    let from = &mut Reader::new(&words);
    (Policy::read(from), KeyState::read(from))
}

#[test]
fn every_dialects_policies_and_states_read_back_equal() {
    for dialect in DIALECTS {
        assert!(CALLS.iter().any(|(name, ..)| *name == dialect.name), "{} is tried", dialect.name);
    }
    for (name, keys, args) in CALLS {
        let (mut state, mut charged) = (KeyState::default(), 0);
        for step in 0..40 {
            let home = Timestamp::new(START).unwrap().plus(Micros::new(step * 300_000));
            // The slotted dialects count in seconds.
            let unit = if name == "rolling" { 1 } else { 1_000_000 };
            let now = (home.get() / unit).to_string();
            let args: Vec<&[u8]> =
                args.iter().map(|arg| if *arg == "NOW" { now.as_bytes() } else { arg.as_bytes() }).collect();
            let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
            let call = (find(name).unwrap().parse)(&keys, &args).unwrap();
            let outcome = call.run_with(&mut state, &mut Default::default(), home).unwrap();
            charged += outcome.decision.unwrap().charged;
            let (policy, read) = read_back(call.policy(), &state);
            assert_eq!(policy.as_ref(), Some(call.policy()), "{name}");
            let mut read = read.unwrap();
            assert_eq!(read, state, "{name}");
            assert_eq!(call.run(&mut read, home).unwrap(), call.run(&mut state.clone(), home).unwrap(), "{name}");
        }
        assert!(charged > 1, "{name} charged {charged}");
    }
}
