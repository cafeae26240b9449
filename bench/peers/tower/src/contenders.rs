//! What is compared: layers on the same router with the same handler, their limits the same too. A new contender is
//! a line in `CONTENDERS` and a function.

use std::time::Duration;

use axum::Router;
use axum::routing::{Route, get};
use tollgate::Gate;
use tollgate_tower::{ClientIp, GateLayer, HeaderFields};
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;

use crate::Failure;

/// The order is that of the tables.
pub(crate) const CONTENDERS: &[Contender] = &[
    Contender { name: BARE, what: "the handler alone", refuses: false, build: |_| Ok(handler()) },
    Contender {
        name: "empty-layer",
        what: "a layer that does nothing: what axum takes for having one",
        refuses: false,
        build: |_| Ok(handler().layer(tower::layer::layer_fn(|service: Route| service))),
    },
    Contender {
        name: TOLLGATE,
        what: "Tollgate's layer as it is: RateLimit-Policy, RateLimit",
        refuses: true,
        build: |case| Ok(handler().layer(tollgate(case)?)),
    },
    Contender {
        name: TOLLGATE_SILENT,
        what: "Tollgate's layer without header fields",
        refuses: true,
        build: |case| Ok(handler().layer(tollgate(case)?.headers(HeaderFields::none()))),
    },
    Contender {
        name: GOVERNOR_HEADERS,
        what: "tower_governor with use_headers(): x-ratelimit-limit, x-ratelimit-remaining",
        refuses: true,
        build: governor_with_headers,
    },
    Contender {
        name: GOVERNOR,
        what: "tower_governor as it is: no header fields unless it refuses",
        refuses: true,
        build: governor,
    },
];

pub(crate) const BARE: &str = "bare";
pub(crate) const TOLLGATE: &str = "tollgate";
pub(crate) const TOLLGATE_SILENT: &str = "tollgate-no-headers";
pub(crate) const GOVERNOR: &str = "governor";
pub(crate) const GOVERNOR_HEADERS: &str = "governor-headers";

/// Someone who takes part.
pub(crate) struct Contender {
    /// One word, for tables and the command line.
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// Who refuses nothing takes no part where all is refused.
    pub(crate) refuses: bool,
    pub(crate) build: fn(Case) -> Result<Router, Failure>,
}

/// What the limit makes of the requests of an address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Case {
    /// A unit comes back every microsecond, up to a million: no request is refused.
    Allowed,
    /// A unit comes back every hour, up to one: all but the first are refused.
    Refused,
}

impl Case {
    pub(crate) const ALL: [Self; 2] = [Self::Allowed, Self::Refused];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Refused => "refused",
        }
    }

    pub(crate) fn from_name(name: &str) -> Result<Self, String> {
        let case = Self::ALL.into_iter().find(|case| case.name() == name);
        case.ok_or_else(|| format!("expected allowed or refused, found {name:?}"))
    }

    /// The status of every response but the first of an address.
    pub(crate) fn status(self) -> u16 {
        match self {
            Self::Allowed => 200,
            Self::Refused => 429,
        }
    }

    pub(crate) fn contenders(self) -> Vec<&'static Contender> {
        CONTENDERS.iter().filter(|contender| self == Self::Allowed || contender.refuses).collect()
    }

    /// After how long a unit comes back, and how many there are at most.
    fn quota(self) -> (Duration, u32) {
        match self {
            Self::Allowed => (Duration::from_micros(1), 1_000_000),
            Self::Refused => (Duration::from_secs(3_600), 1),
        }
    }
}

fn handler() -> Router {
    Router::new().route("/", get(async || "Hello, World!"))
}

fn tollgate(case: Case) -> Result<GateLayer, Failure> {
    let policy = match case {
        Case::Allowed => "1000000/s gcra",
        Case::Refused => "1/h gcra",
    };
    Ok(GateLayer::new(Gate::memory(policy)?).key(ClientIp::peer()))
}

fn governor(case: Case) -> Result<Router, Failure> {
    let (period, burst) = case.quota();
    let config = GovernorConfigBuilder::default().period(period).burst_size(burst).finish();
    Ok(handler().layer(GovernorLayer::new(config.ok_or("a quota that governor does not take")?)))
}

fn governor_with_headers(case: Case) -> Result<Router, Failure> {
    let (period, burst) = case.quota();
    let config = GovernorConfigBuilder::default().period(period).burst_size(burst).use_headers().finish();
    Ok(handler().layer(GovernorLayer::new(config.ok_or("a quota that governor does not take")?)))
}
