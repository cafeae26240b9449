//! The engine of a Tollgate server: front-ends put their questions to the [`Engine`], whichever home decides.
//!
//! | file | what it is |
//! |---|---|
//! | `engine/` | the engine: answers every question of a front-end |
//! | `question.rs` | questions and answers |
//! | `policies/` | policies by name and by text, and their rules beside the limits |
//! | `rule.rs` | the rule that decided a key |
//! | `home.rs` | the embedded store, or another one |
//! | `store/` | another store: keys and dialects of callers there, and what stands in for it |
//! | `persist/`, `upkeep.rs` | persistence across restarts; the thread that writes snapshots |
//! | `counts/` | decisions counted by policy and limit |
//! | `alerts/` | keys that come near their limits |
//! | `usage/` | the usage of keys |
//! | `observers.rs` | which of these observe the decisions of a policy |
//! | `ops.rs` | the parts that serve the operators of a server |

mod alerts;
pub mod counts;
mod engine;
mod home;
mod observers;
mod ops;
pub mod persist;
mod policies;
mod question;
mod rule;
mod store;
mod upkeep;
pub mod usage;

pub use counts::{PolicyCounters, PolicyOwner};
pub use engine::{AdoptionOutcome, CallAnswer, DecisionFacts, Engine, HomeStats, LockedKeys, RecoveredState, moment};
pub use home::Home;
pub use ops::{Collector, Ops, OpsError};
pub use policies::{EnginePolicy, Flips, GenerationError, PolicyGeneration, PolicyRegistry};
pub use question::{DetailLevel, EngineAnswer, EngineCheck, EngineQuestion, EngineVerdict, QuestionPart};
pub use rule::DecidingRule;
pub use store::{StoreHome, StoreKeySettings};
pub use upkeep::Upkeep;
