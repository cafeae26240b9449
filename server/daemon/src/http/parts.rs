//! Keys that are made of parts: those that a caller states, or those that the gate reads from the forwarded request.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use hyper::header::{HeaderName, HeaderValue};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use tollgate_config::{KeyPart, join};
use tollgate_http::{Prefix, read_address};

use super::call::Call;
use super::path;
use super::problem::Problem;
use tollgate_engine::Known;
use tollgate_keyspace::{Code, Fault, quoted};

/// The fields in which a proxy describes the request that it asks about.
const METHOD: HeaderName = HeaderName::from_static("x-forwarded-method");
const URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
const HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// The parts of a key by their names, each given once.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts(BTreeMap<String, String>);

struct Reads;

impl<'de> Visitor<'de> for Reads {
    type Value = Parts;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of texts, such as {\"user\": \"42\"}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Parts, A::Error> {
        let mut parts = BTreeMap::new();
        while let Some((name, value)) = fields.next_entry::<String, String>()? {
            if parts.insert(name.clone(), value).is_some() {
                return Err(A::Error::custom(format!("expected {} once", quoted(name.as_bytes()))));
            }
        }
        Ok(Parts(parts))
    }
}

impl<'de> Deserialize<'de> for Parts {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Reads)
    }
}

/// Returns the parts that a policy's keys are made of; empty if callers name the key.
pub(super) fn made_of(known: &Known) -> &[KeyPart] {
    known.entry.as_deref().map_or(&[], |entry| &entry.key)
}

/// Returns the key of the parts that a caller stated.
pub(super) fn told(known: &Known, Parts(mut told): Parts) -> Result<Vec<u8>, Fault> {
    let parts = made_of(known);
    if parts.is_empty() {
        return Err(unfit("parts: expected key, since the keys of this policy are not made of parts"));
    }
    let names = || parts.iter().map(KeyPart::to_string).collect::<Vec<_>>().join(", ");
    let mut values = Vec::with_capacity(parts.len());
    for part in parts {
        let value = told.remove(&part.to_string());
        let value = value.ok_or_else(|| unfit(&format!("parts: expected {}, found no {part}", names())))?;
        values.push(normal(part, value)?);
    }
    if let Some(name) = told.keys().next() {
        return Err(unfit(&Fault::expected("parts", &names(), name.as_bytes()).text));
    }
    let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
    Ok(join(&values))
}

/// Returns a part in the form that the gate gives it, so that both count the same requests together.
fn normal(part: &KeyPart, value: String) -> Result<Vec<u8>, Fault> {
    Ok(match part {
        KeyPart::Address => address(&value)?.to_string().into_bytes(),
        KeyPart::Path => path::normal(value.as_bytes()),
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
    Fault::new(Code::Unfit, text)
}

/// Returns the key of a request that a proxy asks about.
pub(super) fn seen(call: &Call<'_>, parts: &[KeyPart]) -> Result<Vec<u8>, Problem> {
    let values: Vec<Vec<u8>> = parts.iter().map(|part| see(call, part)).collect::<Result<_, _>>()?;
    let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
    Ok(join(&values))
}

fn see(call: &Call<'_>, part: &KeyPart) -> Result<Vec<u8>, Problem> {
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
            let uri = forwarded(call, &URI)?.ok_or_else(|| lacks(part, &URI))?.as_bytes();
            path::normal(uri)
        }
        KeyPart::Host => forwarded(call, &HOST)?.ok_or_else(|| lacks(part, &HOST))?.as_bytes().to_ascii_lowercase(),
        KeyPart::Header(name) => {
            let name = HeaderName::try_from(&**name)
                .map_err(|_| Fault::expected("key", "the name of a header", name.as_bytes()))?;
            let value = once(call, &name)?;
            value.ok_or_else(|| Problem::wrong(format!("expected the header {name}")))?.as_bytes().to_vec()
        }
        KeyPart::Field(name) => {
            let text = format!("expected a policy that the gate can make the key of, found one with the part {name}");
            return Err(Problem::wrong(text));
        }
    })
}

/// Returns a field in which a trusted proxy describes its client's request. From any other peer the field is ignored,
/// since its value cannot be trusted.
fn forwarded<'a>(call: &'a Call<'_>, name: &HeaderName) -> Result<Option<&'a HeaderValue>, Problem> {
    match call.shared.http.trusted.trusts(call.peer.ip()) {
        true => once(call, name),
        false => Ok(None),
    }
}

/// Returns a field that occurs once and is not empty. With several, the application might read another one than this
/// server.
fn once<'a>(call: &'a Call<'_>, name: &HeaderName) -> Result<Option<&'a HeaderValue>, Problem> {
    let mut values = call.headers().get_all(name).iter().filter(|value| !value.is_empty());
    match (values.next(), values.next()) {
        (_, Some(_)) => Err(Problem::wrong(format!("{name}: expected it once"))),
        (value, None) => Ok(value),
    }
}

fn lacks(part: &KeyPart, name: &HeaderName) -> Problem {
    Problem::wrong(format!("expected the header {name} of a proxy named with --trusted-proxy: the key has the {part}"))
}
