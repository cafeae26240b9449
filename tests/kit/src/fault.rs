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
pub(crate) enum Way {
    /// From client to server.
    Up,
    /// Back.
    Down,
}

/// What to do with a chunk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Step {
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
pub(crate) struct Orders {
    standing: Fault,
    /// Counts what was set, so that connections see that something new was, even if it is the same.
    generation: u64,
    once: Option<Fault>,
    next: VecDeque<Fault>,
}

impl Orders {
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
    pub(crate) fn begin(&mut self) -> Course {
        let own = self.next.pop_front();
        let fault = own.unwrap_or(self.standing);
        Course { fault, own: own.is_some(), generation: self.generation, ..Course::default() }
    }

    /// What to do with so many bytes of a connection.
    pub(crate) fn step(&mut self, course: &mut Course, way: Way, bytes: usize) -> Step {
        if !course.own {
            let once = if way == Way::Up { self.once.take() } else { None };
            if let Some(fault) = once {
                course.turn(fault);
                course.own = true;
            } else if course.generation != self.generation {
                course.turn(self.standing);
                course.generation = self.generation;
            }
        }
        course.step(way, bytes)
    }
}

/// What happens to one connection.
#[derive(Debug, Default)]
pub(crate) struct Course {
    fault: Fault,
    /// Armed for this connection alone, and kept to its end.
    own: bool,
    generation: u64,
    /// Bytes towards the cut, since the fault was taken.
    counted: u64,
    lost: bool,
}

impl Course {
    fn turn(&mut self, fault: Fault) {
        self.fault = fault;
        self.counted = 0;
    }

    fn step(&mut self, way: Way, bytes: usize) -> Step {
        if self.lost {
            return Step::Swallow;
        }
        match (self.fault, way) {
            (Fault::CutRequest { after }, Way::Up) | (Fault::CutReply { after }, Way::Down) => {
                let room = usize::try_from(after - self.counted).unwrap_or(usize::MAX);
                if bytes >= room {
                    return Step::Cut { forward: room };
                }
                self.counted += bytes as u64;
                Step::Forward { hold: Duration::ZERO }
            }
            (Fault::Stall, _) => {
                self.lost = true;
                Step::Swallow
            }
            (Fault::Delay(hold), _) => Step::Forward { hold },
            _ => Step::Forward { hold: Duration::ZERO },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ON: Step = Step::Forward { hold: Duration::ZERO };

    #[test]
    fn a_cut_is_exact_across_chunks() {
        let mut orders = Orders::default();
        orders.set(Fault::CutRequest { after: 10 });
        let mut course = orders.begin();
        assert_eq!(orders.step(&mut course, Way::Up, 4), ON);
        assert_eq!(orders.step(&mut course, Way::Down, 100), ON);
        assert_eq!(orders.step(&mut course, Way::Up, 7), Step::Cut { forward: 6 });
    }

    #[test]
    fn an_old_connection_counts_from_when_the_fault_was_set() {
        let mut orders = Orders::default();
        let mut course = orders.begin();
        assert_eq!(orders.step(&mut course, Way::Up, 50), ON);
        orders.set(Fault::CutReply { after: 3 });
        assert_eq!(orders.step(&mut course, Way::Up, 50), ON);
        assert_eq!(orders.step(&mut course, Way::Down, 3), Step::Cut { forward: 3 });
    }

    #[test]
    fn what_is_armed_is_used_up_and_kept_by_its_connection() {
        let mut orders = Orders::default();
        orders.next(1, Fault::Stall);
        let (mut first, mut second) = (orders.begin(), orders.begin());
        orders.set(Fault::Pass);
        assert_eq!(orders.step(&mut first, Way::Up, 1), Step::Swallow);
        assert_eq!(orders.step(&mut second, Way::Up, 1), ON);
        orders.once(Fault::CutRequest { after: 0 });
        assert_eq!(orders.step(&mut second, Way::Down, 1), ON, "an answer does not take it");
        assert_eq!(orders.step(&mut second, Way::Up, 1), Step::Cut { forward: 0 });
        assert_eq!(orders.armed(), 0);
    }

    #[test]
    fn a_connection_that_lost_bytes_stays_stalled() {
        let mut orders = Orders::default();
        orders.set(Fault::Stall);
        let mut course = orders.begin();
        assert_eq!(orders.step(&mut course, Way::Up, 1), Step::Swallow);
        orders.clear();
        assert_eq!(orders.step(&mut course, Way::Up, 1), Step::Swallow);
    }
}
