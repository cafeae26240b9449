//! The databases of one server: a link each, made when the database is first used.

use std::sync::{Arc, OnceLock};

use crate::link::{Link, LinkContext};
use crate::url::RedisNode;

/// The number of databases that are reached.
pub(crate) const DATABASES: usize = 16;

/// The links to the databases of a server.
pub(crate) struct Databases {
    context: Arc<LinkContext>,
    node: RedisNode,
    /// The link to the database that the URL names.
    own: Link,
    others: [OnceLock<Link>; DATABASES - 1],
}

impl Databases {
    pub(crate) fn new(context: &Arc<LinkContext>, node: RedisNode) -> Self {
        let own = Link::new(context, node.clone());
        Self { context: Arc::clone(context), node, own, others: [const { OnceLock::new() }; DATABASES - 1] }
    }

    /// Returns the link to a database; 0 is the one that the URL names.
    pub(crate) fn link(&self, db: u8) -> Link {
        let other = usize::from(db).checked_sub(1).and_then(|place| self.others.get(place));
        let other = other.map(|link| link.get_or_init(|| Link::in_database(&self.context, self.node.clone(), db)));
        other.unwrap_or(&self.own).clone()
    }

    /// Returns the links that were made.
    pub(crate) fn opened(&self) -> Vec<Link> {
        std::iter::once(&self.own).chain(self.others.iter().filter_map(OnceLock::get)).cloned().collect()
    }
}
