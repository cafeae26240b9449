//! One question over HTTP, its JSON as the integers of the flat reply.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::wire::{KeyAndPolicy, refuse};
use crate::home::Refusal;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection that is kept.
pub(super) struct Http {
    stream: BufReader<TcpStream>,
    host: String,
    token: String,
}

impl Http {
    pub(super) fn open(addr: SocketAddr, token: String) -> Result<Self, Refusal> {
        let stream = TcpStream::connect(addr).map_err(refuse)?;
        stream.set_nodelay(true).map_err(refuse)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(refuse)?;
        Ok(Self { stream: BufReader::new(stream), host: addr.to_string(), token })
    }

    pub(super) fn native(&mut self, call: &str, on: &[KeyAndPolicy<'_>], args: &[&str]) -> Result<Vec<i64>, Refusal> {
        let Some((first, policy)) = on.first() else { return Err(Refusal::new("expected a key")) };
        match (call, args) {
            ("tollgate" | "tollgate_peek", ["COST", cost, "MODE", mode, "FULL"]) => {
                let mut body = part(&(*first, policy), cost)?;
                body.insert("mode".to_owned(), json!(mode));
                let path = if call == "tollgate" { "/v1/check" } else { "/v1/peek" };
                let answer = self.post(path, &Value::Object(body))?;
                let mut flat = decision(&answer, policy)?;
                let limits = answer["limits"].as_array().ok_or_else(|| odd(&answer))?;
                for limit in limits {
                    flat.extend(numbers(limit, &["fits", "remaining", "retry_after_us", "reset_after_us", "count"])?);
                }
                Ok(flat)
            }
            ("tollgate_reset", []) => {
                let mut body = part(&(*first, policy), "1")?;
                body.remove("cost");
                let answer = self.post("/v1/reset", &Value::Object(body))?;
                numbers(&answer, &["reset"])
            }
            ("tollgate_refund", [units, at]) => {
                let mut body = part(&(*first, policy), "1")?;
                body.remove("cost");
                body.insert("units".to_owned(), json!(units.parse::<u64>().map_err(refuse)?));
                body.insert("at_us".to_owned(), json!(at.parse::<u64>().map_err(refuse)?));
                numbers(&self.post("/v1/refund", &Value::Object(body))?, &["refunded"])
            }
            ("tollgate_all", costs) => {
                let items: Result<Vec<_>, _> = on.iter().zip(costs).map(|(on, cost)| part(on, cost)).collect();
                let answer = self.post("/v1/batch", &json!({"items": items?, "all_or_none": true}))?;
                let mut flat = numbers(&answer, &["allowed", "retry_after_us"])?;
                let decisions = answer["decisions"].as_array().ok_or_else(|| odd(&answer))?;
                for (each, (_, policy)) in decisions.iter().zip(on) {
                    flat.extend(decision(each, policy)?);
                }
                Ok(flat)
            }
            _ => Err(Refusal::new(format!("{call} {args:?}: no such question over HTTP"))),
        }
    }

    fn post(&mut self, path: &str, body: &Value) -> Result<Value, Refusal> {
        let body = body.to_string();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.host,
            self.token,
            body.len()
        );
        self.stream.get_mut().write_all(request.as_bytes()).map_err(refuse)?;
        let (mut line, mut status, mut length) = (String::new(), String::new(), 0);
        loop {
            line.clear();
            if self.stream.read_line(&mut line).map_err(refuse)? == 0 {
                return Err(Refusal::new("the server ended the connection"));
            }
            let trimmed = line.trim_end();
            if status.is_empty() {
                status = trimmed.to_owned();
            } else if trimmed.is_empty() {
                break;
            } else if let Some((name, value)) = trimmed.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().map_err(refuse)?;
            }
        }
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).map_err(refuse)?;
        let answer: Value = serde_json::from_slice(&bytes).map_err(refuse)?;
        if status.contains(" 200 ") { Ok(answer) } else { Err(Refusal::new(format!("{status}: {answer}"))) }
    }
}

fn part((key, policy): &KeyAndPolicy<'_>, cost: &str) -> Result<Map<String, Value>, Refusal> {
    let key = std::str::from_utf8(key).map_err(refuse)?;
    let mut body = Map::new();
    body.insert("key".to_owned(), json!(key));
    body.insert("policy".to_owned(), json!(policy.to_string()));
    body.insert("cost".to_owned(), json!(cost.parse::<u64>().map_err(refuse)?));
    if !policy.name().is_empty() {
        body.insert("name".to_owned(), json!(policy.name()));
    }
    Ok(body)
}

/// The nine integers of a decision.
fn decision(answer: &Value, policy: &tollgate_kernel::Policy) -> Result<Vec<i64>, Refusal> {
    let mut flat = numbers(answer, &["allowed", "granted", "remaining", "retry_after_us", "reset_after_us"])?;
    let limited_by = match &answer["limited_by"] {
        Value::Null => 0,
        Value::String(name) => {
            let place = policy.limits().iter().position(|limit| limit.name() == *name);
            place.map_or(-1, |place| place as i64 + 1)
        }
        _ => return Err(odd(answer)),
    };
    flat.push(limited_by);
    flat.extend(numbers(answer, &["charged", "next_after_us", "at_us"])?);
    Ok(flat)
}

fn numbers(answer: &Value, names: &[&str]) -> Result<Vec<i64>, Refusal> {
    let number = |name: &&str| match &answer[*name] {
        Value::Bool(is) => Some(i64::from(*is)),
        other => other.as_i64(),
    };
    names.iter().map(number).collect::<Option<_>>().ok_or_else(|| odd(answer))
}

fn odd(answer: &Value) -> Refusal {
    Refusal::new(format!("an answer of another form: {answer}"))
}
