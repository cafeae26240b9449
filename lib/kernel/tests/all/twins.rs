//! The Lua twins beside the algorithms.

use std::path::Path;

use tollgate_kernel::algorithms::ALGORITHMS;

/// The functions of the trait `Algorithm` that decide, in its order.
const DECIDING: [&str; 10] =
    ["build", "correct", "look", "room", "fits", "remaining", "wait", "reset_after", "charge", "refund"];
/// The functions that the trait has a default for. A twin may have them where the Rust uses the default.
const DEFAULTS: [&str; 2] = ["fits", "remaining"];

/// Returns the deciding functions in the order of their definitions, which begin with `prefix`.
fn deciding(source: &str, prefix: &str) -> Vec<&'static str> {
    let names = source.lines().filter_map(|line| line.trim_start().strip_prefix(prefix)?.split(['(', '<']).next());
    names.filter_map(|name| DECIDING.into_iter().find(|known| *known == name)).collect()
}

#[test]
fn a_twin_has_the_deciding_functions_of_its_rust_in_the_same_order() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/algorithms");
    for info in ALGORITHMS {
        let rust = std::fs::read_to_string(folder.join(info.name).with_extension("rs")).unwrap();
        let of_trait = rust.split_once("impl Algorithm for ").unwrap().1;
        let (rust, twin) = (deciding(of_trait, "fn "), deciding(info.lua, &format!("local function {}_", info.name)));
        let without_defaults = |names: &[&'static str]| -> Vec<_> {
            names.iter().copied().filter(|name| rust.contains(name) || !DEFAULTS.contains(name)).collect()
        };
        assert!(rust.len() >= DECIDING.len() - DEFAULTS.len(), "{}: {rust:?}", info.name);
        assert_eq!(without_defaults(&twin), rust, "{}", info.name);
        let in_order = DECIDING.into_iter().filter(|name| twin.contains(name));
        assert!(in_order.eq(twin.iter().copied()), "{}: {twin:?}", info.name);
    }
}
