//! A relay between clients and a server that notes which commands the clients send.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// The most words of a command, and the most bytes of a word: more than any client here sends.
const MAX_PART: usize = 1 << 20;
/// Commands whose second word says which of several they are.
const CONTAINERS: [&str; 7] = ["CLIENT", "CLUSTER", "COMMAND", "CONFIG", "FUNCTION", "SCRIPT", "TFUNCTION"];

/// The relay. Its threads end with their connections, and the one that accepts them with this process.
pub(crate) struct Tape {
    pub(crate) addr: SocketAddr,
    sent: Arc<Mutex<BTreeSet<String>>>,
}

impl Tape {
    /// Starts a relay to this server.
    pub(crate) fn start(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let tape = Self { addr: listener.local_addr()?, sent: Arc::default() };
        let sent = Arc::clone(&tape.sent);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // A client whose server cannot be reached sees its connection end.
                let _ = relay(client, server, Arc::clone(&sent));
            }
        });
        Ok(tape)
    }

    /// Returns the names of the commands that were sent, in capitals.
    pub(crate) fn sent(&self) -> BTreeSet<String> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn relay(client: TcpStream, server: SocketAddr, sent: Arc<Mutex<BTreeSet<String>>>) -> io::Result<()> {
    let server = TcpStream::connect(server)?;
    // Replies are small, and clients wait for them.
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut replies, mut to_client) = (server.try_clone()?, client.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut replies, &mut to_client);
        let _ = to_client.shutdown(Shutdown::Both);
    });
    thread::spawn(move || {
        let _ = note(client, &server, &sent);
        let _ = server.shutdown(Shutdown::Both);
    });
    Ok(())
}

/// Passes on what the client sends, command by command, until it ends or sends something else.
fn note(client: TcpStream, mut server: &TcpStream, sent: &Mutex<BTreeSet<String>>) -> io::Result<()> {
    let mut reader = BufReader::new(client);
    loop {
        let mut raw = Vec::new();
        let words = length(&mut reader, b'*', &mut raw)?;
        let mut name = String::new();
        for at in 0..words {
            let bytes = length(&mut reader, b'$', &mut raw)?;
            let begin = raw.len();
            raw.resize(begin + bytes + 2, 0);
            let word = raw.get_mut(begin..).unwrap_or_default();
            reader.read_exact(word)?;
            let word = word.strip_suffix(b"\r\n").ok_or(ErrorKind::InvalidData)?.to_ascii_uppercase();
            if at == 0 || (at == 1 && CONTAINERS.contains(&name.as_str())) {
                name = format!("{name} {}", String::from_utf8_lossy(&word)).trim_start().to_owned();
            }
        }
        sent.lock().unwrap_or_else(PoisonError::into_inner).insert(name);
        server.write_all(&raw)?;
    }
}

/// Reads a line of that kind with a number, and keeps its bytes.
fn length(reader: &mut impl BufRead, kind: u8, raw: &mut Vec<u8>) -> io::Result<usize> {
    let begin = raw.len();
    reader.take(32).read_until(b'\n', raw)?;
    let line = raw.get(begin..).unwrap_or_default();
    let number = line.strip_prefix(&[kind]).and_then(|rest| rest.strip_suffix(b"\r\n"));
    let number = number.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    number.filter(|number| *number <= MAX_PART).ok_or_else(|| ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_noted_and_passed_on_unchanged() {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let tape = Tape::start(server.local_addr().unwrap()).unwrap();
        let mut client = TcpStream::connect(tape.addr).unwrap();
        let (mut passed_on, _) = server.accept().unwrap();
        let sent = b"*3\r\n$6\r\nclient\r\n$7\r\nsetname\r\n$4\r\n\r\n*1\r\n*2\r\n$3\r\nGET\r\n$0\r\n\r\n";
        let (first, second) = sent.split_at(20);
        client.write_all(first).unwrap();
        client.write_all(second).unwrap();
        let mut found = vec![0; sent.len()];
        passed_on.read_exact(&mut found).unwrap();
        assert_eq!(found, sent);
        assert_eq!(tape.sent().into_iter().collect::<Vec<_>>(), ["CLIENT SETNAME", "GET"]);
        passed_on.write_all(b"+OK\r\n").unwrap();
        let mut reply = [0; 5];
        client.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"+OK\r\n");
        // What is not a command ends the connection.
        client.write_all(b"*1\r\n$-9\r\n").unwrap();
        assert_eq!(passed_on.read(&mut [0; 1]).unwrap(), 0);
    }
}
