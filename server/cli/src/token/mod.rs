//! `tollgate token`: makes a token for a server, and its line for the server's file.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use tollgate_daemon::{AccessToken, Scopes};

use crate::CommandOutput;
use crate::error::CliError;

const EXAMPLES: &str = "\
Examples:
  tollgate token --scopes check,read --name billing --file tokens
  tollgate token --scopes check,refund --name gateway --file tokens
  tollgate token --scopes admin,reset --name operator
  tollgate serve --resp 0.0.0.0 --tokens tokens …

The token is printed once; the file holds its SHA-256 alone. A running server
reads its file again at SIGHUP. Clients show a token by AUTH, as an HTTP bearer
token, or in TOLLGATE_TOKEN.

Scopes: check (to decide and look), read (explanations, policies, metrics),
refund (to give back what was charged), reset (to forget), admin (to
administrate the server), script (to have the store of --store run scripts
and functions: they reach all that the store's user reaches).
Exit code: 0 done, 2 error.";

/// What `tollgate token` takes.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TokenArgs {
    /// What it allows, of check, read, refund, reset, admin and script
    #[arg(long, value_name = "SCOPES", value_parser = |text: &str| text.parse::<Scopes>())]
    scopes: Scopes,

    /// Whose it is: letters, digits, - and _
    #[arg(long)]
    name: String,

    /// Add its line to this file, which is made if it is not there
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,
}

/// The token and its line, for programs.
#[derive(Serialize)]
struct TokenDocument<'a> {
    token: &'a str,
    line: &'a str,
}

/// Runs `tollgate token`.
pub(crate) fn run(args: &TokenArgs) -> Result<CommandOutput, CliError> {
    let made = match &args.file {
        Some(file) => AccessToken::add_to(file, args.scopes, &args.name),
        None => AccessToken::with_line(args.scopes, &args.name),
    };
    let (token, line) = made.map_err(CliError::Tokens)?;
    if args.json {
        let document = serde_json::to_string(&TokenDocument { token: token.text(), line: &line }).unwrap_or_default();
        return Ok(CommandOutput::from(document + "\n"));
    }
    let place = match &args.file {
        Some(file) => format!("{} has its line", file.display()),
        None => "its line for a tokens file".to_owned(),
    };
    Ok(CommandOutput::from(format!(
        "{}\n\nThe token is not shown again. It allows {}; {place}:\n{line}\n",
        token.text(),
        args.scopes
    )))
}
