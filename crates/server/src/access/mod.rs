//! Who may do what.
//!
//! | file | what it is |
//! |---|---|
//! | `scope.rs` | what a token allows |
//! | `token.rs` | tokens, and what is kept of them |
//! | `tokens.rs` | the tokens of a server, from a file |
//! | `throttle.rs` | how often a caller may be wrong |
//!
//! A connection begins with what is [free](Access::free) to it. A [login](Access::login) answers what a token
//! allows, which a front-end adds to what is free, and to nothing else: a second login takes the place of
//! the first.

mod scope;
mod throttle;
mod token;
mod tokens;

#[cfg(test)]
mod matrix;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tollgate_core::Clock;
use tollgate_http::Prefix;

use crate::fault::{Code, Fault};
use crate::log::Log;
use crate::network::is_loopback;
pub use scope::{Scope, Scopes, ScopesError};
use throttle::Throttle;
pub use token::Token;
pub use tokens::TokensError;
pub(crate) use tokens::{Login, Tokens};

/// Who may do what without a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Free {
    /// On loopback, what only counts and looks.
    #[default]
    Loopback,
    /// Nobody anything.
    Nothing,
    /// Everybody everything.
    Everything,
}

/// Who may do what.
#[derive(Debug)]
pub(crate) struct Access {
    free: Free,
    /// Ports that others reach. Nothing is free there, wherever a connection comes from: proxies are on
    /// loopback too.
    exposed: Vec<u16>,
    tokens: RwLock<Arc<Tokens>>,
    /// Where they came from.
    file: Option<PathBuf>,
    throttle: Throttle,
    log: Arc<Log>,
}

impl Access {
    /// `exposed` are the ports of listeners off loopback; `file` is where `tokens` came from, to read them
    /// again.
    pub(crate) fn new(
        free: Free,
        exposed: Vec<u16>,
        tokens: Tokens,
        file: Option<PathBuf>,
        clock: Box<dyn Clock>,
        log: Arc<Log>,
    ) -> Self {
        Self { free, exposed, tokens: RwLock::new(Arc::new(tokens)), file, throttle: Throttle::new(clock), log }
    }

    /// What a connection may do before it shows a token.
    pub(crate) fn free(&self, local: SocketAddr, peer: SocketAddr) -> Scopes {
        let inside = is_loopback(local.ip()) && is_loopback(peer.ip()) && !self.exposed.contains(&local.port());
        match self.free {
            Free::Everything => Scopes::ALL,
            Free::Loopback if inside => Scopes::FREE,
            Free::Loopback | Free::Nothing => Scopes::NONE,
        }
    }

    /// What a token allows beside what is free, and who it is. A caller that was wrong too often has to wait, whatever he
    /// shows.
    pub(crate) fn login(&self, token: &[u8], peer: IpAddr) -> Result<Login, Fault> {
        let tokens = Arc::clone(&self.tokens.read().unwrap_or_else(PoisonError::into_inner));
        // A right token is right however many wrong ones its neighbours try: nobody can be kept out by them.
        tokens.find(token).ok_or_else(|| {
            if let Some(wait) = self.throttle.wait(peer) {
                let text = format!("too many failed logins from {}; try again in {wait}", Prefix::of(peer));
                return Fault::new(Code::Throttled, text);
            }
            self.throttle.failed(peer);
            self.log.warn("login_failed", &[("peer", &Prefix::of(peer))]);
            // No word of what would be right, and none of what was tried.
            Fault::new(Code::WrongPass, "expected a token that the server was given; this one is not known")
        })
    }

    /// How long a caller has to wait that was wrong too often; nothing if he may try. At most a second.
    pub(crate) fn wait(&self, peer: IpAddr) -> Option<Duration> {
        let wait = Duration::from_micros(self.throttle.wait(peer)?.get());
        Some(wait.min(Duration::from_secs(1)))
    }

    /// Reads the tokens again, if they are of a file. If it is wrong, those of before stay. Connections that
    /// logged in keep what they were allowed until they end.
    /// Answers how many there are; nothing if they are of no file.
    pub(crate) fn reload(&self) -> Option<Result<usize, TokensError>> {
        let read = Tokens::read(self.file.as_ref()?).inspect_err(|error| {
            self.log.error("tokens_kept", &[("because", error)]);
        });
        Some(read.map(|tokens| {
            let count = tokens.len();
            self.log.info("tokens_read", &[("tokens", &count)]);
            *self.tokens.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tokens);
            count
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::LogForm;
    use tollgate_core::{Micros, Timestamp};
    use tollgate_memory::Manual;

    fn access(free: Free, exposed: &[u16]) -> (Access, Token, Manual, std::sync::mpsc::Receiver<String>) {
        let clock = Manual::at(Timestamp::new(1_790_000_000_000_000).unwrap());
        let (log, lines) = Log::for_test(LogForm::Text);
        let token = Token::make().unwrap();
        let tokens = Tokens::one(token.hash());
        let access = Access::new(free, exposed.to_vec(), tokens, None, Box::new(clock.clone()), Arc::new(log));
        (access, token, clock, lines)
    }

    fn addr(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn on_loopback_counting_and_looking_is_free() {
        let (access, ..) = access(Free::Loopback, &[9_000]);
        for (local, peer, scopes) in [
            ("127.0.0.1:7379", "127.0.0.1:50000", Scopes::FREE),
            ("127.0.0.1:7379", "127.9.9.9:50000", Scopes::FREE),
            ("[::1]:7379", "[::1]:50000", Scopes::FREE),
            ("[::ffff:127.0.0.1]:7379", "[::ffff:127.0.0.1]:50000", Scopes::FREE),
            // A listener that others reach.
            ("127.0.0.1:9000", "127.0.0.1:50000", Scopes::NONE),
            ("192.0.2.1:9000", "127.0.0.1:50000", Scopes::NONE),
            ("192.0.2.1:9000", "192.0.2.7:50000", Scopes::NONE),
            ("127.0.0.1:7379", "192.0.2.7:50000", Scopes::NONE),
        ] {
            assert_eq!(access.free(addr(local), addr(peer)), scopes, "{local} {peer}");
        }
    }

    #[test]
    fn settings_make_nothing_or_everything_free() {
        let (inside, outside) = ((addr("127.0.0.1:7379"), addr("127.0.0.1:5")), addr("192.0.2.7:5"));
        let (nothing, ..) = access(Free::Nothing, &[]);
        assert_eq!(nothing.free(inside.0, inside.1), Scopes::NONE);
        let (everything, ..) = access(Free::Everything, &[7_379]);
        assert_eq!(everything.free(inside.0, outside), Scopes::ALL);
    }

    #[test]
    fn a_token_allows_its_scopes_and_another_nothing() {
        let (access, token, _, lines) = access(Free::Loopback, &[]);
        let peer = addr("127.0.0.1:5").ip();
        assert_eq!(access.login(token.text().as_bytes(), peer).map(|login| login.scopes), Ok(Scopes::ALL));
        let wrong = [&b""[..], b"tg_", &token.text().as_bytes()[1..]];
        for wrong in wrong {
            let fault = access.login(wrong, peer).unwrap_err();
            assert_eq!((fault.code, fault.text.contains("not known")), (Code::WrongPass, true));
        }
        let said: Vec<String> = lines.try_iter().collect();
        assert_eq!(said.len(), wrong.len());
        assert!(said.iter().all(|line| line.contains("warn login_failed peer=127.0.0.1")), "{said:?}");
    }

    #[test]
    fn tokens_are_read_again_and_a_wrong_file_changes_nothing() {
        let file = std::env::temp_dir().join(format!("tollgate-access-{}", std::process::id()));
        let _ = std::fs::remove_file(&file);
        let (first, _) = Token::add_to(&file, Scopes::FREE, "first").unwrap();
        let (log, lines) = Log::for_test(LogForm::Text);
        let clock = Box::new(Manual::default());
        let tokens = Tokens::read(&file).unwrap();
        let access = Access::new(Free::Nothing, Vec::new(), tokens, Some(file.clone()), clock, Arc::new(log));
        let peer = addr("192.0.2.7:5").ip();
        let login = |token: &Token| access.login(token.text().as_bytes(), peer).ok().map(|login| login.scopes);
        let (second, _) = Token::add_to(&file, Scopes::ALL, "second").unwrap();
        assert_eq!((login(&first), login(&second)), (Some(Scopes::FREE), None));
        let _ = access.reload();
        assert_eq!((login(&first), login(&second)), (Some(Scopes::FREE), Some(Scopes::ALL)));
        std::fs::write(&file, "check nonsense first\n").unwrap();
        let _ = access.reload();
        assert_eq!((login(&first), login(&second)), (Some(Scopes::FREE), Some(Scopes::ALL)));
        // All are taken back by a file without any.
        std::fs::write(&file, "").unwrap();
        let _ = access.reload();
        assert_eq!((login(&first), login(&second)), (None, None));
        std::fs::remove_file(&file).unwrap();
        let _ = access.reload();
        let said: Vec<String> = lines.try_iter().collect();
        let events: Vec<&str> = said.iter().map(|line| line.split(' ').nth(2).unwrap()).collect();
        let failed = "login_failed";
        assert_eq!(events, [failed, "tokens_read", "tokens_kept", "tokens_read", failed, failed, "tokens_kept"]);
        assert!(said.iter().all(|line| !line.contains(first.text()) && !line.contains(second.text())));
    }

    #[test]
    fn who_is_wrong_too_often_waits_and_others_do_not() {
        let (access, token, clock, _lines) = access(Free::Loopback, &[]);
        let (guesser, neighbour, other) =
            (addr("[2001:db8::1]:5").ip(), addr("[2001:db8::2]:5").ip(), addr("192.0.2.7:5").ip());
        let scopes = |ip| access.login(token.text().as_bytes(), ip).ok().map(|login| login.scopes);
        for _ in 0..5 {
            assert!(access.login(b"guess", guesser).unwrap_err().text.contains("not known"));
        }
        for ip in [guesser, neighbour] {
            let fault = access.login(b"guess", ip).unwrap_err();
            assert_eq!(fault.code, Code::Throttled);
            assert!(fault.text.starts_with("too many failed logins from 2001:db8::/64; try again in "), "{fault}");
            // Who is right is not kept out by those who are not.
            assert_eq!(scopes(ip), Some(Scopes::ALL));
        }
        assert_eq!(scopes(other), Some(Scopes::ALL));
        clock.advance(Micros::from_secs(1));
        assert_eq!(scopes(guesser), Some(Scopes::ALL));
        // Who is right may be so as often as he likes.
        for _ in 0..100 {
            assert_eq!(scopes(guesser), Some(Scopes::ALL));
        }
    }
}
