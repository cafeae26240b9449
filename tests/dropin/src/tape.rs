//! A relay between clients and a server that notes which commands the clients send.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// The most words of a command, and the most bytes of a word: more than any client here sends.
const MAX_PART: usize = 1 << 20;
/// The most bytes of a line.
const MAX_LINE: u64 = 1 << 10;
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
        let (mut raw, mut words) = (Vec::new(), Vec::new());
        let begin = read_line(&mut reader, &mut raw)?;
        match begin.strip_prefix('*') {
            Some(count) => {
                for _ in 0..number(count)? {
                    words.push(read_word(&mut reader, &mut raw)?);
                }
            }
            // An inline command, by which eredis logs in.
            None => words.extend(begin.split_whitespace().map(str::to_owned)),
        }
        sent.lock().unwrap_or_else(PoisonError::into_inner).insert(name(&words)?);
        server.write_all(&raw)?;
    }
}

/// Returns the name of a command in capitals, with its second word if that says which of several it is.
fn name(words: &[String]) -> io::Result<String> {
    let mut words = words.iter().map(|word| word.to_ascii_uppercase());
    let first = words.next().ok_or(ErrorKind::InvalidData)?;
    let second = words.next().filter(|_| CONTAINERS.contains(&first.as_str()));
    Ok(second.map_or(first.clone(), |second| format!("{first} {second}")))
}

/// Reads a word of a command, and keeps its bytes.
fn read_word(reader: &mut impl BufRead, raw: &mut Vec<u8>) -> io::Result<String> {
    let line = read_line(reader, raw)?;
    let length = number(line.strip_prefix('$').ok_or(ErrorKind::InvalidData)?)?;
    let mut word = vec![0; length + 2];
    reader.read_exact(&mut word)?;
    raw.extend(&word);
    let word = word.strip_suffix(b"\r\n").ok_or(ErrorKind::InvalidData)?;
    Ok(String::from_utf8_lossy(word).into_owned())
}

/// Reads a line, and keeps its bytes; returns it without its end.
fn read_line(reader: &mut impl BufRead, raw: &mut Vec<u8>) -> io::Result<String> {
    let mut line = Vec::new();
    reader.take(MAX_LINE).read_until(b'\n', &mut line)?;
    raw.extend(&line);
    let line = line.strip_suffix(b"\r\n").ok_or(ErrorKind::InvalidData)?;
    Ok(String::from_utf8_lossy(line).into_owned())
}

fn number(digits: &str) -> io::Result<usize> {
    let number = digits.parse().ok().filter(|number| *number <= MAX_PART);
    number.ok_or_else(|| ErrorKind::InvalidData.into())
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
        let sent =
            b"auth \"x\"\r\n*3\r\n$6\r\nclient\r\n$7\r\nsetname\r\n$4\r\n\r\n*1\r\n*2\r\n$3\r\nGET\r\n$0\r\n\r\n";
        let (first, second) = sent.split_at(20);
        client.write_all(first).unwrap();
        client.write_all(second).unwrap();
        let mut found = vec![0; sent.len()];
        passed_on.read_exact(&mut found).unwrap();
        assert_eq!(found, sent);
        assert_eq!(tape.sent().into_iter().collect::<Vec<_>>(), ["AUTH", "CLIENT SETNAME", "GET"]);
        passed_on.write_all(b"+OK\r\n").unwrap();
        let mut reply = [0; 5];
        client.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"+OK\r\n");
        // What is not a command ends the connection.
        client.write_all(b"*1\r\n$-9\r\n").unwrap();
        assert_eq!(passed_on.read(&mut [0; 1]).unwrap(), 0);
    }
}
