//! A short campaign, a tenth of `cargo xtask campaign`.

use tollgate_conformance::campaign::{Plan, run};

#[test]
fn eight_threads_keep_every_promise() {
    let plan = Plan { seed: 1, seeds: 200, operations: 10_000_000 };
    let mut told = 0;
    let summary = run(&plan, |_| told += 1);
    println!("{summary}");
    assert!(summary.is_clean(), "{summary}");
    assert_eq!(told, plan.seeds);
    assert!(summary.operations() >= plan.operations, "as many as were asked for, and what ends a batch");
    assert!(summary.operations() < 2 * plan.operations);
    // Every algorithm, by both clocks, with some together that fit and some that do not.
    for line in &summary.lines {
        assert_eq!(line.seeds, 25, "{}", line.algorithm);
        assert!(line.admitted > 1_000, "{}: {} units admitted", line.algorithm, line.admitted);
        assert!(line.advanced.is_some() && line.own.alone > 0, "{}", line.algorithm);
        assert!(line.together.1 > 0 && line.together.1 < line.together.0, "{}: {:?}", line.algorithm, line.together);
    }
}
