//! Tollgate's libraries: current, old, missing, or in conflict with others.

use super::facts::Facts;
use super::finding::Finding;
use crate::redis::libraries::{self, BOTH, Standing};
use crate::server::{Node, Trouble};

pub(super) fn libraries(node: &mut Node, _: &Facts) -> Result<Finding, Trouble> {
    let (mut missing, mut old, mut taken) = (Vec::new(), Vec::new(), Vec::new());
    for names in BOTH {
        let library = names.library();
        match libraries::standing(&mut node.wire, names) {
            Ok(Standing::Current) => {}
            Ok(Standing::Different) => old.push(library),
            Ok(Standing::Missing) => missing.push(library),
            Err(error) if error.is_unknown_command() => {
                return Ok(Finding::ok("libraries", "none: the server knows scripts only"));
            }
            Err(Trouble::Refused { .. }) => return Ok(Finding::unseen("libraries", "FUNCTION LIST")),
            Err(error) => return Err(error),
        }
        taken.extend(libraries::taken(&mut node.wire, names)?);
    }
    if let Some(taken) = taken.first() {
        let text = format!("library {} holds {}, names of ours", taken.library, taken.functions.join(", "));
        return Ok(Finding::warning("libraries", text, super::super::Taken::remedy(std::slice::from_ref(taken))));
    }
    let state = |word: &str, libraries: &[String]| match libraries {
        [] => None,
        libraries => Some(format!("{word}: {}", libraries.join(", "))),
    };
    let text: Vec<String> = state("old", &old).into_iter().chain(state("missing", &missing)).collect();
    Ok(match text.is_empty() {
        true => Finding::ok(
            "libraries",
            "tollgate and tollgate_0_1 are current".replace("_0_1", tollgate_redis::lua::VERSION),
        ),
        false => Finding::warning(
            "libraries",
            text.join("; "),
            "tollgate redis install URL; stores load theirs by themselves",
        ),
    })
}
