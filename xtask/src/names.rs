//! The names of types: each is defined once in `lib` and `server`, so that one word has one meaning.

#![cfg(test)]
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::run::root;
use crate::tree::every_file;

/// A name that each algorithm of the kernel defines for itself.
const PER_ALGORITHM: &str = "State";

/// Returns the names of the types that a source defines, without those in its module of tests.
fn types(source: &str) -> Vec<String> {
    let product = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let name = |line: &str| {
        let words = line.split_whitespace().skip_while(|word| word.starts_with("pub"));
        let mut words = words.skip_while(|word| word.ends_with(')'));
        let kind = words.next()?;
        // An indented `type` is an associated one.
        let defines = matches!(kind, "struct" | "enum" | "trait") || kind == "type" && !line.starts_with(' ');
        let name = words.next()?.split(|letter: char| !letter.is_alphanumeric()).next()?;
        (defines && name.starts_with(char::is_uppercase)).then(|| name.to_owned())
    };
    product.lines().filter_map(name).collect()
}

/// Returns whether a file belongs to the product: it is neither a test nor an example.
fn is_product(file: &Path) -> bool {
    let inside = file.strip_prefix(root()).unwrap();
    let in_folder = |name: &str| inside.components().any(|part| part.as_os_str() == name);
    !["tests", "examples", "fuzz"].into_iter().any(in_folder) && !file.ends_with("tests.rs")
}

#[test]
fn each_type_name_is_defined_once() {
    let mut found = BTreeMap::<String, Vec<String>>::new();
    let files = ["lib", "server"].into_iter().flat_map(|folder| every_file(&root().join(folder)));
    for file in files.filter(|file| is_product(file)) {
        for name in types(&fs::read_to_string(&file).unwrap()) {
            found.entry(name).or_default().push(file.display().to_string());
        }
    }
    assert!(found.len() > 500, "{} types", found.len());
    found.retain(|name, files| files.len() > 1 && name != PER_ALGORITHM);
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn definitions_are_found() {
    let source = "pub(crate) struct One<T>(T);\nenum Two {\n    Three,\n}\npub type Four = u8;\n    type Five;\n\
                  pub(in crate::a) trait Six: Send {}\n#[cfg(test)]\nmod tests {\n    struct Seven;\n}\n";
    assert_eq!(types(source), ["One", "Two", "Four", "Six"]);
}
