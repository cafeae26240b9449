//! The tree as ARCHITECTURE.md draws it: packages, their arrows, and no cycles between the modules of the layers that
//! promise none.

#![cfg(test)]
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::run::{output, root};

type Arrows = BTreeMap<String, BTreeSet<String>>;

/// Packages whose modules have no cycles.
const LAYERED: [&str; 3] = ["server/keyspace", "server/telemetry", "server/engine"];

/// The arrows of the first block under the heading, a line a package: `server/engine ──► kernel, memory`.
fn drawn() -> Arrows {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let block = text.split("## Arrows").nth(1).unwrap().split("```").nth(1).unwrap();
    let lines = block.lines().skip(1).filter(|line| !line.trim().is_empty());
    let arrow = |line: &str| {
        let (package, to) = line.split_once("──►").unwrap_or((line, ""));
        (package.trim().to_owned(), to.split(',').map(|to| to.trim().to_owned()).filter(|to| !to.is_empty()).collect())
    };
    lines.map(arrow).collect()
}

/// The arrows between packages as cargo knows them, without those of tests alone.
fn built() -> Arrows {
    let text = output("cargo", &["metadata", "--format-version", "1", "--no-deps"]).unwrap();
    let metadata: serde_json::Value = serde_json::from_str(&text).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let folder = |package: &serde_json::Value| {
        let manifest = PathBuf::from(package["manifest_path"].as_str().unwrap());
        manifest.parent().unwrap().strip_prefix(root().canonicalize().unwrap()).unwrap().display().to_string()
    };
    let folders: BTreeMap<&str, String> =
        packages.iter().map(|package| (package["name"].as_str().unwrap(), folder(package))).collect();
    let short = |folder: &String| folder.rsplit('/').next().unwrap().to_owned();
    let arrows = |package: &serde_json::Value| {
        let needed = package["dependencies"].as_array().unwrap().iter().filter(|needed| needed["kind"].is_null());
        let to = needed.filter_map(|needed| folders.get(needed["name"].as_str().unwrap())).map(short).collect();
        (folder(package), to)
    };
    packages.iter().map(arrows).collect()
}

#[test]
fn the_packages_are_those_that_the_architecture_draws() {
    assert_eq!(drawn(), built(), "ARCHITECTURE.md draws the first, cargo knows the second");
}

#[test]
fn no_layer_of_the_server_knows_one_above_it() {
    let order = ["journal", "config", "keyspace", "telemetry", "engine", "daemon", "cli"];
    let place = |name: &str| order.iter().position(|layer| *layer == name);
    for (package, to) in built() {
        let Some(from) = place(package.rsplit('/').next().unwrap()) else { continue };
        assert!(to.iter().filter_map(|to| place(to)).all(|to| to < from), "{package} ──► {to:?}");
    }
}

#[test]
fn modules_of_layers_have_no_cycles() {
    for package in LAYERED {
        let arrows = modules(&root().join(package).join("src"));
        assert!(arrows.len() > 2, "{package}: {arrows:?}");
        for start in arrows.keys() {
            let mut reached = BTreeSet::new();
            let mut open: Vec<&String> = arrows[start].iter().collect();
            while let Some(next) = open.pop() {
                if reached.insert(next) {
                    open.extend(arrows.get(next).into_iter().flatten());
                }
            }
            assert!(!reached.contains(start), "{package}: {start} is reached from itself: {arrows:?}");
        }
    }
}

/// `cargo xtask test` runs what is ignored for lack of redis-server by the words `with_redis` in its name.
#[test]
fn tests_that_need_redis_are_found_by_their_names() {
    let mut found = 0;
    for folder in ["lib", "server"] {
        for file in every_file(&root().join(folder)) {
            let Ok(text) = fs::read_to_string(&file) else { continue };
            for part in text.split("#[ignore = \"needs redis-server").skip(1) {
                let name = part.split("fn ").nth(1).unwrap().split('(').next().unwrap();
                assert!(name.contains("with_redis") || text.contains("mod with_redis"), "{}: {name}", file.display());
                found += 1;
            }
        }
    }
    assert_eq!(found, 5);
}

/// The arrows between the modules of a crate: a file or folder of its root each. Tests may look anywhere.
fn modules(src: &Path) -> Arrows {
    let lib = fs::read_to_string(src.join("lib.rs")).unwrap();
    let names: BTreeSet<String> =
        lib.lines().filter_map(|line| line.rsplit_once("mod ")?.1.strip_suffix(';')).map(str::to_owned).collect();
    // What the root hands out by its own name is of the module it comes from.
    let mut of = BTreeMap::new();
    for line in statements(&lib).filter_map(|line| line.rsplit_once("use ").map(|(_, path)| path.to_owned())) {
        let Some((module, rest)) = line.split_once("::").filter(|(module, _)| names.contains(*module)) else {
            continue;
        };
        words(rest).for_each(|word| _ = of.insert(word.to_owned(), module.to_owned()));
    }
    let mut arrows = Arrows::new();
    for name in &names {
        let mut to = BTreeSet::new();
        for file in files(&src.join(name)).into_iter().chain([src.join(format!("{name}.rs"))]) {
            let Ok(text) = fs::read_to_string(&file) else { continue };
            let text = text.split("#[cfg(test)]\nmod tests").next().unwrap();
            // In the root, the parent module is the crate.
            let prefixes: &[&str] = if file.parent() == Some(src) { &["crate::", "super::"] } else { &["crate::"] };
            for found in prefixes.iter().flat_map(|prefix| text.split(prefix).skip(1)) {
                let path = found.split([';', ')']).next().unwrap();
                let path = if path.starts_with('{') { path.split('}').next().unwrap() } else { first(path) };
                to.extend(words(path).filter_map(|word| names.get(word).or_else(|| of.get(word)).cloned()));
            }
        }
        to.remove(name);
        arrows.insert(name.clone(), to);
    }
    arrows
}

/// The first word of a path.
fn first(path: &str) -> &str {
    path.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').filter(|word| !word.is_empty())
}

/// The statements of a root, each on one line.
fn statements(text: &str) -> impl Iterator<Item = String> {
    let code: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    code.join(" ")
        .split(';')
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect::<Vec<_>>()
        .into_iter()
}

/// The files of a folder and of those in it, without tests.
fn files(folder: &Path) -> Vec<PathBuf> {
    let is_test = |file: &Path| file.iter().any(|part| part.to_string_lossy().contains("tests"));
    every_file(folder).into_iter().filter(|file| !is_test(file.strip_prefix(folder).unwrap())).collect()
}

pub(crate) fn every_file(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found = Vec::new();
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() { found.extend(every_file(&path)) } else { found.push(path) }
    }
    found
}
