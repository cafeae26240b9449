//! The rule that decided a key, or changed its decision, with the same word in every language.

/// The rule that decided, or that changed the decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DecidingRule {
    /// The policy's limits.
    #[default]
    Policy,
    /// The key is in the allow list.
    Allow,
    /// The key is in the deny list.
    Deny,
    /// The key is banned.
    Ban,
    /// An override for the key.
    Override,
    /// Shadow mode: the policy would have refused, but refuses nothing.
    Shadow,
}

impl DecidingRule {
    /// Returns its word, which is the same in every language.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Ban => "ban",
            Self::Override => "override",
            Self::Shadow => "shadow",
        }
    }
}
