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
//! | `start_token.rs` | the token made at the start, left for the commands of this user |

mod args;
mod greeting;
mod settings;
mod signals;
mod start_token;
mod store;
mod values;

use tollgate_daemon::{Server, StartError};

use crate::error::CliError;
use crate::{CommandOutput, print};
pub(crate) use args::ServeArgs;
use greeting::Greeting;
use signals::Signals;
use start_token::StartToken;

/// Runs `tollgate serve`.
pub(crate) fn run(args: &ServeArgs) -> Result<CommandOutput, CliError> {
    let system = |error| CliError::Start(StartError::System(error));
    // Connections to a store live in this runtime; those of clients have runtimes of their own.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(system)?;
    runtime.block_on(async {
        // Set up first, before there is anything that a signal would have to end.
        let mut signals = Signals::new().map_err(system)?;
        let (store, place) = store::open(args).await?.unzip();
        let settings = settings::of(args, store)?;
        let greeting = Greeting::new(args, &settings, place);
        let server = Server::start(settings).map_err(CliError::Start)?;
        let start_token = StartToken::new(&server);
        print(&greeting.text(&server, &start_token))?;
        signals.wait_for_stop(&server).await;
        start_token.remove();
        let ended = tokio::task::spawn_blocking(move || server.stop());
        Ok(CommandOutput { text: String::new(), code: signals.wait_for_end(ended).await })
    })
}
