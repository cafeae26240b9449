//! Every home through the same vectors.
//!
//! A vector file (`vectors/README.md`) is scenarios of operations with what must be answered. A
//! [`Home`] answers them, the [`Adapter`] speaks the line protocol for it, and the player judges
//! the answers. The program `vectors` is the adapter on standard input and output.
//!
//! | file | what it is |
//! |---|---|
//! | `line.rs` | the lines of a vector file |
//! | `home.rs` | the seam: who answers, and the registry of homes |
//! | `limiters/` | how each limiter of the vectors is called and its reply understood |
//! | `kernel.rs` | the home in this process |
//! | `adapter.rs` | the line protocol |
//! | `judge.rs`, `player.rs` | whether an answer is right; a whole file |

mod adapter;
mod home;
mod judge;
mod kernel;
mod limiters;
mod line;
mod player;

pub use adapter::Adapter;
pub use home::{Answer, HOMES, Home, Listed, Refusal, home};
pub use judge::{Verdict, judge};
pub use kernel::Kernel;
pub use limiters::{Command, Direct, LIMITERS, Limiter, Look, Spoken};
pub use line::{Line, Operation, Scenario, Unit};
pub use player::{BadVectors, Tally, play};
