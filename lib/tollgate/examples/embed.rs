//! A gate in sixty seconds: check, the wait, peek, refund, reset.
//!
//! `cargo run --example embed`. Its clock is set by hand, so that it prints the same every time and
//! takes no time; `Gate::memory("3/min")` would decide by the process's own clock.

use tollgate::{Gate, ManualClock, Micros, Wait};

fn main() -> Result<(), tollgate::Error> {
    let clock = ManualClock::default();
    let gate = Gate::builder().policy("3/min").clock(clock.clone()).build()?;

    println!("3/min, a request every 10 seconds");
    let mut last = gate.check("user:42")?;
    println!("  check   {}", answer(&last));
    for _ in 0..3 {
        clock.advance(Micros::from_secs(10));
        last = gate.check("user:42")?;
        println!("  check   {}", answer(&last));
    }
    assert!(!last.allowed);

    // The wait is exact: refused a microsecond before it is over, allowed when it is.
    if let Wait::After(wait) = last.retry_after {
        clock.advance(Micros::new(wait.get() - 1));
        assert!(!gate.peek("user:42")?.allowed);
        clock.advance(Micros::new(1));
    }
    println!("after exactly that wait");
    println!("  peek    {} (nothing charged)", answer(&gate.peek("user:42")?));
    let charged = gate.check("user:42")?;
    println!("  check   {}", answer(&charged));

    // What came of it was no use: the answer was in a cache, the request failed elsewhere.
    let back = gate.refund("user:42", charged.granted, charged.at)?;
    println!("  refund  {back} unit given back");
    println!("  check   {}", answer(&gate.check("user:42")?));

    println!("cost 5 of 3, and a pardon");
    println!("  check   {}", answer(&gate.ask("user:42").cost(5).check()?));
    gate.reset("user:42")?;
    println!("  reset");
    println!("  check   {}", answer(&gate.ask("user:42").cost(3).check()?));
    Ok(())
}

fn answer(decision: &tollgate::Decision) -> String {
    if decision.allowed {
        format!("allowed, {} left", decision.remaining)
    } else {
        format!("refused, retry after {}", decision.retry_after)
    }
}
