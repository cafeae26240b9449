//! Keys that are made of parts: those that a caller states, or those that the gate reads from the forwarded request.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use hyper::header::{HeaderName, HeaderValue};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use tollgate_config::{KeyPart, join};
use tollgate_http::{Prefix, read_address};

use super::call::HttpCall;
use super::path;
use super::problem::HttpProblem;
use tollgate_engine::EnginePolicy;
use tollgate_keyspace::{Fault, FaultCode, quoted};

/// The fields in which a proxy describes the request that it asks about.
const METHOD: HeaderName = HeaderName::from_static("x-forwarded-method");
const URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
const HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// The parts of a key by their names, each given once.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyParts(BTreeMap<String, String>);

struct KeyPartsVisitor;

impl<'de> Visitor<'de> for KeyPartsVisitor {
    type Value = KeyParts;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of texts, such as {\"user\": \"42\"}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<KeyParts, A::Error> {
        let mut parts = BTreeMap::new();
        while let Some((name, value)) = fields.next_entry::<String, String>()? {
            if parts.insert(name.clone(), value).is_some() {
                return Err(A::Error::custom(format!("expected {} once", quoted(name.as_bytes()))));
            }
        }
        Ok(KeyParts(parts))
    }
}

impl<'de> Deserialize<'de> for KeyParts {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(KeyPartsVisitor)
    }
}

/// Returns the parts that a policy's keys are made of; empty if callers name the key.
pub(super) fn key_parts(known: &EnginePolicy) -> &[KeyPart] {
    known.entry.as_deref().map_or(&[], |entry| &entry.key)
}

/// Returns the key of the parts that a caller stated.
pub(super) fn stated_key(known: &EnginePolicy, KeyParts(mut stated): KeyParts) -> Result<Vec<u8>, Fault> {
    let parts = key_parts(known);
    if parts.is_empty() {
        return Err(unfit("parts: expected key, since the keys of this policy are not made of parts"));
    }
    let names = || parts.iter().map(KeyPart::to_string).collect::<Vec<_>>().join(", ");
    let mut values = Vec::with_capacity(parts.len());
    for part in parts {
        let value = stated.remove(&part.to_string());
        let value = value.ok_or_else(|| unfit(&format!("parts: expected {}, found no {part}", names())))?;
        values.push(normalize(part, value)?);
    }
    if let Some(name) = stated.keys().next() {
        return Err(unfit(&Fault::expected("parts", &names(), name.as_bytes()).text));
    }
    let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
    Ok(join(&values))
}

/// Returns a part in the form that the gate gives it, so that both count the same requests together.
fn normalize(part: &KeyPart, value: String) -> Result<Vec<u8>, Fault> {
    Ok(match part {
        KeyPart::Address => address(&value)?.to_string().into_bytes(),
        KeyPart::Path => path::normalize(value.as_bytes()),
        KeyPart::Host => value.to_ascii_lowercase().into_bytes(),
        KeyPart::Method | KeyPart::Header(_) | KeyPart::Field(_) => value.into_bytes(),
    })
}

/// Parses an address, or a network of 64 bits as keys write it.
fn address(text: &str) -> Result<Prefix, Fault> {
    let network = text.strip_suffix("/64").and_then(|network| network.parse::<Ipv6Addr>().ok());
    let address = network.map(IpAddr::V6).or_else(|| read_address(text.as_bytes()));
    let expected = "an address such as 203.0.113.7 or 2001:db8::1";
    address.map(Prefix::of).ok_or_else(|| Fault::expected("parts.address", expected, text.as_bytes()))
}

/// Returns the error of a valid request that does not fit the policy as it is now.
fn unfit(text: &str) -> Fault {
    Fault::new(FaultCode::Unfit, text)
}

/// Returns the key of a request that a proxy asks about.
pub(super) fn forwarded_key(call: &HttpCall<'_>, parts: &[KeyPart]) -> Result<Vec<u8>, HttpProblem> {
    let values: Vec<Vec<u8>> = parts.iter().map(|part| forwarded_part(call, part)).collect::<Result<_, _>>()?;
    let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
    Ok(join(&values))
}

fn forwarded_part(call: &HttpCall<'_>, part: &KeyPart) -> Result<Vec<u8>, HttpProblem> {
    Ok(match part {
        KeyPart::Address => {
            let address = call.shared.http.trusted.client(call.peer.ip(), call.headers());
            Prefix::of(address).to_string().into_bytes()
        }
        KeyPart::Method => match forwarded(call, &METHOD)? {
            Some(method) => method.as_bytes().to_vec(),
            // Many proxies send their question with the method of their client.
            None => call.parts.method.as_str().into(),
        },
        KeyPart::Path => {
            let uri = forwarded(call, &URI)?.ok_or_else(|| missing_header(part, &URI))?.as_bytes();
            path::normalize(uri)
        }
        KeyPart::Host => {
            forwarded(call, &HOST)?.ok_or_else(|| missing_header(part, &HOST))?.as_bytes().to_ascii_lowercase()
        }
        KeyPart::Header(name) => {
            let name = HeaderName::try_from(&**name)
                .map_err(|_| Fault::expected("key", "the name of a header", name.as_bytes()))?;
            let value = once(call, &name)?;
            value.ok_or_else(|| HttpProblem::bad_request(format!("expected the header {name}")))?.as_bytes().to_vec()
        }
        KeyPart::Field(name) => {
            let text = format!("expected a policy that the gate can make the key of, found one with the part {name}");
            return Err(HttpProblem::bad_request(text));
        }
    })
}

/// Returns a field in which a trusted proxy describes its client's request. From any other peer the field is ignored,
/// since its value cannot be trusted.
fn forwarded<'a>(call: &'a HttpCall<'_>, name: &HeaderName) -> Result<Option<&'a HeaderValue>, HttpProblem> {
    match call.shared.http.trusted.trusts(call.peer.ip()) {
        true => once(call, name),
        false => Ok(None),
    }
}

/// Returns a field that occurs once and is not empty. With several, the application might read another one than this
/// server.
fn once<'a>(call: &'a HttpCall<'_>, name: &HeaderName) -> Result<Option<&'a HeaderValue>, HttpProblem> {
    let mut values = call.headers().get_all(name).iter().filter(|value| !value.is_empty());
    match (values.next(), values.next()) {
        (_, Some(_)) => Err(HttpProblem::bad_request(format!("{name}: expected it once"))),
        (value, None) => Ok(value),
    }
}

fn missing_header(part: &KeyPart, name: &HeaderName) -> HttpProblem {
    HttpProblem::bad_request(format!(
        "expected the header {name} of a proxy named with --trusted-proxy: the key has the {part}"
    ))
}
