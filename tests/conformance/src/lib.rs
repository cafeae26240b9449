//! Every home through the same vectors.
//!
//! A vector file (`vectors/README.md`) is scenarios of operations with what must be answered. A
//! [`Home`] answers them, the [`Adapter`] speaks the line protocol for it, and the player judges
//! the answers. The program `vectors` is the adapter on standard input and output.
//!
//! | file | what it is |
//! |---|---|
//! | `line.rs` | the lines of a vector file |
//! | `home.rs` | the trait of homes, and the registry of homes |
//! | `limiters/` | how each limiter of the vectors is called and its reply understood |
//! | `process.rs` | homes in this process |
//! | `kernel.rs`, `memory.rs` | states in a map; the embedded store |
//! | `adapter.rs` | the line protocol |
//! | `agreement.rs` | a store against the kernel on random questions |
//! | `judge.rs`, `player.rs` | whether an answer is right; a whole file |
//! | `intervals/` | whether any interval admitted more than was promised |
//! | `campaign/` | eight threads at the embedded store; bin `campaign` |
//! | `redis/` | homes in Redis: script and function; random traces against the kernel |
//! | `server/` | the home `server`, over its own protocols |

mod adapter;
mod agreement;
pub mod campaign;
mod home;
pub mod intervals;
mod judge;
mod kernel;
mod limiters;
mod line;
mod memory;
mod player;
mod process;
pub mod redis;
pub mod server;

pub use adapter::Adapter;
pub use agreement::{Disagreement, agree};
pub use home::{Answer, HOMES, Home, HomeInfo, Refusal, home};
pub use judge::{Verdict, judge};
pub use kernel::Kernel;
pub use limiters::{Command, DialectLimiter, LIMITERS, Limiter, PolicyLimiter, StateFields};
pub use line::{Line, Operation, Scenario, Unit};
pub use memory::Embedded;
pub use player::{BadVectors, Tally, play};
