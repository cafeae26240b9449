//! Decides which addresses other machines reach, and what is required there: tokens, and TLS. Without them a server
//! does not start there, however explicitly the address was named.

use std::net::SocketAddr;

use crate::network::is_loopback;
use crate::settings::ServerSettings;
use crate::start_error::StartError;

/// Returns all addresses of the settings.
fn addresses(settings: &ServerSettings) -> impl Iterator<Item = SocketAddr> {
    let first = settings.resp.iter().chain(&settings.http);
    first.chain(&settings.more_resp).chain(&settings.more_http).copied()
}

/// Returns those of `addresses` that other machines reach.
pub(crate) fn exposed(addresses: impl IntoIterator<Item = SocketAddr>) -> impl Iterator<Item = SocketAddr> {
    addresses.into_iter().filter(|addr| !is_loopback(addr.ip()))
}

/// Checks that addresses that other machines reach have tokens and TLS, or explicitly do without.
pub(crate) fn check_exposure(settings: &ServerSettings) -> Result<(), StartError> {
    if addresses(settings).next().is_none() {
        return Err(StartError::Nowhere);
    }
    let Some(addr) = exposed(addresses(settings)).next() else { return Ok(()) };
    if settings.tokens.is_none() && !settings.insecure_no_auth {
        return Err(StartError::Exposed(addr));
    }
    if settings.tls.is_none() && !settings.plaintext {
        return Err(StartError::Plain(addr));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::TlsFiles;

    /// Returns the error of the settings.
    fn outcome(addr: &str, change: impl Fn(&mut ServerSettings)) -> &'static str {
        let addr: SocketAddr = addr.parse().unwrap();
        let mut said = Vec::new();
        for place in 0..4 {
            let mut settings = ServerSettings::default();
            match place {
                0 => settings.resp = Some(addr),
                1 => settings.http = Some(addr),
                2 => settings.more_resp.push(addr),
                _ => settings.more_http.push(addr),
            }
            change(&mut settings);
            said.push(match check_exposure(&settings) {
                Ok(()) => "starts",
                Err(StartError::Exposed(found)) if found == addr => "tokens",
                Err(StartError::Plain(found)) if found == addr => "tls",
                Err(error) => panic!("{error}"),
            });
        }
        assert!(said.iter().all(|word| *word == said[0]), "whichever listener it is: {said:?}");
        said[0]
    }

    #[test]
    fn off_loopback_nothing_starts_without_tokens_and_tls_unless_it_is_said() {
        let tokens = |settings: &mut ServerSettings| settings.tokens = Some("tokens".into());
        let open = |settings: &mut ServerSettings| settings.insecure_no_auth = true;
        let tls = |settings: &mut ServerSettings| {
            settings.tls = Some(TlsFiles { cert: "cert".into(), key: "key".into() });
        };
        let plain = |settings: &mut ServerSettings| settings.plaintext = true;
        for outside in ["0.0.0.0:1", "[::]:1", "192.0.2.1:1", "[2001:db8::1]:1", "[::ffff:192.0.2.1]:1", "10.0.0.1:1"] {
            assert_eq!(outcome(outside, |_| ()), "tokens", "{outside}");
            assert_eq!(outcome(outside, tls), "tokens");
            assert_eq!(outcome(outside, plain), "tokens");
            assert_eq!(outcome(outside, |settings| settings.require_token = true), "tokens");
            assert_eq!(outcome(outside, tokens), "tls");
            assert_eq!(outcome(outside, open), "tls");
            for (who, how) in [
                (&tokens as &dyn Fn(&mut ServerSettings), &tls as &dyn Fn(&mut ServerSettings)),
                (&tokens, &plain),
                (&open, &tls),
                (&open, &plain),
            ] {
                let both = |settings: &mut ServerSettings| {
                    who(settings);
                    how(settings);
                };
                assert_eq!(outcome(outside, both), "starts");
            }
        }
        for inside in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(outcome(inside, |_| ()), "starts", "{inside}");
        }
    }

    #[test]
    fn a_server_listens_somewhere_and_by_default_on_loopback_alone() {
        assert_eq!(exposed(addresses(&ServerSettings::default())).count(), 0);
        let nowhere = ServerSettings { resp: None, http: None, ..ServerSettings::default() };
        assert!(matches!(check_exposure(&nowhere), Err(StartError::Nowhere)));
    }

    #[test]
    fn the_errors_say_how() {
        let addr = "0.0.0.0:7379".parse().unwrap();
        let said = StartError::Exposed(addr).to_string();
        for word in ["0.0.0.0:7379", "--tokens FILE", "tollgate token", "--insecure-no-auth"] {
            assert!(said.contains(word), "{said}");
        }
        let said = StartError::Plain(addr).to_string();
        for word in ["0.0.0.0:7379", "--tls-cert FILE --tls-key FILE", "--plaintext"] {
            assert!(said.contains(word), "{said}");
        }
    }
}
