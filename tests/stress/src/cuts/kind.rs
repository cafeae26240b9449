//! What is cut, where. The bytes of requests and answers are counted first, so that a sweep goes through
//! every offset of both, and one beyond.

use tollgate_kit::Fault;
use tollgate_redis::Packaging;

use tollgate_random::Rng;

/// Policies whose charges can be read from what remains: no unit comes back while a lane runs, for gcra the
/// first after five minutes.
pub(super) const POLICIES: [&str; 4] =
    ["100000/366d fixed", "100000/366d gcra burst=100000", "100000/366d sliding", "100000/366d bucket burst=100000"];

/// Decisions of a batch.
pub(super) const BATCH: u64 = 8;

/// One cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    pub(super) kind: Kind,
    pub(super) packaging: Packaging,
    pub(super) policy: usize,
    pub(super) fault: Fault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// One decision on a key that nobody asked for before.
    Fresh,
    /// One decision on a key that all of these share.
    Shared,
    /// Several decisions of one key in a pipeline.
    Batch,
    /// One decision by a server that lost the library or script.
    Cold,
}

/// The bytes of a call, up and down.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    pub(super) up: u64,
    pub(super) down: u64,
}

/// The sizes of a call by packaging and by kind, measured without faults.
#[derive(Clone, Debug, Default)]
pub(super) struct Sizes(pub(super) Vec<(Packaging, Kind, Size)>);

impl Sizes {
    fn of(&self, packaging: Packaging, kind: Kind) -> Size {
        // A shared key is asked for as a fresh one is.
        let kind = if kind == Kind::Shared { Kind::Fresh } else { kind };
        let found = self.0.iter().find(|(known, of, _)| (*known, *of) == (packaging, kind));
        found.map_or(Size::default(), |(_, _, size)| *size)
    }
}

impl Sizes {
    /// In words.
    pub(super) fn told(&self) -> String {
        let one = |(packaging, kind, size): &(Packaging, Kind, Size)| {
            format!("{packaging:?} {kind:?} {} up and {} down", size.up, size.down).to_lowercase()
        };
        format!("bytes of a call: {}", self.0.iter().map(one).collect::<Vec<_>>().join(", "))
    }
}

/// The cut of a number: kinds in turn, and offsets one after the other within a kind; where a call is too
/// long for that, at random.
pub(super) fn cut(number: u64, sizes: &Sizes, rng: &mut Rng) -> Cut {
    let kind = match number % 8 {
        0..=2 => Kind::Fresh,
        3..=5 => Kind::Shared,
        6 => Kind::Batch,
        _ => Kind::Cold,
    };
    let packaging = if (number / 8).is_multiple_of(2) { Packaging::Function } else { Packaging::Script };
    let size = sizes.of(packaging, kind);
    // A stride goes through the offsets of a short run too, though not through all.
    let turn = number / 16 * 37;
    let fault = match (kind, number % 40) {
        (_, 39 | 38) => Fault::Stall,
        (Kind::Fresh | Kind::Shared, place) if place % 2 == 0 => Fault::CutRequest { after: turn % (size.up + 1) },
        (Kind::Fresh | Kind::Shared, _) => Fault::CutReply { after: turn % (size.down + 1) },
        (_, place) if place % 3 == 0 => Fault::CutRequest { after: rng.below(size.up + 1) },
        _ => Fault::CutReply { after: rng.below(size.down + 1) },
    };
    Cut { kind, packaging, policy: rng.index(POLICIES.len()), fault }
}
