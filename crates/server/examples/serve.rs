//! A server on a free port; prints where it listens and its token, and ends with its standard input.

use std::io::Read;

use tollgate_server::{Server, Settings};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let settings = Settings { resp: Some(([127, 0, 0, 1], 0).into()), http: None, ..Settings::default() };
    let server = Server::start(settings)?;
    if let (Some(addr), Some(token)) = (server.resp_addr(), server.token()) {
        println!("{} {}", addr.port(), token.text());
    }
    std::io::stdin().read_to_end(&mut Vec::new())?;
    server.stop();
    Ok(())
}
