//! The JSON Schema (2020-12) of a policy file, for editors. It is written by hand, because its descriptions are for
//! people.

/// Returns the schema as a JSON document.
pub fn schema() -> &'static str {
    include_str!("../schema.json")
}

#[cfg(test)]
mod tests {
    use super::schema;
    use crate::format::ConfigFormat;
    use crate::reader::{FILE, OVERRIDE, POLICY};
    use crate::tree::{TreeNode, TreeValue, parse};

    fn at<'n, 'a>(node: &'n TreeNode<'a>, path: &str) -> &'n TreeNode<'a> {
        path.split('/').filter(|step| !step.is_empty()).fold(node, |node, step| {
            let TreeValue::Map(fields) = &node.value else { panic!("{path}: no map at {step}") };
            &fields.iter().find(|field| field.name == step).unwrap_or_else(|| panic!("{path}: no {step}")).node
        })
    }

    /// Checks that the reader and the schema have the same fields, and that each has a description.
    #[test]
    fn the_schema_has_the_fields_of_the_reader() {
        // JSON is valid YAML.
        let root = parse(schema(), ConfigFormat::Yaml).unwrap();
        for (path, known) in
            [("properties", FILE), ("$defs/fields/properties", POLICY), ("$defs/override/properties", OVERRIDE)]
        {
            let TreeValue::Map(fields) = &at(&root, path).value else { panic!("{path}") };
            let mut names: Vec<_> = fields.iter().map(|field| field.name.as_ref()).collect();
            let mut known = known.to_vec();
            names.sort_unstable();
            known.sort_unstable();
            assert_eq!(names, known, "{path}");
            for field in fields {
                let TreeValue::Map(about) = &field.node.value else { panic!("{path}: {}", field.name) };
                assert!(about.iter().any(|field| field.name == "description"), "{path}/{}", field.name);
            }
            let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
            assert_eq!(at(&root, &format!("{parent}/additionalProperties")).value, TreeValue::Bool(false), "{path}");
        }
        let text = |path| match &at(&root, path).value {
            TreeValue::Text(text) => text.to_string(),
            other => panic!("{path}: {other:?}"),
        };
        assert_eq!(text("$schema"), "https://json-schema.org/draft/2020-12/schema");
    }
}
