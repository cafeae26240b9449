//! Moving slots from one primary to another while clients go on: what `redis-cli --cluster reshard` does,
//! for the slots that a test names.

use redis::Connection;

use crate::cluster::{Cluster, id};
use crate::error::{Error, ErrorContext};
use crate::server::Server;

/// Keys in one MIGRATE.
const BATCH: usize = 100;
/// Ten million keys in a slot are no test of ours.
const BATCHES: usize = 100_000;

impl Cluster {
    /// Moves slots with their keys, one after the other, and returns how many keys moved. Clients that ask
    /// meanwhile are redirected: ASK for keys that moved ahead of their slot, MOVED after it.
    pub fn reshard(&self, slots: impl IntoIterator<Item = u16>, from: usize, to: usize) -> Result<usize, Error> {
        let (from, to) = (self.node(from)?, self.node(to)?);
        let mut others = Vec::new();
        for number in self.primaries() {
            let node = self.node(number)?;
            if node.port() != from.port() && node.port() != to.port() {
                others.push(node.connection()?);
            }
        }
        let mut migration = SlotMigration { from: MigrationEnd::of(from)?, to: MigrationEnd::of(to)?, others };
        let mut moved = 0;
        for slot in slots {
            moved += migration.carry(slot)?;
        }
        Ok(moved)
    }
}

struct SlotMigration {
    from: MigrationEnd,
    to: MigrationEnd,
    /// Primaries that have to learn the new owner.
    others: Vec<Connection>,
}

struct MigrationEnd {
    id: String,
    port: u16,
    connection: Connection,
}

impl MigrationEnd {
    fn of(node: &Server) -> Result<Self, Error> {
        Ok(Self { id: id(node)?, port: node.port(), connection: node.connection()? })
    }
}

impl SlotMigration {
    fn carry(&mut self, slot: u16) -> Result<usize, Error> {
        set_slot(&mut self.to.connection, slot, "IMPORTING", &self.from.id)?;
        set_slot(&mut self.from.connection, slot, "MIGRATING", &self.to.id)?;
        let moved = self.carry_keys(slot)?;
        // The new owner first: if it were told last, a client could be sent to one that sends it back.
        set_slot(&mut self.to.connection, slot, "NODE", &self.to.id)?;
        set_slot(&mut self.from.connection, slot, "NODE", &self.to.id)?;
        for other in &mut self.others {
            set_slot(other, slot, "NODE", &self.to.id)?;
        }
        Ok(moved)
    }

    /// New keys are made at the other end by now, so this ends.
    fn carry_keys(&mut self, slot: u16) -> Result<usize, Error> {
        let mut moved = 0;
        for _ in 0..BATCHES {
            let mut ask = redis::cmd("CLUSTER");
            ask.arg("GETKEYSINSLOT").arg(slot).arg(BATCH);
            let keys: Vec<Vec<u8>> = ask.query(&mut self.from.connection).doing("asking for the keys of a slot")?;
            if keys.is_empty() {
                return Ok(moved);
            }
            let mut migrate = redis::cmd("MIGRATE");
            migrate.arg("127.0.0.1").arg(self.to.port).arg("").arg(0).arg(5_000).arg("KEYS").arg(&keys);
            migrate.exec(&mut self.from.connection).doing(format!("moving keys of slot {slot}"))?;
            moved += keys.len();
        }
        Err(Error::Unexpected(format!("slot {slot} does not run out of keys")))
    }
}

fn set_slot(node: &mut Connection, slot: u16, what: &str, id: &str) -> Result<(), Error> {
    let mut command = redis::cmd("CLUSTER");
    command.arg("SETSLOT").arg(slot).arg(what).arg(id).exec(node).doing(format!("SETSLOT {slot} {what}"))
}
