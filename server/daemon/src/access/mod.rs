//! Access control: what each caller may do.
//!
//! | file | what it is |
//! |---|---|
//! | `scope.rs` | what a token allows |
//! | `token.rs` | tokens and their hashes |
//! | `tokens.rs` | the tokens of a server, from a file |
//! | `throttle.rs` | the limit on failed logins |
//!
//! A connection begins with what is [free](AccessControl::free) to it. A [login](AccessControl::login) returns what a
//! token allows, which a front-end adds to what is free, and to nothing else: a second login replaces the first.

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

use tollgate_http::Prefix;
use tollgate_kernel::Clock;

use crate::network::is_loopback;
pub use scope::{Scope, Scopes, ScopesError};
use throttle::LoginThrottle;
pub use token::AccessToken;
pub use tokens::TokensError;
pub(crate) use tokens::{TokenGrant, Tokens};
use tollgate_keyspace::{Fault, FaultCode};
use tollgate_telemetry::audit::FrontEnd;
use tollgate_telemetry::log::ServerLog;

/// What callers may do without a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FreeAccess {
    /// On loopback, what these scopes allow; over HTTP only those of [`Scopes::FREE_OVER_HTTP`].
    Loopback(Scopes),
    /// Everything but what is always named, from any address: see [`Scopes::WITHOUT_SCRIPT`].
    Everything,
}

/// The access control of a server.
#[derive(Debug)]
pub(crate) struct AccessControl {
    free: FreeAccess,
    /// Ports that other machines reach. Nothing is free there, wherever a connection comes from, since proxies connect
    /// from loopback too.
    exposed: Vec<u16>,
    tokens: RwLock<Arc<Tokens>>,
    /// The file that the tokens came from.
    file: Option<PathBuf>,
    throttle: LoginThrottle,
    log: Arc<ServerLog>,
}

impl AccessControl {
    /// `exposed` are the ports of listeners off loopback; `file` is the file that `tokens` came from, to read them
    /// again.
    pub(crate) fn new(
        free: FreeAccess,
        exposed: Vec<u16>,
        tokens: Tokens,
        file: Option<PathBuf>,
        clock: Box<dyn Clock>,
        log: Arc<ServerLog>,
    ) -> Self {
        Self { free, exposed, tokens: RwLock::new(Arc::new(tokens)), file, throttle: LoginThrottle::new(clock), log }
    }

    /// Returns what a connection may do before it presents a token.
    pub(crate) fn free(&self, front_end: FrontEnd, local: SocketAddr, peer: SocketAddr) -> Scopes {
        let inside = is_loopback(local.ip()) && is_loopback(peer.ip()) && !self.exposed.contains(&local.port());
        match self.free {
            FreeAccess::Everything => Scopes::WITHOUT_SCRIPT,
            FreeAccess::Loopback(scopes) if inside => match front_end {
                FrontEnd::Resp => scopes,
                FrontEnd::Http => scopes.within(Scopes::FREE_OVER_HTTP),
            },
            FreeAccess::Loopback(_) => Scopes::NONE,
        }
    }

    /// Returns the name of a token and what it allows in addition to what is free. A caller that presented too many
    /// unknown tokens gets [`FaultCode::Throttled`] for further ones.
    pub(crate) fn login(&self, token: &[u8], peer: IpAddr) -> Result<TokenGrant, Fault> {
        let tokens = Arc::clone(&self.tokens.read().unwrap_or_else(PoisonError::into_inner));
        // A known token is accepted however many unknown ones its neighbours try, so they cannot lock it out.
        tokens.find(token).ok_or_else(|| {
            if let Some(wait) = self.throttle.wait(peer) {
                let text = format!("too many failed logins from {}; try again in {wait}", Prefix::of(peer));
                return Fault::new(FaultCode::Throttled, text);
            }
            self.throttle.failed(peer);
            self.log.warn("login_failed", &[("peer", &Prefix::of(peer))]);
            // The error names neither a valid token nor the one that was tried.
            Fault::new(FaultCode::WrongPass, "expected a token that the server was given; this one is not known")
        })
    }

    /// Returns how long a caller must wait after too many failed logins, at most a second; `None` if it may try.
    pub(crate) fn wait(&self, peer: IpAddr) -> Option<Duration> {
        let wait = Duration::from_micros(self.throttle.wait(peer)?.get());
        Some(wait.min(Duration::from_secs(1)))
    }

    /// Reads the tokens again, if they came from a file. If the file is not valid, the previous tokens stay in use.
    /// Connections that have logged in keep what they were allowed until they end. Returns the number of tokens; `None`
    /// if they came from no file.
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
    use tollgate_kernel::{Micros, Timestamp};
    use tollgate_memory::ManualClock;
    use tollgate_telemetry::log::LogFormat;

    fn access(
        free: FreeAccess,
        exposed: &[u16],
    ) -> (AccessControl, AccessToken, ManualClock, std::sync::mpsc::Receiver<String>) {
        let clock = ManualClock::at(Timestamp::new(1_790_000_000_000_000).unwrap());
        let (log, lines) = ServerLog::to_channel(LogFormat::Text);
        let token = AccessToken::make().unwrap();
        let tokens = Tokens::single(token.hash());
        let access = AccessControl::new(free, exposed.to_vec(), tokens, None, Box::new(clock.clone()), Arc::new(log));
        (access, token, clock, lines)
    }

    fn addr(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn on_loopback_the_free_scopes_need_no_token() {
        let (access, ..) = access(FreeAccess::Loopback(Scopes::FREE), &[9_000]);
        for (local, peer, scopes) in [
            ("127.0.0.1:7379", "127.0.0.1:50000", Scopes::FREE),
            ("127.0.0.1:7379", "127.9.9.9:50000", Scopes::FREE),
            ("[::1]:7379", "[::1]:50000", Scopes::FREE),
            ("[::ffff:127.0.0.1]:7379", "[::ffff:127.0.0.1]:50000", Scopes::FREE),
            // A listener that other machines reach.
            ("127.0.0.1:9000", "127.0.0.1:50000", Scopes::NONE),
            ("192.0.2.1:9000", "127.0.0.1:50000", Scopes::NONE),
            ("192.0.2.1:9000", "192.0.2.7:50000", Scopes::NONE),
            ("127.0.0.1:7379", "192.0.2.7:50000", Scopes::NONE),
        ] {
            assert_eq!(access.free(FrontEnd::Resp, addr(local), addr(peer)), scopes, "{local} {peer}");
            let over_http = access.free(FrontEnd::Http, addr(local), addr(peer));
            assert_eq!(over_http, scopes.within(Scopes::FREE_OVER_HTTP), "{local} {peer}");
        }
    }

    #[test]
    fn settings_make_nothing_or_everything_free() {
        let (inside, outside) = ((addr("127.0.0.1:7379"), addr("127.0.0.1:5")), addr("192.0.2.7:5"));
        let free = |setting, local, peer| {
            [FrontEnd::Resp, FrontEnd::Http].map(|front_end| access(setting, &[]).0.free(front_end, local, peer))
        };
        let nothing = FreeAccess::Loopback(Scopes::NONE);
        assert_eq!(free(nothing, inside.0, inside.1), [Scopes::NONE; 2]);
        let check = Scopes::NONE.with(Scope::Check);
        assert_eq!(free(FreeAccess::Loopback(check), inside.0, inside.1), [check; 2]);
        let all = FreeAccess::Loopback(Scopes::ALL);
        assert_eq!(free(all, inside.0, inside.1), [Scopes::ALL, Scopes::FREE_OVER_HTTP]);
        assert_eq!(free(all, inside.0, outside), [Scopes::NONE; 2]);
        assert_eq!(free(FreeAccess::Everything, inside.0, outside), [Scopes::WITHOUT_SCRIPT; 2]);
    }

    #[test]
    fn a_token_allows_its_scopes_and_another_nothing() {
        let (access, token, _, lines) = access(FreeAccess::Loopback(Scopes::FREE), &[]);
        let peer = addr("127.0.0.1:5").ip();
        assert_eq!(access.login(token.text().as_bytes(), peer).map(|login| login.scopes), Ok(Scopes::WITHOUT_SCRIPT));
        let wrong = [&b""[..], b"tg_", &token.text().as_bytes()[1..]];
        for wrong in wrong {
            let fault = access.login(wrong, peer).unwrap_err();
            assert_eq!((fault.code, fault.text.contains("not known")), (FaultCode::WrongPass, true));
        }
        let said: Vec<String> = lines.try_iter().collect();
        assert_eq!(said.len(), wrong.len());
        assert!(said.iter().all(|line| line.contains("warn login_failed peer=127.0.0.1")), "{said:?}");
    }

    #[test]
    fn tokens_are_read_again_and_a_wrong_file_changes_nothing() {
        let file = std::env::temp_dir().join(format!("tollgate-access-{}", std::process::id()));
        let _ = std::fs::remove_file(&file);
        let (first, _) = AccessToken::add_to(&file, Scopes::FREE, "first").unwrap();
        let (log, lines) = ServerLog::to_channel(LogFormat::Text);
        let clock = Box::new(ManualClock::default());
        let tokens = Tokens::read(&file).unwrap();
        let access = AccessControl::new(
            FreeAccess::Loopback(Scopes::NONE),
            Vec::new(),
            tokens,
            Some(file.clone()),
            clock,
            Arc::new(log),
        );
        let peer = addr("192.0.2.7:5").ip();
        let login = |token: &AccessToken| access.login(token.text().as_bytes(), peer).ok().map(|login| login.scopes);
        let (second, _) = AccessToken::add_to(&file, Scopes::ALL, "second").unwrap();
        assert_eq!((login(&first), login(&second)), (Some(Scopes::FREE), None));
        let _ = access.reload();
        assert_eq!((login(&first), login(&second)), (Some(Scopes::FREE), Some(Scopes::ALL)));
        std::fs::write(&file, "check nonsense first\n").unwrap();
        let _ = access.reload();
        assert_eq!((login(&first), login(&second)), (Some(Scopes::FREE), Some(Scopes::ALL)));
        // A file without tokens revokes all of them.
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
        let (access, token, clock, _lines) = access(FreeAccess::Loopback(Scopes::FREE), &[]);
        let (guesser, neighbour, other) =
            (addr("[2001:db8::1]:5").ip(), addr("[2001:db8::2]:5").ip(), addr("192.0.2.7:5").ip());
        let scopes = |ip| access.login(token.text().as_bytes(), ip).ok().map(|login| login.scopes);
        for _ in 0..5 {
            assert!(access.login(b"guess", guesser).unwrap_err().text.contains("not known"));
        }
        for ip in [guesser, neighbour] {
            let fault = access.login(b"guess", ip).unwrap_err();
            assert_eq!(fault.code, FaultCode::Throttled);
            assert!(fault.text.starts_with("too many failed logins from 2001:db8::/64; try again in "), "{fault}");
            // A known token is not locked out by unknown ones.
            assert_eq!(scopes(ip), Some(Scopes::WITHOUT_SCRIPT));
        }
        assert_eq!(scopes(other), Some(Scopes::WITHOUT_SCRIPT));
        clock.advance(Micros::from_secs(1));
        assert_eq!(scopes(guesser), Some(Scopes::WITHOUT_SCRIPT));
        // A known token may log in without a limit.
        for _ in 0..100 {
            assert_eq!(scopes(guesser), Some(Scopes::WITHOUT_SCRIPT));
        }
    }
}
