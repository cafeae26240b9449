//! A finding, and the same finding on several nodes.

use serde::Serialize;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum FindingLevel {
    Ok,
    Warning,
    Problem,
}

impl FindingLevel {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// A finding about a topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct DoctorFinding {
    pub(super) level: FindingLevel,
    pub(super) topic: &'static str,
    pub(super) text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) remedy: Option<String>,
}

impl DoctorFinding {
    pub(super) fn ok(topic: &'static str, text: impl Into<String>) -> Self {
        Self { level: FindingLevel::Ok, topic, text: text.into(), remedy: None }
    }

    pub(super) fn warning(topic: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { level: FindingLevel::Warning, topic, text: text.into(), remedy: Some(remedy.into()) }
    }

    pub(super) fn problem(topic: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { level: FindingLevel::Problem, topic, text: text.into(), remedy: Some(remedy.into()) }
    }

    /// Returns the finding that the server refused to answer.
    pub(super) fn unseen(topic: &'static str, command: &str) -> Self {
        let text = format!("cannot tell: the server refuses {command}");
        Self::warning(topic, text, format!("let a user who may call {command} run this"))
    }
}

/// Returns one finding if all nodes agree, else one for each node, with its name.
pub(super) fn merged(found: Vec<(String, DoctorFinding)>) -> Vec<DoctorFinding> {
    let Some((_, first)) = found.first() else { return Vec::new() };
    if found.iter().all(|(_, finding)| finding == first) {
        return vec![first.clone()];
    }
    let named = |(node, finding): (String, DoctorFinding)| DoctorFinding {
        text: format!("{node}: {}", finding.text),
        ..finding
    };
    found.into_iter().map(named).collect()
}
