//! Checking a known key allocates nothing.

use allocation_counter::measure;
use tollgate::{Gate, ManualClock, Micros};

#[test]
fn a_known_key_is_checked_without_allocating() {
    for text in
        ["10/s gcra", "10/s fixed", "10/s estimate", "10/s decay factor=2", "10/s", "3/s, 1000/min, 100k/h gcra"]
    {
        let clock = ManualClock::default();
        let gate = Gate::builder().policy(text).clock(clock.clone()).build().unwrap();
        let keys = ["a", "b", "c", "d"];
        let mut decisions = Vec::with_capacity(keys.len());
        let mut check = || {
            let mut allowed = 0;
            for _ in 0..40 {
                allowed += u32::from(gate.check("a").unwrap().allowed);
                gate.check_many_into(&keys, &mut decisions).unwrap();
                clock.advance(Micros::from_millis(50));
            }
            allowed
        };
        // Logs have grown to what their limits need.
        (0..200).for_each(|_| assert!(check() < 40));
        let mut refused = 0;
        let counted = measure(|| refused = 40 - check());
        assert_eq!(counted.count_total, 0, "{text}: {counted:?}");
        assert!(refused > 0 && refused < 40, "{text}: both answers");
    }
}
