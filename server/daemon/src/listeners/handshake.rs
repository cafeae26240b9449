//! A stream with a bound on the bytes that are read first: what a client sends before its handshake is complete is
//! buffered, so it is bounded.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream with a bound on the bytes that are read, until the bound is lifted.
pub(super) struct HandshakeStream<S> {
    stream: S,
    /// The bytes that may still be read.
    left: usize,
}

impl<S> HandshakeStream<S> {
    pub(super) fn new(stream: S, bytes: usize) -> Self {
        Self { stream, left: bytes }
    }

    /// Lifts the bound.
    pub(super) fn lift(&mut self) {
        self.left = usize::MAX;
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for HandshakeStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.left == 0 {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "expected a shorter handshake")));
        }
        let before = into.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, into))?;
        if self.left < usize::MAX {
            self.left = self.left.saturating_sub(into.filled().len() - before);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for HandshakeStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn so_many_bytes_are_read_until_the_bound_is_lifted() {
        let (mut client, server) = tokio::io::duplex(64);
        client.write_all(&[7; 40]).await.unwrap();
        let mut stream = HandshakeStream::new(server, 10);
        let mut some = [0; 8];
        assert_eq!(stream.read(&mut some).await.unwrap(), 8);
        // Bytes that arrived in one piece are read as a whole.
        assert_eq!(stream.read(&mut some).await.unwrap(), 8);
        assert_eq!(stream.read(&mut some).await.unwrap_err().to_string(), "expected a shorter handshake");
        stream.lift();
        let mut rest = [0; 24];
        assert_eq!(stream.read_exact(&mut rest).await.unwrap(), 24);
    }
}
