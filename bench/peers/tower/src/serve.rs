//! A contender behind a socket on loopback, as axum serves it, on one thread: the load has the other processor.

use std::io::Read;
use std::net::SocketAddr;

use tokio::net::TcpListener;

use crate::Failure;
use crate::contenders::{Case, Contender};

/// Prints the port, and serves until the standard input ends, which it does when whoever started this does.
pub(crate) fn serve(contender: &Contender, case: Case) -> Result<(), Failure> {
    let router = (contender.build)(case)?;
    let (ended, end) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = ended.send(());
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await?;
        println!("{}", listener.local_addr()?.port());
        let service = router.into_make_service_with_connect_info::<SocketAddr>();
        tokio::select! {
            served = async { axum::serve(listener, service).await } => Ok(served?),
            _ = end => Ok(()),
        }
    })
}
