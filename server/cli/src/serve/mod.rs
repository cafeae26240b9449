//! `tollgate serve`: the server, until a signal ends it.
//!
//! | file | what it is |
//! |---|---|
//! | `args.rs` | its arguments |
//! | `values.rs` | addresses, sizes and policies, parsed from words |
//! | `settings.rs` | the settings of the server, from the arguments |
//! | `store.rs` | the store behind `--store` |
//! | `greeting.rs` | the first output: where it listens, what decides, what to try |
//! | `signals.rs` | reading files again, stopping, stopping at once |
//! | `left.rs` | the token made at the start, left for the commands of this user |

mod args;
mod greeting;
mod left;
mod settings;
mod signals;
mod store;
mod values;

use tollgate_daemon::{Server, StartError};

use crate::error::Error;
use crate::{Answer, print};
pub(crate) use args::ServeArgs;
use greeting::Greeting;
use left::Left;
use signals::Signals;

/// Runs `tollgate serve`.
pub(crate) fn run(args: &ServeArgs) -> Result<Answer, Error> {
    let system = |error| Error::Start(StartError::System(error));
    // Connections to a store live in this runtime; those of clients have runtimes of their own.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(system)?;
    runtime.block_on(async {
        // Set up first, before there is anything that a signal would have to end.
        let mut signals = Signals::new().map_err(system)?;
        let (store, place) = store::open(args).await?.unzip();
        let settings = settings::of(args, store)?;
        let greeting = Greeting::new(args, &settings, place);
        let server = Server::start(settings).map_err(Error::Start)?;
        let left = Left::new(&server);
        print(&greeting.text(&server, &left))?;
        signals.end(&server).await;
        left.take_away();
        let ended = tokio::task::spawn_blocking(move || server.stop());
        Ok(Answer { text: String::new(), code: signals.ended(ended).await })
    })
}
