//! Keys of requests, in tables.

use http::Request;
use tollgate_http::Proxies;
use tollgate_random::Rng;

use super::*;

fn parts(uri: &str, headers: &[(&str, &str)]) -> Parts {
    let mut request = Request::builder().uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut parts = request.body(()).unwrap().into_parts().0;
    parts.extensions.insert(Peer("203.0.113.7:4711".parse().unwrap()));
    parts.extensions.insert("alice".to_owned());
    parts
}

fn key(key: &dyn Key, parts: &Parts) -> Result<String, KeyError> {
    let mut written = KeyBuf::new();
    key.write(parts, &mut written)?;
    Ok(String::from_utf8_lossy(written.as_bytes()).into_owned())
}

#[test]
fn every_kind_of_key_says_what_it_is() {
    let request = parts("/users/42/posts?x=1", &[("x-api-key", "k1"), ("authorization", "Bearer t1")]);
    let rows: [(&dyn Key, &str); 9] = [
        (&ClientIp::peer(), "address:203.0.113.7"),
        (&HeaderKey::new("X-Api-Key").unwrap(), "header:x-api-key:k1"),
        (&TokenKey::bearer(), "token:t1"),
        (&PathKey::whole(), "path:/users/42/posts"),
        (&PathKey::segments(1), "path:/users"),
        (&PathKey::segments(2), "path:/users/42"),
        (&ExtensionKey::<String>::new(), "extension:alice"),
        (&key_fn(|parts: &Parts| parts.uri.query().map(str::to_owned)), "x=1"),
        (&(ClientIp::peer(), PathKey::segments(1), TokenKey::bearer()), "address:203.0.113.7|path:/users|token:t1"),
    ];
    for (kind, told) in rows {
        assert_eq!(key(kind, &request).unwrap(), told);
    }
}

#[test]
fn a_missing_part_is_the_requests_fault_and_another_key_may_take_its_place() {
    let request = parts("/", &[]);
    let header = || HeaderKey::new("x-api-key").unwrap();
    assert!(matches!(key(&header(), &request), Err(KeyError::Missing(_))));
    assert!(matches!(key(&TokenKey::bearer(), &request), Err(KeyError::Missing(_))));
    assert_eq!(key(&header().or(ClientIp::peer()), &request).unwrap(), "address:203.0.113.7");
    assert_eq!(
        key(&(PathKey::whole(), header().or(TokenKey::bearer()).or(ClientIp::peer())), &request).unwrap(),
        "path:/|address:203.0.113.7"
    );
    // Of two headers, the application may read a different one than this layer.
    let twice = parts("/", &[("x-api-key", "a"), ("x-api-key", "b")]);
    assert!(matches!(key(&header(), &twice), Err(KeyError::Missing(_))));
    for wrong in ["Basic abc", "Bearer", "Bearer ", "bearer\tx", "é"] {
        let request = parts("/", &[("authorization", wrong)]);
        assert!(matches!(key(&TokenKey::bearer(), &request), Err(KeyError::Missing(_))), "{wrong}");
    }
    assert_eq!(key(&TokenKey::bearer(), &parts("/", &[("authorization", "bEARER  x ")])).unwrap(), "token:x");
}

#[test]
fn no_two_combinations_have_one_key() {
    let pair = || (HeaderKey::new("a").unwrap(), HeaderKey::new("b").unwrap());
    let values = ["x", "x|", "|x", "\\", "\\|", "|", "x\\", "x|header:b:y", "\\\\|"];
    let mut seen = std::collections::HashMap::new();
    for a in values {
        for b in values {
            let written = key(&pair(), &parts("/", &[("a", a), ("b", b)])).unwrap();
            if let Some(other) = seen.insert(written.clone(), (a, b)) {
                panic!("{other:?} and {:?} are both {written}", (a, b));
            }
        }
    }
}

#[test]
fn combinations_are_joined_as_the_servers_are() {
    let request = parts("/", &[("a", "x|y\\z"), ("b", "||")]);
    let written = key(&(HeaderKey::new("a").unwrap(), HeaderKey::new("b").unwrap()), &request).unwrap();
    assert_eq!(written, r"header:a:x\|y\\z|header:b:\|\|");
}

#[test]
fn keys_are_as_long_as_they_may_be_and_no_longer() {
    let longest = "x".repeat(MAX_KEY - "header:k:".len());
    let header = HeaderKey::new("k").unwrap();
    assert_eq!(key(&header, &parts("/", &[("k", &longest)])).unwrap().len(), MAX_KEY);
    assert_eq!(key(&header, &parts("/", &[("k", &format!("{longest}x"))])), Err(KeyError::TooLong));
}

#[test]
fn without_the_peers_address_the_service_is_put_together_wrongly() {
    let bare = Request::new(()).into_parts().0;
    let Err(KeyError::Setup(hint)) = key(&ClientIp::peer(), &bare) else { panic!("expected a hint") };
    assert!(hint.contains("into_make_service_with_connect_info"), "{hint}");
    assert!(matches!(key(&ExtensionKey::<Vec<u8>>::new(), &bare), Err(KeyError::Setup(_))));
}

#[test]
fn addresses_behind_proxies_and_networks() {
    let behind = ClientIp::behind(Proxies::new(["203.0.113.7"]).unwrap());
    let forwarded = |value| parts("/", &[("x-forwarded-for", value)]);
    assert_eq!(key(&behind, &forwarded("198.51.100.1")).unwrap(), "address:198.51.100.1");
    assert_eq!(key(&ClientIp::peer(), &forwarded("198.51.100.1")).unwrap(), "address:203.0.113.7");
    assert_eq!(key(&behind, &forwarded("2001:db8:1:2:3::4")).unwrap(), "address:2001:db8:1:2::/64");
    assert_eq!(key(&behind.clone().v6_prefix(48), &forwarded("2001:db8:1:2:3::4")).unwrap(), "address:2001:db8:1::/48");
}

#[test]
fn a_key_is_whole_wherever_it_is_kept() {
    let mut rng = Rng::new(7);
    for case in 0..2_000 {
        let (mut key, mut whole) = (KeyBuf::new(), Vec::new());
        for _ in 0..rng.below(12) {
            if rng.one_in(4) {
                let len = rng.index(whole.len() + 2);
                key.truncate(len);
                whole.truncate(len);
            }
            let part = vec![rng.next_u64() as u8; rng.index(140)];
            let fits = whole.len() + part.len() <= MAX_KEY;
            assert_eq!(key.push(&part), if fits { Ok(()) } else { Err(KeyError::TooLong) }, "case {case}");
            if fits {
                whole.extend_from_slice(&part);
            }
            assert_eq!((key.as_bytes(), key.len()), (whole.as_slice(), whole.len()), "case {case}");
        }
    }
}
