//! The calling conventions of other limiters, implemented on the kernel: arguments in, reply out.
//!
//! A [`Dialect`] turns a caller's keys and arguments into a [`ParsedCall`]: the state's key, the policy, the request,
//! and the clock to use. The user of this crate decides the call, which then makes the reply. Nothing here owns state or
//! a clock, so the server, the store in Redis and the tests share it.
//!
//! ```
//! use tollgate_kernel::{KeyState, Timestamp};
//! let dialect = tollgate_dialects::find("fixed_window").unwrap();
//! let call = (dialect.parse)(&[b"client:12345"], &[b"10", b"60"]).unwrap();
//! let now = Timestamp::new(1_790_000_000_000_000).unwrap();
//! let reply = call.run(&mut KeyState::default(), now).unwrap();
//! assert_eq!(reply.to_string(), "[allow, [10, 60, 9]]");
//!
//! let error = (dialect.parse)(&[b"client:12345"], &[b"10", b"0"]).unwrap_err();
//! assert_eq!(error.to_string(), r#"window: expected an integer from 1 to 9007199254, found "0""#);
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `call.rs` | a parsed call, and how it is run |
//! | `reply.rs`, `output.rs`, `error.rs` | replies, outputs of unknown scripts, and errors |
//! | `number.rs`, `arguments.rs` | numbers exactly as written, and parsing them |
//! | `slot_window.rs`, `ar1.rs` | o1.rate-limiter; what they share is in `slotted.rs` |
//! | `api_counter.rs` | redis-limiter |
//! | `sliding_window.rs` | the library rdslim |
//! | `fixed_window.rs`, `token_bucket.rs` | PlugLimit |
//! | `rolling.rs`, `rolling_options.rs` | the rolling limiter with modes: the script's arguments, the factory's options |
//! | `throttle.rs` | redis-cell's CL.THROTTLE |
//! | `scripts.rs` | which published script has which dialect |

pub mod api_counter;
mod ar1;
mod arguments;
mod call;
mod error;
mod fixed_window;
mod number;
mod output;
mod reply;
mod rolling;
mod rolling_options;
mod scripts;
mod sliding_window;
mod slot_window;
mod slotted;
#[cfg(test)]
mod testing;
mod throttle;
mod token_bucket;

pub use api_counter::ApiCounterUsage;
pub use call::{Action, CallClock, Convention, DialectOutcome, ParsedCall, Wording};
pub use error::DialectError;
pub use output::Output;
pub use reply::{DialectReply, ReplyValue};
pub use rolling::RollingResult;
pub use rolling_options::{RollingLimit, RollingOptions};
pub use scripts::{PublishedKind, PublishedScript, SCRIPTS, normalized, published};
pub use slotted::{key_of_name, namespace_of, state_name};

/// Parses the keys and arguments of a call. An error changes nothing.
pub type CallParser = fn(keys: &[&[u8]], args: &[&[u8]]) -> Result<ParsedCall, DialectError>;

/// Returns whether a reply allows what was asked for, from its first two values.
pub type ReplyReader = fn([ReplyValue<'_>; 2]) -> bool;

/// A line of the registry.
#[derive(Clone, Copy, Debug)]
pub struct Dialect {
    /// The name of the function or command.
    pub name: &'static str,
    /// Its arguments, keys first, for help and errors.
    pub usage: &'static str,
    /// Parses a call.
    pub parse: CallParser,
    /// Returns whether the reply to a check allows it, from the first two values of the reply.
    pub allows: ReplyReader,
    /// Its twin in Lua, if it can be called as a Redis function.
    pub lua: Option<LuaTwin>,
}

/// The form of a dialect inside Redis: a Lua function of keys and arguments, in files beside the Rust.
#[derive(Clone, Copy, Debug)]
pub struct LuaTwin {
    /// The name of the function.
    pub run: &'static str,
    /// The names of the algorithms it uses.
    pub algorithms: &'static [&'static str],
    /// The source of its files, which follow [`ARGUMENTS_LUA`].
    pub files: &'static [&'static str],
}

/// The Lua source that all dialects share.
pub const ARGUMENTS_LUA: &str = include_str!("arguments.lua");

/// All dialects.
pub static DIALECTS: &[Dialect] = &[
    sliding_window::DIALECT,
    fixed_window::DIALECT,
    token_bucket::DIALECT,
    slot_window::DIALECT,
    ar1::DIALECT,
    rolling::DIALECT,
    api_counter::DIALECT,
    throttle::DIALECT,
];

/// Returns the dialect of that name.
pub fn find(name: &str) -> Option<&'static Dialect> {
    DIALECTS.iter().find(|dialect| dialect.name == name)
}
