//! Looking at every key: for tests of what is left behind, and for how long.

use std::collections::HashSet;

use crate::error::{Error, ErrorContext};
use crate::server::Server;

const BATCH: usize = 1_000;
/// More rounds than any test has keys.
const ROUNDS: usize = 10_000_000;

impl Server {
    /// Shows every key and the milliseconds it has left (-1: for ever), each key once. Keys that come or
    /// go meanwhile may be seen or not. Returns how many were seen.
    pub fn scan_all(&self, mut see: impl FnMut(&[u8], i64)) -> Result<usize, Error> {
        let mut connection = self.connection()?;
        let mut seen = HashSet::new();
        let mut cursor = 0_u64;
        for _ in 0..ROUNDS {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("COUNT").arg(BATCH);
            let (next, mut keys): (u64, Vec<Vec<u8>>) = scan.query(&mut connection).doing("scanning keys")?;
            keys.retain(|key| seen.insert(key.clone()));
            let mut asked = redis::pipe();
            for key in &keys {
                asked.cmd("PTTL").arg(key);
            }
            let left: Vec<i64> = if keys.is_empty() {
                Vec::new()
            } else {
                asked.query(&mut connection).doing("asking how long keys live")?
            };
            for (key, left) in keys.iter().zip(left) {
                // -2: gone since it was scanned.
                if left == -2 {
                    seen.remove(key);
                } else {
                    see(key, left);
                }
            }
            if next == 0 {
                return Ok(seen.len());
            }
            cursor = next;
        }
        Err(Error::Unexpected("a scan that does not end".to_owned()))
    }
}
