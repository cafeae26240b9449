//! A client for the examples: it asks as `curl -i` would, and prints what came back.

use std::error::Error;

use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;

pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// Asks one server.
pub(crate) struct Curl {
    client: Client<HttpConnector, Full<Bytes>>,
    server: std::net::SocketAddr,
}

/// What came back.
pub(crate) struct Answer(Response<Bytes>);

impl Curl {
    pub(crate) fn new(server: std::net::SocketAddr) -> Self {
        Self { client: Client::builder(TokioExecutor::new()).build_http(), server }
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Answer, Failure> {
        self.ask(Method::GET, path, &[]).await
    }

    pub(crate) async fn ask(&self, method: Method, path: &str, headers: &[(&str, &str)]) -> Result<Answer, Failure> {
        let mut request = Request::builder().method(&method).uri(format!("http://{}{path}", self.server));
        let mut line = format!("$ curl -i -X {method} {path}");
        for (name, value) in headers {
            request = request.header(*name, *value);
            line += &format!(" -H '{name}: {value}'");
        }
        println!("{line}");
        let (parts, body) = self.client.request(request.body(Full::default())?).await?.into_parts();
        let answer = Answer(Response::from_parts(parts, body.collect().await?.to_bytes()));
        println!("{}", answer.status());
        for line in answer.lines() {
            println!("{line}");
        }
        println!("\n{}\n", answer.body());
        Ok(answer)
    }
}

impl Answer {
    /// `200 OK`.
    pub(crate) fn status(&self) -> String {
        self.0.status().to_string()
    }

    pub(crate) fn body(&self) -> String {
        String::from_utf8_lossy(self.0.body()).trim_end().to_owned()
    }

    /// The header lines, without those that every server sends.
    pub(crate) fn lines(&self) -> Vec<String> {
        let fields = self.0.headers().iter().filter(|(name, _)| !["date", "content-length"].contains(&name.as_str()));
        fields.map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes()))).collect()
    }

    /// Whether this header line is there, to the letter.
    pub(crate) fn says(&self, line: &str) -> bool {
        self.lines().iter().any(|found| found == line)
    }
}
