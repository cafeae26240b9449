//! A stream of bytes in chunks, which keeps or counts what is written to it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tollgate_kernel::Timestamp;
use tollgate_memory::ManualClock;

use crate::access::Scopes;
use crate::resp;
use crate::resp::session::Session;
use crate::shared::ServerState;

/// The bytes that were written.
#[derive(Default)]
pub(super) struct WrittenOutput {
    /// All of them, if they are kept.
    pub(super) bytes: Vec<u8>,
    /// The length of the longest piece written at once.
    pub(super) longest: usize,
}

/// A stream of chunks.
pub(super) struct ChunkStream {
    chunks: VecDeque<Vec<u8>>,
    keeps: bool,
    written: Rc<RefCell<WrittenOutput>>,
}

impl AsyncRead for ChunkStream {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Some(chunk) = self.chunks.front_mut() {
            let len = chunk.len().min(into.remaining());
            into.put_slice(&chunk[..len]);
            chunk.drain(..len);
            if chunk.is_empty() {
                self.chunks.pop_front();
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ChunkStream {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut written = self.written.borrow_mut();
        written.longest = written.longest.max(bytes.len());
        if self.keeps {
            written.bytes.extend_from_slice(bytes);
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A server without sockets, whose clock stands still.
pub(super) struct FuzzServer {
    shared: Arc<ServerState>,
    runtime: tokio::runtime::Runtime,
}

impl FuzzServer {
    pub(super) fn new() -> Self {
        let clock = ManualClock::at(Timestamp::saturating(1_700_000_000_000_000));
        let shared = ServerState::for_test_by(|| Box::new(clock.clone()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        Self { shared, runtime }
    }

    /// Serves a connection that sends these chunks and then ends.
    pub(super) fn serve(&self, chunks: VecDeque<Vec<u8>>, scopes: Scopes, keeps: bool) -> Rc<RefCell<WrittenOutput>> {
        let written = Rc::new(RefCell::new(WrittenOutput::default()));
        let wire = ChunkStream { chunks, keeps, written: Rc::clone(&written) };
        let (peer, local) = (([127, 0, 0, 1], 50_000).into(), ([127, 0, 0, 1], 7_379).into());
        let session = Session::new(7, peer, local, scopes);
        self.runtime.block_on(resp::serve(Arc::clone(&self.shared), wire, session));
        written
    }
}
