//! State belongs to policy name, key and limit: a changed count keeps what was consumed, a limit that comes or
//! goes leaves the others alone, and nothing is ever refilled by a change.

use tollgate_kernel::{KeyState, Micros, Policy, Request, Timestamp};

use crate::config::support::{ConfigTestServer, START, start};

/// Every algorithm, as 100 and as 200; a burst is all that fits at once.
const ALGORITHMS: [(&str, &str); 10] = [
    ("100/min", "200/min"),
    ("100/min grain=1s", "200/min grain=1s"),
    ("100/min gcra", "200/min gcra"),
    ("100/min fixed", "200/min fixed"),
    ("100/min fixed align=clock", "200/min fixed align=clock"),
    ("100/min bucket burst=95", "200/min bucket burst=195"),
    ("100/min slots resolution=10s", "200/min slots resolution=10s"),
    ("100/min estimate", "200/min estimate"),
    ("100/min decay factor=2", "200/min decay factor=2"),
    ("100/min name=own", "200/min name=own"),
];

fn yaml(limit: &str) -> String {
    format!("policies:\n  api: \"{limit}\"\n  other: 7/min\n")
}

#[test]
fn from_100_to_200_and_back_every_algorithm_keeps_what_was_consumed() {
    for (number, (hundred, two_hundred)) in ALGORITHMS.into_iter().enumerate() {
        let tested = start(&format!("identity-{number}"), &yaml(hundred));
        let mut client = tested.client();
        // Allowed, granted, remaining, as each reply tells.
        let mut spend = |cost: &str, text: &str| {
            let told = client.ask(&["TG.CHECK", "user:42", "api", "COST", cost]);
            let full = client.ask(&["TG.PEEK", "user:42", "api", "FULL"]);
            assert_eq!(full[2], told[2], "{text}: a look tells the same");
            (told[0], told[2])
        };
        assert_eq!(spend("40", hundred), (1, 60), "{hundred}");
        tested.change(&yaml(two_hundred));
        assert_eq!(spend("0", two_hundred), (1, 160), "{two_hundred}: nothing was refilled or lost");
        assert_eq!(spend("30", two_hundred), (1, 130), "{two_hundred}");
        tested.change(&yaml(hundred));
        assert_eq!(spend("0", hundred), (1, 30), "{hundred}");
        assert_eq!(spend("20", hundred), (1, 10), "{hundred}");
        assert_eq!(spend("11", hundred), (0, 10), "{hundred}: no more than is left");
        tested.change(&yaml(two_hundred));
        assert_eq!(spend("60", two_hundred), (1, 50), "{two_hundred}");
        // More is consumed now than the lower limit allows at all.
        tested.change(&yaml(hundred));
        assert_eq!(spend("1", hundred).0, 0, "{hundred}");
        tested.change(&yaml(two_hundred));
        assert_eq!(spend("0", two_hundred), (1, 50), "{two_hundred}");
        assert_eq!(tested.server.generation(), 6);
        assert_eq!(client.ask(&["TG.CHECK", "user:42", "other"])[2], 6);
        tested.server.stop();
    }
}

#[test]
fn over_time_a_changed_policy_decides_as_the_kernel_does() {
    // Time passes between changes here, so that what comes back by itself comes back, and no more.
    for (number, (hundred, two_hundred)) in ALGORITHMS.into_iter().enumerate() {
        let tested = start(&format!("over-time-{number}"), &yaml(hundred));
        let policies: [Policy; 2] = [hundred, two_hundred].map(|text| text.parse().unwrap());
        let (mut state, mut client, mut now) = (KeyState::default(), tested.client(), START);
        for step in 0..40u64 {
            let place = (step / 2 % 2) as usize;
            if step % 2 == 0 {
                tested.change(&yaml([hundred, two_hundred][place]));
            }
            now += [0, 1, 700_000, 12_345_678][(step % 4) as usize];
            tested.clock.set(Timestamp::new(now).unwrap());
            let cost = [40, 7, 1, 90][(step % 4) as usize];
            let asked = Request::cost(tollgate_kernel::Cost::new(cost).unwrap());
            let expected = state.decide(&policies[place], Timestamp::new(now).unwrap(), &asked);
            let found = client.ask(&["TG.CHECK", "user:42", "api", "COST", &cost.to_string()]);
            assert_eq!(found, expected.flat(), "{} step {step}", policies[place]);
        }
        tested.server.stop();
    }
}

/// What is left of each limit.
fn left(tested: &ConfigTestServer) -> Vec<i64> {
    let told = tested.client().ask(&["TG.PEEK", "user:42", "api", "FULL"]);
    told[9..].chunks(5).map(|limit| limit[1]).collect()
}

#[test]
fn a_limit_that_comes_and_goes_leaves_the_others_alone() {
    for (number, (hundred, _)) in ALGORITHMS.into_iter().enumerate() {
        let tested = start(&format!("added-{number}"), &yaml(hundred));
        let mut client = tested.client();
        let mut spend = |cost: &str| {
            assert_eq!(client.ask(&["TG.CHECK", "user:42", "api", "COST", cost])[0], 1, "{hundred}");
        };
        spend("40");
        // A grain is one for all limits of a policy.
        let grain = if hundred.contains("grain") { " grain=1s" } else { "" };
        let both = yaml(&format!("{hundred}, 500/h{grain}"));
        tested.change(&both);
        assert_eq!(left(&tested)[0], 60, "{hundred}");
        spend("10");
        let second = left(&tested)[1];
        assert_eq!(left(&tested)[0], 50, "{hundred}");
        tested.change(&yaml(hundred));
        assert_eq!(left(&tested), [50], "{hundred}");
        spend("10");
        tested.change(&both);
        // What it had counted it still has, and it counted nothing while it was gone.
        assert_eq!((left(&tested), second), (vec![40, 490], 490), "{hundred}");
        // The other way round: the limit that was first goes.
        tested.change(&yaml(&format!("500/h{grain}")));
        tested.change(&both);
        assert_eq!(left(&tested)[0], 40, "{hundred}");
        tested.clock.advance(Micros::from_secs(7_200));
        assert_eq!(left(&tested), [100, 500], "{hundred}: as new in its own time");
        tested.server.stop();
    }
}
