//! HTTP bodies of which half is sent: health and gate answer all the same.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::Sizes;
use crate::attack::http;
use crate::attack::stage::Stage;
use crate::attack::watch::{longest, paths};
use crate::{Failure, Report};

const BODIES: usize = 1_000;
/// How long is looked.
const LASTS: Duration = Duration::from_secs(3);

pub(super) fn bodies(sizes: &Sizes, report: &mut Report) -> Result<(), Failure> {
    let stage = Stage::started(sizes.caps, "  gate: 1000000/s gcra\n")?;
    let to = stage.http()?;
    let whole = http::request(to, &stage.tokens.check, "POST /v1/check", "{\"key\":\"u\",\"policy\":\"100/h\"}");
    let half = &whole.as_bytes()[..whole.len() - 10];
    let mut held = Vec::with_capacity(BODIES);
    for _ in 0..BODIES {
        let mut stream = TcpStream::connect_timeout(&to, LASTS)?;
        stream.write_all(half)?;
        held.push(stream);
    }
    let started = Instant::now();
    while started.elapsed() < LASTS && report.is_clean() {
        for (path, token) in paths(&stage.tokens) {
            let answer = http::ask(to, token, path, "", longest());
            let is_right = answer.as_ref().is_ok_and(|answer| answer.status == 200 && answer.took <= longest());
            report.demand(is_right, || {
                format!("{path} does not answer within {:?} beside {BODIES} half-sent bodies: {answer:?}", longest())
            });
        }
    }
    drop(held);
    stage.judge_memory(report)
}
