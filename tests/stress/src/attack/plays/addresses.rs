//! One address in many spellings is one client, and what is no address gets no bucket of its own each time.

use super::Sizes;
use crate::attack::stage::Stage;
use crate::{Failure, Report};

/// Spellings of clients: all of a line are the same.
const SAME: &[&[&str]] = &[
    &["1.2.3.4", "::ffff:1.2.3.4", "1.2.3.4:80", "::ffff:102:304", "[::ffff:1.2.3.4]:443"],
    &["2001:db8::1", "2001:db8::2", "2001:DB8:0:0:0:0:0:1", "[2001:db8::1]:80", "2001:db8:0:0:ffff::"],
];
/// What is no address, each with a number.
const NONE: u64 = 20;

pub(super) fn spellings(sizes: &Sizes, report: &mut Report) -> Result<(), Failure> {
    let stage = Stage::started(sizes.caps, "  login:\n    limit: 1/h\n    key: [address]\n")?;
    let is_granted = |address: &str| -> Result<bool, Failure> {
        let json = format!("{{\"policy\":\"login\",\"parts\":{{\"address\":\"{address}\"}}}}");
        let answer = stage.post("/v1/check", &json)?;
        Ok(answer.status == 200 && answer.body.contains("\"allowed\":true"))
    };
    for spellings in SAME {
        let mut granted = Vec::new();
        for address in *spellings {
            if is_granted(address)? {
                granted.push(*address);
            }
        }
        report.demand(granted.len() <= 1, || {
            format!("one client has many buckets: each of {} is granted under 1/h", granted.join(", "))
        });
    }
    let mut granted = 0;
    for number in 0..NONE {
        granted += u64::from(is_granted(&format!("not an address {number}"))?);
    }
    report.demand(granted <= 1, || {
        format!("what is no address gets a bucket each: {granted} of {NONE} texts are granted under 1/h")
    });
    Ok(())
}
