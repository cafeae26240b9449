//! One connection: read, answer, write, until one side closes it.
//!
//! What has arrived is answered before more is read, and replies are written before many accumulate, so a client that
//! does not read its replies is not read from either: it costs two small buffers, and is disconnected when it stalls
//! for long.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{timeout, timeout_at};

use super::batch::CheckBatch;
use super::commands::{self, Args, CommandContext, CommandHandler, HomeRequest, on_keys};
use super::decode::{ArgSpan, CommandBounds, RespFrame, decode};
use super::exec_store;
use super::session::{MultiQueue, Session};
use super::writer::RespWriter;
use crate::buffers::{BufferLease, GIVE_BACK};
use crate::shared::ServerState;
use tollgate_keyspace::{Fault, FaultCode};
use tollgate_telemetry::audit::FrontEnd;

/// The bytes that are read at once, at first and in long pipelines.
const READ: usize = 1 << 10;
const MAX_READ: usize = 16 << 10;
/// The bytes that are answered before the task yields to other connections.
const YIELD_BYTES: usize = 16 << 10;
/// The bytes of replies after which they are written before more is answered.
const WRITE: usize = 16 << 10;
/// The capacity for replies that an idle connection keeps.
const WRITE_KEPT: usize = 2 << 10;
/// The longest time that replies may wait for a client that does not read.
const WRITE_STALL: Duration = Duration::from_secs(5);
/// The longest time in which a command may arrive, from its first byte to its last.
const COMMAND: Duration = Duration::from_secs(30);
/// How often a connection that has had its part of the shared buffers for long checks whether room is scarce.
const LOOK: Duration = Duration::from_secs(1);
/// The most argument spans that an idle connection keeps.
const SPANS_KEPT: usize = 64;
/// The longest time in which a client must log in, where that is required.
const LOGIN: Duration = Duration::from_secs(5);
/// The longest time for which commands other than checks are answered without yielding.
const SLICE: Duration = Duration::from_millis(1);
/// The most commands between MULTI and EXEC, and their bytes.
const QUEUE: usize = 1_024;
const QUEUE_BYTES: usize = 256 << 10;
/// The memory that each of them takes in addition to its bytes.
const QUEUE_EACH: usize = 48;
/// The most bytes of replies to one EXEC, all of which exist before the first is written.
pub(super) const EXEC_BYTES: usize = 1 << 20;

/// The most limits that one EXEC asks about while it holds the keys, or before it yields.
const HELD_LIMITS: usize = 512;

/// The progress of an EXEC.
struct ExecProgress {
    /// The next command.
    next: usize,
    /// The number of commands up to the last that may touch keys.
    keys_until: usize,
    /// The number of limits that were asked about while the keys were held.
    limits: usize,
}

/// How a part of an EXEC ended.
enum ExecStep {
    /// All commands have been run.
    All,
    /// It yields to other connections.
    Slice,
    /// It has to wait for the answer to this question.
    Until(HomeRequest),
}

/// Serves a connection to its end.
pub(crate) async fn serve<S>(shared: Arc<ServerState>, stream: S, session: Session)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let _counted = shared.metrics.connection(FrontEnd::Resp);
    let _listed = shared.clients.list(&session, shared.engine.now());
    let mut connection = Connection {
        shared: Arc::clone(&shared),
        stream,
        session,
        input: Vec::new(),
        lease: BufferLease::default(),
        out: RespWriter::default(),
        spans: Vec::new(),
        away: false,
    };
    // However the connection ended, there is nowhere left to report it.
    let _ = connection.run().await;
}

struct Connection<S> {
    shared: Arc<ServerState>,
    stream: S,
    session: Session,
    input: Vec<u8>,
    /// The input's part of the shared buffers.
    lease: BufferLease,
    out: RespWriter,
    spans: Vec<ArgSpan>,
    /// Whether the home was away, deciding without keeping anything, when the current replies were begun.
    away: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    async fn run(&mut self) -> io::Result<()> {
        let mut stopping = self.shared.leaving.clone();
        let mut stop = pin!(stopping.wait_for(|stop| *stop));
        let mut batch = CheckBatch::default();
        let login = tokio::time::Instant::now() + LOGIN;
        // The deadline of the command that has arrived in part.
        let mut command = login;
        // The earliest time to check whether it has to give back its part of the shared buffers.
        let mut look = login;
        let mut since_yield = 0;
        loop {
            let Some(read) = self.reserve_input() else {
                return self.refuse_for_room("expected a shorter command: others are long and not yet whole").await;
            };
            let end = match () {
                () if self.session.scopes.is_none() => Some(login),
                () if self.input.is_empty() => None,
                () => Some(command),
            };
            let give_back = self.lease_deadline().map(|until| until.max(look));
            let reading = self.stream.read_buf(&mut self.input);
            // A wait without a deadline needs no timer, and nearly all waits are such.
            let received = if let Some(at) = [end, give_back].into_iter().flatten().min() {
                let within = timeout_at(at, reading);
                let received = tokio::select! { biased; received = within => received, _ = &mut stop => return Ok(()) };
                match received {
                    Ok(received) => received,
                    Err(late) if end.is_some_and(|end| end <= at) => return Err(late.into()),
                    Err(_) if self.release_buffers() => {
                        look = tokio::time::Instant::now() + LOOK;
                        continue;
                    }
                    Err(_) => {
                        let text = format!(
                            "expected a whole command, or EXEC, within {} s: others wait for the room it takes",
                            GIVE_BACK.as_secs()
                        );
                        return self.refuse_for_room(&text).await;
                    }
                }
            } else {
                tokio::select! { biased; received = reading => received, _ = &mut stop => return Ok(()) }
            }?;
            if received == 0 {
                return Ok(());
            }
            let began = Instant::now();
            self.away = self.shared.engine.is_away();
            let was_empty = self.input.len() == received;
            let answered = self.answer(&mut batch).await?;
            if !self.input.is_empty() && (was_empty || answered > 0) {
                command = tokio::time::Instant::now() + COMMAND;
            }
            self.count(began);
            self.write().await?;
            batch.release();
            if self.session.ends {
                return timeout(WRITE_STALL, self.stream.shutdown()).await?;
            }
            // Yields, so that one long pipeline cannot starve the other connections of this thread.
            since_yield += received;
            if since_yield >= YIELD_BYTES {
                since_yield = 0;
                tokio::task::yield_now().await;
            }
            // A pipeline that fills the read buffer is a long one.
            if received == read && self.input.is_empty() && self.input.capacity() < MAX_READ {
                // If there is no room, it is read in shorter pieces.
                let _ = self.grow(2 * self.input.capacity());
            }
        }
    }

    /// Records the duration and the errors of what was answered at once.
    fn count(&mut self, began: Instant) {
        let metrics = &self.shared.metrics;
        metrics.took(began.elapsed());
        self.out.faults.drain(..).for_each(|code| metrics.fault(code));
    }

    /// Makes room to read into; returns how much there is. `None` if other connections hold too much.
    fn reserve_input(&mut self) -> Option<usize> {
        let len = self.input.len();
        // At most the longest command, and what is read behind it.
        let next = (2 * len).min(len.max(CommandBounds::KNOWN.command) + READ).max(READ);
        if self.input.capacity() == len && !self.grow(next) {
            return None;
        }
        Some(self.input.capacity() - len)
    }

    /// Grows the input to that number of bytes, if the shared buffers have room for them.
    fn grow(&mut self, to: usize) -> bool {
        let grown = self.lease.keep(&self.shared.buffers, to);
        if grown {
            self.input.reserve_exact(to - self.input.len());
        }
        grown
    }

    /// Returns the time at which it has to give back its part of the shared buffers, if room is scarce then.
    fn lease_deadline(&self) -> Option<tokio::time::Instant> {
        let queue = self.session.queue.as_ref().and_then(|queue| queue.lease.deadline());
        [self.lease.deadline(), queue].into_iter().flatten().min()
    }

    /// Gives back the bytes that are not needed if room is scarce; returns `false` if they are needed.
    fn release_buffers(&mut self) -> bool {
        if !self.shared.buffers.is_scarce() {
            return true;
        }
        if !self.input.is_empty() || self.session.queue.as_ref().is_some_and(|queue| queue.lease.deadline().is_some()) {
            return false;
        }
        self.input = Vec::new();
        self.lease.keep(&self.shared.buffers, 0)
    }

    /// Replies that there is no room, and closes the connection.
    async fn refuse_for_room(&mut self, text: &str) -> io::Result<()> {
        self.out.fault(&Fault::new(FaultCode::Full, text));
        self.write().await?;
        timeout(WRITE_STALL, self.stream.shutdown()).await?
    }

    /// Answers every command that has arrived completely; returns how many bytes they were.
    async fn answer(&mut self, batch: &mut CheckBatch) -> io::Result<usize> {
        let input = std::mem::take(&mut self.input);
        let (mut at, mut began) = (0, Instant::now());
        while !self.session.ends {
            let bounds = if self.session.scopes.is_none() { CommandBounds::UNKNOWN } else { CommandBounds::KNOWN };
            let rest = &input[at..];
            let mut spans = std::mem::take(&mut self.spans);
            let frame = decode(rest, &bounds, &mut spans);
            match frame {
                Ok(RespFrame::Command(len)) => {
                    let args = Args { bytes: &rest[..len], spans: &spans };
                    if !batch.push(&args, at, &mut self.session, &self.shared) {
                        batch.decide(&input, &self.shared, &mut self.out).await;
                        if !batch.push(&args, at, &mut self.session, &self.shared) {
                            self.command(args).await;
                            // Other tasks of this thread have waited for long enough.
                            if began.elapsed() > SLICE {
                                tokio::task::yield_now().await;
                                began = Instant::now();
                            }
                        }
                        if let Some(pause) = self.session.pause.take() {
                            Box::pin(self.pause(pause)).await?;
                        }
                    }
                    if batch.is_full() {
                        batch.decide(&input, &self.shared, &mut self.out).await;
                    }
                    at += len;
                }
                Ok(RespFrame::Nothing(len)) => at += len,
                Ok(RespFrame::Incomplete) => {
                    self.spans = spans;
                    break;
                }
                Err(mistake) => {
                    batch.decide(&input, &self.shared, &mut self.out).await;
                    self.out.error(&format!("ERR {mistake}"));
                    self.session.ends = true;
                }
            }
            self.spans = spans;
            if self.out.bytes.len() >= WRITE {
                self.write().await?;
            }
        }
        batch.decide(&input, &self.shared, &mut self.out).await;
        if self.spans.capacity() > SPANS_KEPT {
            self.spans = Vec::new();
        }
        self.input = input;
        if at == self.input.len() {
            self.input.clear();
            // The memory of one long command is not kept.
            if self.input.capacity() > MAX_READ {
                self.input.shrink_to(MAX_READ);
                let _ = self.lease.keep(&self.shared.buffers, self.input.capacity());
            }
        } else {
            self.input.drain(..at);
        }
        Ok(at)
    }

    /// Writes the replies, and answers nothing more for a time, or until the server stops.
    async fn pause(&mut self, pause: Duration) -> io::Result<()> {
        self.write().await?;
        let mut leaving = self.shared.leaving.clone();
        let _ = timeout(pause, leaving.wait_for(|leave| *leave)).await;
        Ok(())
    }

    /// Runs one command, or queues it for EXEC.
    async fn command(&mut self, args: Args<'_>) {
        let admitted = commands::admit(&args, &self.session)
            .inspect_err(|fault| commands::audit_refusal(&args, &self.session, &self.shared, fault));
        let command = match admitted {
            Ok(command) => {
                self.shared.metrics.command(command);
                command
            }
            Err(fault) if args.is(0, "EXEC") => {
                // An EXEC that is not admitted discards its queue.
                self.session.queue = None;
                let because = fault.to_string();
                let because = because.strip_prefix("ERR ").unwrap_or(&because);
                let text = format!("Transaction discarded because of: {because}");
                return self.out.fault(&Fault::new(FaultCode::ExecAbort, text));
            }
            Err(fault) => {
                if let Some(queue) = &mut self.session.queue {
                    queue.spoil();
                }
                return self.out.fault(&fault);
            }
        };
        if self.session.queue.is_some() && !command.is_at_once() {
            return self.wait_for_exec(args);
        }
        if let CommandHandler::Exec = command.handler {
            return self.exec().await;
        }
        let Self { shared, session, out, .. } = self;
        if let CommandHandler::OnKeys(handler) = &command.handler
            && !shared.engine.answers_at_once()
        {
            return Box::pin(on_keys::ask(&mut CommandContext { args, session, shared, out }, handler)).await;
        }
        let request = commands::run_now(command, &mut CommandContext { args, session, shared, out }, None);
        if let Some(request) = request {
            commands::ask(&self.shared, &request, &mut self.out).await;
        }
    }

    fn wait_for_exec(&mut self, args: Args<'_>) {
        let Some(queue) = &mut self.session.queue else { return };
        queue.bytes += args.bytes.len();
        if queue.spoiled {
            // None of the commands will be run, so none is kept.
            return self.out.simple("QUEUED");
        }
        if queue.commands.len() >= QUEUE || queue.bytes > QUEUE_BYTES {
            queue.spoil();
            let text = format!("expected at most {QUEUE} commands and {QUEUE_BYTES} bytes before EXEC");
            return self.out.fault(&Fault::wrong(text));
        }
        if !queue.lease.keep(&self.shared.buffers, queue.bytes + QUEUE_EACH * queue.commands.len()) {
            queue.spoil();
            return self
                .out
                .fault(&Fault::new(FaultCode::Full, "expected fewer commands before EXEC: others wait too"));
        }
        queue.commands.push(args.bytes.into());
        self.out.simple("QUEUED");
    }

    /// Runs the queued commands. The keys are locked meanwhile; each question to the home is atomic by itself.
    async fn exec(&mut self) {
        let Some(queue) = self.session.queue.take() else {
            return self.out.fault(&Fault::wrong("EXEC without MULTI"));
        };
        if queue.spoiled {
            let text = "Transaction discarded because of previous errors.";
            return self.out.fault(&Fault::new(FaultCode::ExecAbort, text));
        }
        self.out.array(queue.commands.len());
        if !self.shared.engine.answers_at_once() {
            let Self { shared, session, out, .. } = self;
            return Box::pin(exec_store::run(&queue, shared, session, out)).await;
        }
        let mut exec = ExecProgress { next: 0, keys_until: self.last_on_keys(&queue), limits: 0 };
        loop {
            match self.exec_some(&queue, &mut exec) {
                ExecStep::All => return,
                ExecStep::Slice => tokio::task::yield_now().await,
                ExecStep::Until(request) => commands::ask(&self.shared, &request, &mut self.out).await,
            }
        }
    }

    /// Returns the number of queued commands up to the last that may touch keys of this server.
    fn last_on_keys(&mut self, queue: &MultiQueue) -> usize {
        let Self { session, spans, .. } = self;
        let last = queue.commands.iter().rposition(|bytes| {
            let _ = decode(bytes, &CommandBounds::KNOWN, spans);
            commands::admit(&Args { bytes, spans }, session).is_ok_and(|command| command.may_touch_keys())
        });
        last.map_or(0, |last| last + 1)
    }

    /// Runs commands, up to one that has to wait for an answer. The keys are held from the first command that touches
    /// them to the last that may; before and after that, it yields when it takes long.
    fn exec_some(&mut self, queue: &MultiQueue, exec: &mut ExecProgress) -> ExecStep {
        let Self { shared, session, out, spans, .. } = self;
        let (mut keys, began) = (None, Instant::now());
        let (mut touched, mut limits) = (false, 0);
        while let Some(bytes) = queue.commands.get(exec.next) {
            if !touched || exec.next >= exec.keys_until {
                keys = None;
                if limits > HELD_LIMITS || began.elapsed() > SLICE {
                    return ExecStep::Slice;
                }
            }
            exec.next += 1;
            if out.bytes.len() > EXEC_BYTES {
                out.fault(&Fault::wrong(format!(
                    "not run: expected at most {EXEC_BYTES} bytes of replies to one EXEC"
                )));
                continue;
            }
            // They were decoded before, so they are valid.
            let _ = decode(bytes, &CommandBounds::KNOWN, spans);
            let args = Args { bytes, spans };
            let command = match commands::admit(&args, session) {
                Ok(command) => command,
                Err(fault) => {
                    commands::audit_refusal(&args, session, shared, &fault);
                    out.fault(&fault);
                    continue;
                }
            };
            if exec.next <= exec.keys_until && command.may_touch_keys() {
                keys.get_or_insert_with(|| shared.engine.lock_keys());
            }
            let mut ctx = CommandContext { args, session, shared, out };
            let Some(request) = commands::run_now(command, &mut ctx, keys.as_mut()) else {
                touched |= command.may_touch_keys();
                continue;
            };
            touched |= request.limits().is_none();
            limits += request.limits().unwrap_or_default();
            // Questions to the home while the keys are held keep other connections from the keys.
            if touched && keys.is_some() {
                exec.limits += request.limits().unwrap_or_default();
                if exec.limits > HELD_LIMITS {
                    out.fault(&Fault::wrong(format!(
                        "not run: expected at most {HELD_LIMITS} limits to be asked about between the first and the \
                         last command on keys of one EXEC"
                    )));
                    continue;
                }
            }
            if !commands::ask_now(shared, &request, keys.as_mut(), out) {
                return ExecStep::Until(request);
            }
        }
        ExecStep::All
    }

    /// Writes the replies, and what TLS buffered of them, once everything they report is kept. The first attempt needs
    /// no timer.
    async fn write(&mut self) -> io::Result<()> {
        // Decisions made while the home was away say so in their replies. Otherwise it is unknown whether the replies
        // will hold, and the client only learns that the connection has ended.
        if !self.out.bytes.is_empty() && self.shared.engine.settled().await.is_err() && !self.away {
            return Err(io::Error::other("what was decided could not be kept"));
        }
        let (stream, bytes) = (&mut self.stream, &self.out.bytes);
        let mut written = 0;
        let first = poll_fn(|context| {
            if !bytes.is_empty() {
                match Pin::new(&mut *stream).poll_write(context, bytes) {
                    Poll::Ready(some) => written = some?,
                    Poll::Pending => return Poll::Ready(Ok(false)),
                }
            }
            if written < bytes.len() {
                return Poll::Ready(Ok(false));
            }
            match Pin::new(&mut *stream).poll_flush(context) {
                Poll::Ready(flushed) => Poll::Ready(flushed.map(|()| true)),
                Poll::Pending => Poll::Ready(Ok(false)),
            }
        });
        if !first.await? {
            // Replies that are not read at once are counted in the shared buffers, as long commands are.
            let mut lease = BufferLease::default();
            if !lease.keep_replies(&self.shared.buffers, self.out.bytes.capacity()) {
                return Err(io::ErrorKind::OutOfMemory.into());
            }
            let rest = async {
                self.stream.write_all(&self.out.bytes[written..]).await?;
                self.stream.flush().await
            };
            timeout(WRITE_STALL, rest).await??;
        }
        self.out.bytes.clear();
        self.out.bytes.shrink_to(WRITE_KEPT);
        Ok(())
    }
}
