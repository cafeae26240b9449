//! The phase of a connection, and the deadline of that phase: a client that is slow, or gone, or does not read its
//! answer, is disconnected.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::shared::HttpLimits;
use crate::buffers::BufferBudget;

/// The longest answer that fits into its connection's own room.
const OWN_ANSWER: usize = 4 << 10;

/// The phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No request is pending.
    Idle,
    /// A head is arriving.
    Head,
    /// A request is being answered.
    Request,
    /// The answer is being written.
    Writing,
}

/// The phase of a connection, and when it began. The connection, its stream and its requests are one task and share it
/// by an atomic.
#[derive(Debug)]
pub(super) struct PhaseTracker {
    began: Instant,
    /// The milliseconds from the start of the connection to that of the phase, and the phase in the lowest two bits.
    word: AtomicU64,
    budget: Arc<BufferBudget>,
    /// The bytes that the answer being written takes of the shared buffers.
    answer: AtomicUsize,
}

impl PhaseTracker {
    pub(super) fn new(budget: Arc<BufferBudget>) -> Self {
        let (word, answer) = (AtomicU64::new(Phase::Idle as u64), AtomicUsize::new(0));
        Self { began: Instant::now(), word, budget, answer }
    }

    /// Takes room for an answer until it is written; returns `false` if there is none. A short answer always has room,
    /// and a `reserved` one has room even while others have none.
    pub(super) fn reserve_answer(&self, bytes: usize, reserved: bool) -> bool {
        let bytes = bytes.saturating_sub(OWN_ANSWER);
        let took =
            bytes == 0 || if reserved { self.budget.take_reserved(bytes) } else { self.budget.take(0, bytes, 1) };
        if took && bytes > 0 {
            self.release_answer();
            self.answer.store(bytes, Ordering::Relaxed);
        }
        took
    }

    /// Gives back the room of the answer.
    fn release_answer(&self) {
        if self.answer.load(Ordering::Relaxed) > 0 {
            self.budget.give_back(self.answer.swap(0, Ordering::Relaxed));
        }
    }

    pub(super) fn enter(&self, phase: Phase) {
        let word = if phase == Phase::Writing {
            // The bound is on the request together with its answer.
            self.word.load(Ordering::Relaxed) & !3
        } else {
            (self.began.elapsed().as_millis() as u64) << 2
        };
        self.word.store(word | phase as u64, Ordering::Relaxed);
    }

    fn phase(&self) -> Phase {
        match self.word.load(Ordering::Relaxed) & 3 {
            0 => Phase::Idle,
            1 => Phase::Head,
            2 => Phase::Request,
            _ => Phase::Writing,
        }
    }

    /// Returns the time by which the phase must be over.
    pub(super) fn deadline(&self, limits: &HttpLimits) -> Instant {
        let within = match self.phase() {
            Phase::Idle => limits.idle,
            Phase::Head => limits.head,
            Phase::Request | Phase::Writing => limits.request,
        };
        self.began + Duration::from_millis(self.word.load(Ordering::Relaxed) >> 2) + within
    }
}

impl Drop for PhaseTracker {
    fn drop(&mut self) {
        self.release_answer();
    }
}

/// A stream whose first byte begins a head, and whose last written byte ends a request.
pub(super) struct PhasedStream<'a, S> {
    pub(super) stream: S,
    pub(super) phases: &'a PhaseTracker,
}

impl<S: AsyncRead + Unpin> AsyncRead for PhasedStream<'_, S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = ready!(Pin::new(&mut self.stream).poll_read(context, into));
        if into.filled().len() > before && self.phases.phase() == Phase::Idle {
            self.phases.enter(Phase::Head);
        }
        Poll::Ready(read)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PhasedStream<'_, S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = ready!(Pin::new(&mut self.stream).poll_flush(context));
        if self.phases.phase() == Phase::Writing {
            self.phases.enter(Phase::Idle);
            self.phases.release_answer();
        }
        Poll::Ready(flushed)
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
