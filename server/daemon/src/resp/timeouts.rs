//! Tests of how long a connection is waited for, by a clock that stands still until every task waits, and of how much
//! it may buffer.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::session::Session;
use crate::access::{Scope, Scopes};
use crate::shared::ServerState;

fn session(scopes: Scopes) -> Session {
    let addr = "127.0.0.1:7379".parse().unwrap();
    Session::new(1, addr, addr, scopes)
}

/// Returns the shared state, and the sender that keeps the server from ending.
fn shared() -> (Arc<ServerState>, watch::Sender<bool>) {
    let (mut shared, (stop, leaving)) = (ServerState::for_test(), watch::channel(false));
    Arc::get_mut(&mut shared).unwrap().leaving = leaving;
    (shared, stop)
}

/// Returns the seconds until the server closes a connection, whatever the client does meanwhile.
async fn seconds_until_cut<S, F>(stream: S, client: F) -> u64
where
    S: AsyncRead + AsyncWrite + Unpin,
    F: Future<Output = ()>,
{
    let ((shared, _stop), start) = (shared(), Instant::now());
    tokio::select! {
        () = super::serve(shared, stream, session(Scopes::FREE)) => {}
        () = client => panic!("the client ended before it was cut off"),
    }
    start.elapsed().as_secs()
}

/// A stream that buffers everything that is written, and sends it only when it is flushed, as TLS may.
struct BatchingStream(DuplexStream, Vec<u8>);

impl AsyncRead for BatchingStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, into)
    }
}

impl AsyncWrite for BatchingStream {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        self.1.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let Self(stream, gathered) = &mut *self;
        while !gathered.is_empty() {
            match Pin::new(&mut *stream).poll_write(context, gathered) {
                Poll::Ready(Ok(sent)) => drop(gathered.drain(..sent)),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

async fn ask_for_ever(mut client: DuplexStream) {
    while client.write_all(b"*1\r\n$4\r\nPING\r\n").await.is_ok() {}
    std::future::pending().await
}

#[tokio::test(start_paused = true)]
async fn who_never_reads_is_cut_off() {
    let (client, server) = duplex(64);
    assert_eq!(seconds_until_cut(server, ask_for_ever(client)).await, 5);
}

#[tokio::test(start_paused = true)]
async fn who_never_reads_what_was_gathered_is_cut_off_too() {
    let (client, server) = duplex(64);
    let gathers = BatchingStream(server, Vec::new());
    assert_eq!(seconds_until_cut(gathers, ask_for_ever(client)).await, 5);
}

#[tokio::test(start_paused = true)]
async fn a_command_that_comes_byte_by_byte_is_cut_off() {
    let (mut client, server) = duplex(64);
    let slow = async {
        client.write_all(b"*1\r\n$4\r\nPING\r\n*2\r\n$4\r\nECHO\r\n$9000\r\n").await.unwrap();
        loop {
            sleep(Duration::from_secs(1)).await;
            let _ = client.write_all(b"x").await;
        }
    };
    assert_eq!(seconds_until_cut(server, slow).await, 30);
}

#[tokio::test(start_paused = true)]
async fn commands_that_end_have_their_time_each() {
    let (mut client, server) = duplex(64);
    let steady = async {
        // Every piece ends a command and begins the next.
        client.write_all(b"*1\r\n$4\r\nPI").await.unwrap();
        for _ in 0..20 {
            sleep(Duration::from_secs(20)).await;
            client.write_all(b"NG\r\n*1\r\n$4\r\nPI").await.unwrap();
            let mut said = [0; 7];
            client.read_exact(&mut said).await.unwrap();
            assert_eq!(&said, b"+PONG\r\n");
        }
    };
    let (shared, _stop) = shared();
    tokio::select! {
        () = super::serve(shared, server, session(Scopes::FREE)) => panic!("it was cut off"),
        () = steady => {}
    }
}

#[tokio::test(start_paused = true)]
async fn who_guesses_tokens_is_answered_a_few_times_a_second() {
    let ((shared, _stop), (mut client, server)) = (shared(), duplex(64 << 10));
    tokio::spawn(super::serve(shared, server, session(Scopes::FREE)));
    let start = Instant::now();
    client.write_all(&b"*2\r\n$4\r\nAUTH\r\n$5\r\nguess\r\n".repeat(30)).await.unwrap();
    let mut said = String::new();
    while said.matches('\n').count() < 30 {
        let mut some = [0; 4_096];
        let read = client.read(&mut some).await.unwrap();
        assert!(read > 0, "it was cut off");
        said += &String::from_utf8_lossy(&some[..read]);
    }
    assert_eq!(said.matches("-WRONGPASS").count(), 30, "{said}");
    // The first five are answered at once; the clock of the tokens stands still, so all others wait the same time.
    assert!(start.elapsed() > Duration::from_secs(2), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn who_reads_slowly_and_is_idle_for_long_stays() {
    let (mut client, server) = duplex(64);
    let reads = async {
        for _ in 0..100 {
            client.write_all(b"*1\r\n$4\r\nPING\r\n").await.unwrap();
            sleep(Duration::from_secs(600)).await;
            let mut said = [0; 7];
            client.read_exact(&mut said).await.unwrap();
            assert_eq!(&said, b"+PONG\r\n");
        }
    };
    let (shared, _stop) = shared();
    tokio::select! {
        () = super::serve(shared, server, session(Scopes::FREE)) => panic!("it was cut off"),
        () = reads => {}
    }
}

/// Returns what a connection replies to `bytes`, up to its end or its first lines.
async fn said(client: &mut DuplexStream, bytes: &[u8]) -> String {
    client.write_all(bytes).await.unwrap();
    let mut said = vec![0; 4_096];
    let read = client.read(&mut said).await.unwrap();
    assert!(read > 0, "it was cut off");
    String::from_utf8_lossy(&said[..read]).into_owned()
}

#[tokio::test(start_paused = true)]
async fn long_commands_that_are_not_whole_leave_room_for_short_ones() {
    let (shared, _stop) = shared();
    let mut half = b"*2\r\n$4\r\nECHO\r\n$190000\r\n".to_vec();
    half.resize(half.len() + 189_999, b'x');
    let mut refused = Vec::new();
    let mut clients = Vec::new();
    for number in 0..100 {
        let (mut client, server) = duplex(1 << 20);
        tokio::spawn(super::serve(Arc::clone(&shared), server, session(Scopes::FREE)));
        client.write_all(&half).await.unwrap();
        // A connection that is not refused waits for more.
        let mut byte = [0; 1];
        if let Ok(read) = tokio::time::timeout(Duration::from_millis(1), client.read(&mut byte)).await {
            assert_eq!((read.unwrap(), byte), (1, *b"-"), "{number}");
            refused.push(client);
        } else {
            clients.push(client);
        }
    }
    assert!(!refused.is_empty() && clients.len() > 40, "{} {}", refused.len(), clients.len());
    let mut text = String::new();
    refused[0].read_to_string(&mut text).await.unwrap();
    assert!(text.starts_with("OOM expected a shorter command"), "{text}");
    // Short commands and short transactions are answered.
    let (mut good, server) = duplex(1 << 20);
    tokio::spawn(super::serve(Arc::clone(&shared), server, session(Scopes::FREE)));
    assert_eq!(said(&mut good, b"*1\r\n$4\r\nPING\r\n").await, "+PONG\r\n");
    assert_eq!(said(&mut good, b"*1\r\n$5\r\nMULTI\r\n").await, "+OK\r\n");
    assert_eq!(said(&mut good, b"*1\r\n$4\r\nPING\r\n").await, "+QUEUED\r\n");
    // Long ones are not: all the room that refused connections gave back is less than this.
    let long = format!("*2\r\n$4\r\nECHO\r\n$1500\r\n{}\r\n", "x".repeat(1_500)).repeat(170);
    good.write_all(format!("{long}*1\r\n$4\r\nEXEC\r\n").as_bytes()).await.unwrap();
    let mut answers = String::new();
    while !answers.ends_with("-EXECABORT Transaction discarded because of previous errors.\r\n") {
        answers += &said(&mut good, b"").await;
    }
    assert!(answers.contains("-OOM expected fewer commands before EXEC"), "{answers}");
    // Their room is free again when they have left; the first of them may finish its command.
    drop(refused);
    clients.truncate(1);
    clients[0].write_all(b"x\r\n").await.unwrap();
    let mut answer = [0; 9];
    clients[0].read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"$190000\r\n");
}

/// Returns a connection that is being served.
fn connect(shared: &Arc<ServerState>) -> DuplexStream {
    let (client, server) = duplex(1 << 20);
    tokio::spawn(super::serve(Arc::clone(shared), server, session(Scopes::FREE.with(Scope::Refund))));
    client
}

/// Returns an ECHO of that number of bytes.
fn echo(len: usize) -> Vec<u8> {
    format!("*2\r\n$4\r\nECHO\r\n${len}\r\n{}\r\n", "x".repeat(len)).into_bytes()
}

/// Returns everything that a connection replies, up to a text.
async fn says(client: &mut DuplexStream, end: &str) -> String {
    let mut text = String::new();
    while !text.contains(end) {
        let mut some = vec![0; 64 << 10];
        let read = tokio::time::timeout(Duration::from_secs(30), client.read(&mut some)).await;
        let read = read.unwrap_or_else(|_| panic!("nothing more was said: {text}")).unwrap();
        assert!(read > 0, "it was cut off: {text}");
        text += &String::from_utf8_lossy(&some[..read]);
    }
    text
}

/// Returns connections whose MULTI queues take all of the shared part that is open to them.
async fn queues(shared: &Arc<ServerState>) -> Vec<DuplexStream> {
    let queued = [b"*1\r\n$5\r\nMULTI\r\n".to_vec(), echo(2_000).repeat(120)].concat();
    let mut clients = Vec::new();
    for _ in 0..98 {
        let mut client = connect(shared);
        client.write_all(&queued).await.unwrap();
        says(&mut client, "+OK\r\n").await;
        clients.push(client);
    }
    clients
}

#[tokio::test(start_paused = true)]
async fn idle_queues_give_back_what_others_need() {
    let ((shared, _stop), start) = (shared(), Instant::now());
    let mut idle = queues(&shared).await;
    // A command of ordinary length is served whatever others hold; a long one finds no room.
    let (mut good, mut long) = (connect(&shared), connect(&shared));
    assert!(said(&mut good, &echo(1_000)).await.starts_with("$1000\r\n"));
    long.write_all(&echo(190_000)).await.unwrap();
    assert!(says(&mut long, "\r\n").await.starts_with("-OOM expected a shorter command"));
    assert!(start.elapsed() < Duration::from_secs(1));
    // Ten seconds later the first of them have been disconnected, and a long command is served. They may be active
    // meanwhile.
    for second in 0..12 {
        sleep(Duration::from_secs(1)).await;
        for client in &mut idle {
            let _ = client.write_all(b"*1\r\n$4\r\nPING\r\n").await;
        }
        assert!(second > 7 || shared.buffers.is_scarce(), "nobody is cut off before");
    }
    let mut long = connect(&shared);
    long.write_all(&echo(190_000)).await.unwrap();
    assert!(says(&mut long, "\r\n").await.starts_with("$190000\r\n"));
    let mut last = String::new();
    idle[0].read_to_string(&mut last).await.unwrap();
    let told = "-OOM expected a whole command, or EXEC, within 10 s: others wait for the room it takes\r\n";
    assert!(last.ends_with(told), "{}", &last[last.len().saturating_sub(200)..]);
    assert!(said(&mut good, b"*1\r\n$4\r\nPING\r\n").await.ends_with("+PONG\r\n"));
}

#[tokio::test(start_paused = true)]
async fn a_queue_waits_for_as_long_as_there_is_room() {
    let (shared, _stop) = shared();
    let mut client = connect(&shared);
    client.write_all(b"*1\r\n$5\r\nMULTI\r\n").await.unwrap();
    client.write_all(&echo(2_000).repeat(100)).await.unwrap();
    sleep(Duration::from_secs(3_600)).await;
    client.write_all(b"*1\r\n$4\r\nEXEC\r\n").await.unwrap();
    says(&mut client, "*100\r\n$2000\r\n").await;
}

#[tokio::test(start_paused = true)]
async fn buffers_of_long_pipelines_are_given_back_and_nobody_is_cut_off() {
    let (shared, _stop) = shared();
    // Commands of 32 bytes end where buffers do, which grow for them.
    let pipeline = echo(11).repeat(4_096);
    let mut clients = Vec::new();
    for _ in 0..700 {
        let mut client = connect(&shared);
        client.write_all(&pipeline).await.unwrap();
        let mut replies = vec![0; 18 * 4_096];
        client.read_exact(&mut replies).await.unwrap();
        clients.push(client);
    }
    let taken = || shared.buffers.usage()[1].bytes;
    assert!(taken() > 8 << 20, "{}", taken());
    sleep(Duration::from_secs(15)).await;
    assert!(taken() <= 8 << 20, "{}", taken());
    for client in &mut clients {
        assert_eq!(said(client, b"*1\r\n$4\r\nPING\r\n").await, "+PONG\r\n");
    }
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_spoiled_takes_nothing() {
    let (shared, _stop) = shared();
    let mut client = connect(&shared);
    client.write_all(b"*1\r\n$5\r\nMULTI\r\n").await.unwrap();
    client.write_all(&echo(2_000).repeat(140)).await.unwrap();
    says(&mut client, "-ERR expected at most 1024 commands and 262144 bytes before EXEC").await;
    client.write_all(b"*1\r\n$4\r\nEXEC\r\n").await.unwrap();
    says(&mut client, "-EXECABORT").await;
    client
        .write_all(&[b"*1\r\n$5\r\nMULTI\r\n*1\r\n$3\r\nWAT\r\n".to_vec(), echo(2_000).repeat(50)].concat())
        .await
        .unwrap();
    let queued = says(&mut client, "QUEUED").await;
    assert!(queued.contains("-ERR unknown command"), "{queued}");
    sleep(Duration::from_secs(1)).await;
    assert!(shared.buffers.usage()[1].bytes <= 16 << 10, "{:?}", shared.buffers.usage());
}

/// Returns a command in bytes.
fn command(words: &[&str]) -> Vec<u8> {
    let args = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    args.fold(format!("*{}\r\n", words.len()), |text, arg| text + &arg).into_bytes()
}

#[tokio::test]
async fn a_long_exec_of_questions_lets_others_have_their_turn() {
    // Many limits, and a refund of each: none of it touches keys.
    let limits: Vec<String> = (0..32).map(|n| format!("100000/{}s slots resolution=1s name=n{n}", 3_600 + n)).collect();
    let (policy, (shared, _stop)) = (limits.join(", "), shared());
    let refund = command(&["TG.REFUND", "k", &policy, "1", "1"]);
    let check = command(&["TG.CHECK", "k", &policy]);
    let (mut first, mut second) = (connect(&shared), connect(&shared));
    first.write_all(&command(&["MULTI"])).await.unwrap();
    for _ in 0..60 {
        first.write_all(&[check.clone(), refund.clone()].concat()).await.unwrap();
        says(&mut first, "+QUEUED\r\n+QUEUED\r\n").await;
    }
    assert_eq!(said(&mut second, b"*1\r\n$4\r\nPING\r\n").await, "+PONG\r\n");
    // Both have something to answer when the first of them is run.
    first.write_all(&command(&["EXEC"])).await.unwrap();
    second.write_all(b"*1\r\n$4\r\nPING\r\n").await.unwrap();
    assert_eq!(said(&mut second, b"").await, "+PONG\r\n");
    let mut byte = [0; 1];
    // Polled at once: a timer would let the rest be run meanwhile.
    let told = tokio::select! { biased; _ = first.read(&mut byte) => true, () = std::future::ready(()) => false };
    assert!(!told, "the other one waited for all of it");
    let told = says(&mut first, "*120\r\n*6\r\n:1\r\n").await;
    assert!(!told.contains('-'), "{told}");
}

#[tokio::test]
async fn keys_of_an_exec_are_nobody_elses_from_the_first_to_the_last() {
    let (shared, _stop) = shared();
    let mut client = connect(&shared);
    let policy: Vec<String> = (0..32).map(|n| format!("100000/{}s slots resolution=1s name=n{n}", 3_600 + n)).collect();
    let (incr, check) = (command(&["INCR", "n"]), command(&["TG.CHECK", "k", &policy.join(", ")]));
    // Before the first and after the last command on keys there may be many questions; between them they are bounded.
    let queued = [&command(&["MULTI"]), &check.repeat(20), &incr, &check.repeat(17), &incr, &check.repeat(20)];
    client.write_all(&queued.map(Vec::as_slice).concat()).await.unwrap();
    client.write_all(&command(&["EXEC"])).await.unwrap();
    let told = says(&mut client, ":2\r\n*6\r\n").await;
    let (refused, incremented) =
        (told.matches("-ERR not run: expected at most 512 limits").count(), told.contains(":2\r\n"));
    assert_eq!((refused, incremented), (1, true), "{told}");
}
