//! What can go wrong on the way, and to which connection: decided here, done in `relay.rs`.

use std::collections::VecDeque;
use std::time::Duration;

/// What a proxy does to a connection.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Fault {
    /// Nothing.
    #[default]
    Pass,
    /// Forwards exactly so many bytes from the client, then ends the connection at both sides. With 0 it
    /// ends at the client's first byte, and nothing is forwarded.
    CutRequest {
        /// Bytes forwarded.
        after: u64,
    },
    /// Forwards what the client sends, delivers exactly so many bytes of what the server answers, then
    /// ends the connection at both sides. With 0 it ends at the answer's first byte: the server has done
    /// what it was asked, and the client does not learn it.
    CutReply {
        /// Bytes delivered.
        after: u64,
    },
    /// Reads and forwards nothing, either way. What was read is lost, so a connection that lost bytes
    /// stays stalled until it ends, whatever is set later.
    Stall,
    /// Holds every chunk of bytes for so long, each way, one after the other.
    Delay(Duration),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Direction {
    /// From client to server.
    Up,
    /// Back.
    Down,
}

/// What to do with a chunk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ChunkAction {
    Forward {
        hold: Duration,
    },
    Swallow,
    /// Forward the first bytes of it, and cut.
    Cut {
        forward: usize,
    },
}

/// What is set for all connections, and what is armed for some.
#[derive(Debug, Default)]
pub(crate) struct FaultSettings {
    standing: Fault,
    /// Counts what was set, so that connections see that something new was, even if it is the same.
    generation: u64,
    once: Option<Fault>,
    next: VecDeque<Fault>,
}

impl FaultSettings {
    pub(crate) fn set(&mut self, fault: Fault) {
        self.standing = fault;
        self.generation += 1;
    }

    pub(crate) fn once(&mut self, fault: Fault) {
        self.once = Some(fault);
    }

    pub(crate) fn next(&mut self, connections: usize, fault: Fault) {
        self.next.extend(std::iter::repeat_n(fault, connections));
    }

    pub(crate) fn clear(&mut self) {
        self.once = None;
        self.next.clear();
        self.set(Fault::Pass);
    }

    /// How many faults wait for a connection.
    pub(crate) fn armed(&self) -> usize {
        self.next.len() + usize::from(self.once.is_some())
    }

    /// The course of a new connection.
    pub(crate) fn begin(&mut self) -> ConnectionFault {
        let own = self.next.pop_front();
        let fault = own.unwrap_or(self.standing);
        ConnectionFault { fault, own: own.is_some(), generation: self.generation, ..ConnectionFault::default() }
    }

    /// What to do with so many bytes of a connection.
    pub(crate) fn step(
        &mut self,
        connection_fault: &mut ConnectionFault,
        direction: Direction,
        bytes: usize,
    ) -> ChunkAction {
        if !connection_fault.own {
            let once = if direction == Direction::Up { self.once.take() } else { None };
            if let Some(fault) = once {
                connection_fault.turn(fault);
                connection_fault.own = true;
            } else if connection_fault.generation != self.generation {
                connection_fault.turn(self.standing);
                connection_fault.generation = self.generation;
            }
        }
        connection_fault.step(direction, bytes)
    }
}

/// What happens to one connection.
#[derive(Debug, Default)]
pub(crate) struct ConnectionFault {
    fault: Fault,
    /// Armed for this connection alone, and kept to its end.
    own: bool,
    generation: u64,
    /// Bytes towards the cut, since the fault was taken.
    counted: u64,
    lost: bool,
}

impl ConnectionFault {
    fn turn(&mut self, fault: Fault) {
        self.fault = fault;
        self.counted = 0;
    }

    fn step(&mut self, direction: Direction, bytes: usize) -> ChunkAction {
        if self.lost {
            return ChunkAction::Swallow;
        }
        match (self.fault, direction) {
            (Fault::CutRequest { after }, Direction::Up) | (Fault::CutReply { after }, Direction::Down) => {
                let room = usize::try_from(after - self.counted).unwrap_or(usize::MAX);
                if bytes >= room {
                    return ChunkAction::Cut { forward: room };
                }
                self.counted += bytes as u64;
                ChunkAction::Forward { hold: Duration::ZERO }
            }
            (Fault::Stall, _) => {
                self.lost = true;
                ChunkAction::Swallow
            }
            (Fault::Delay(hold), _) => ChunkAction::Forward { hold },
            _ => ChunkAction::Forward { hold: Duration::ZERO },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ON: ChunkAction = ChunkAction::Forward { hold: Duration::ZERO };

    #[test]
    fn a_cut_is_exact_across_chunks() {
        let mut settings = FaultSettings::default();
        settings.set(Fault::CutRequest { after: 10 });
        let mut connection_fault = settings.begin();
        assert_eq!(settings.step(&mut connection_fault, Direction::Up, 4), ON);
        assert_eq!(settings.step(&mut connection_fault, Direction::Down, 100), ON);
        assert_eq!(settings.step(&mut connection_fault, Direction::Up, 7), ChunkAction::Cut { forward: 6 });
    }

    #[test]
    fn an_old_connection_counts_from_when_the_fault_was_set() {
        let mut settings = FaultSettings::default();
        let mut connection_fault = settings.begin();
        assert_eq!(settings.step(&mut connection_fault, Direction::Up, 50), ON);
        settings.set(Fault::CutReply { after: 3 });
        assert_eq!(settings.step(&mut connection_fault, Direction::Up, 50), ON);
        assert_eq!(settings.step(&mut connection_fault, Direction::Down, 3), ChunkAction::Cut { forward: 3 });
    }

    #[test]
    fn what_is_armed_is_used_up_and_kept_by_its_connection() {
        let mut settings = FaultSettings::default();
        settings.next(1, Fault::Stall);
        let (mut first, mut second) = (settings.begin(), settings.begin());
        settings.set(Fault::Pass);
        assert_eq!(settings.step(&mut first, Direction::Up, 1), ChunkAction::Swallow);
        assert_eq!(settings.step(&mut second, Direction::Up, 1), ON);
        settings.once(Fault::CutRequest { after: 0 });
        assert_eq!(settings.step(&mut second, Direction::Down, 1), ON, "an answer does not take it");
        assert_eq!(settings.step(&mut second, Direction::Up, 1), ChunkAction::Cut { forward: 0 });
        assert_eq!(settings.armed(), 0);
    }

    #[test]
    fn a_connection_that_lost_bytes_stays_stalled() {
        let mut settings = FaultSettings::default();
        settings.set(Fault::Stall);
        let mut connection_fault = settings.begin();
        assert_eq!(settings.step(&mut connection_fault, Direction::Up, 1), ChunkAction::Swallow);
        settings.clear();
        assert_eq!(settings.step(&mut connection_fault, Direction::Up, 1), ChunkAction::Swallow);
    }
}
