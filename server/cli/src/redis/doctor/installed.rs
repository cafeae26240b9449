//! Tollgate's libraries: current, old, missing, or in conflict with others.

use super::facts::NodeFacts;
use super::finding::DoctorFinding;
use crate::redis::libraries::{self, BOTH, LibraryState};
use crate::server::{FleetNode, ServerError};

pub(super) fn libraries(node: &mut FleetNode, _: &NodeFacts) -> Result<DoctorFinding, ServerError> {
    let (mut missing, mut old, mut conflicts) = (Vec::new(), Vec::new(), Vec::new());
    for names in BOTH {
        let library = names.library();
        match libraries::compare(&mut node.connection, names) {
            Ok(LibraryState::Current) => {}
            Ok(LibraryState::Different) => old.push(library),
            Ok(LibraryState::Missing) => missing.push(library),
            Err(error) if error.is_unknown_command() => {
                return Ok(DoctorFinding::ok("libraries", "none: the server knows scripts only"));
            }
            Err(ServerError::Refused { .. }) => return Ok(DoctorFinding::unseen("libraries", "FUNCTION LIST")),
            Err(error) => return Err(error),
        }
        conflicts.extend(libraries::conflicts(&mut node.connection, names)?);
    }
    if let Some(conflict) = conflicts.first() {
        let text = format!("library {} holds {}, names of ours", conflict.library, conflict.functions.join(", "));
        return Ok(DoctorFinding::warning(
            "libraries",
            text,
            super::super::NameConflict::remedy(std::slice::from_ref(conflict)),
        ));
    }
    let state = |word: &str, libraries: &[String]| match libraries {
        [] => None,
        libraries => Some(format!("{word}: {}", libraries.join(", "))),
    };
    let text: Vec<String> = state("old", &old).into_iter().chain(state("missing", &missing)).collect();
    Ok(match text.is_empty() {
        true => DoctorFinding::ok(
            "libraries",
            "tollgate and tollgate_0_1 are current".replace("_0_1", tollgate_redis::lua::VERSION),
        ),
        false => DoctorFinding::warning(
            "libraries",
            text.join("; "),
            "tollgate redis install URL; stores load theirs by themselves",
        ),
    })
}
