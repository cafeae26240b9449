//! limitador in memory: one limit with a variable, which makes a counter for each of its values.

use std::collections::HashMap;

use limitador::RateLimiter;
use limitador::limit::{Context, Limit, Namespace};

use super::{Contender, Limiter};

pub(crate) const MEMORY: Contender = Contender {
    name: "limitador",
    package: Some("limitador"),
    what: "limitador in memory, a counter a key, fixed windows; makes a twentieth of the checks",
    // Ten million keys are more than ten gigabytes, and minutes to insert.
    most_keys: 1_000_000,
    slow: 20,
    build: |limit, keys| {
        // Twice the keys: its cache begins to evict before it is full.
        let limiter = RateLimiter::new(2 * keys);
        let variable = VARIABLE.try_into().expect("a plain name is an expression");
        limiter.add_limit(Limit::new(NAMESPACE, limit.count.into(), limit.seconds.into(), vec![], vec![variable]));
        Box::new(Memory { limiter, namespace: NAMESPACE.into() })
    },
};

const NAMESPACE: &str = "api";
const VARIABLE: &str = "user";

struct Memory {
    limiter: RateLimiter,
    namespace: Namespace,
}

impl Limiter for Memory {
    fn check(&self, key: &str) -> bool {
        let context = Context::from(HashMap::from([(VARIABLE.to_owned(), key.to_owned())]));
        let checked = self.limiter.check_rate_limited_and_update(&self.namespace, &context, 1);
        !checked.expect("the store is in memory and the variable is given").limited
    }
}
