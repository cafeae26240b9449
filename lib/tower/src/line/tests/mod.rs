//! The laws of the line, on a clock that the tests move. No test sleeps.
//!
//! | file | what it is |
//! |---|---|
//! | `crowd.rs` | many requests, run until none of them can continue |
//! | `scene.rs` | a gate, a line and a crowd on one clock, and the result of each request |
//! | `pace.rs` | 10,000 waiters of one key: in order and evenly; half of them cancelled |
//! | `keys.rs` | many keys: none waits for another; a full line |
//! | `deadline.rs` | deadlines, to the microsecond |
//! | `cancel.rs` | requests that are dropped, wherever they were |
//! | `slow.rs` | answers that take time: deadlines behind the head, races with new requests, errors, panics |
//! | `memory.rs` | bytes, allocations, timers and wakes |
//! | `random.rs`, `model.rs` | random joins, cancels and clock moves against a simple model |
//! | `races.rs` | random answers that take time; many threads |
//! | `runtime.rs` | under the runtime's own timer |

mod cancel;
mod crowd;
mod deadline;
mod keys;
mod memory;
mod model;
mod pace;
mod races;
mod random;
mod runtime;
mod scene;
mod slow;
