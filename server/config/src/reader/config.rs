//! A file: policies, lists for all of them, the webhook.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_kernel::is_word;

use super::fields::FILE;
use super::findings::ConfigReader;
use super::lists::KeyLists;
use super::{MAX_IN_ALL, MAX_NAME, MAX_POLICIES};
use crate::model::{Config, PolicyEntry, Webhook};
use crate::tree::{TreeField, TreeNode, TreeValue, quoted};

const EXAMPLE: &str = "for example policies: {login: \"5/min\"}";
const MAX_URL: usize = 2_048;

impl<'a> ConfigReader<'a> {
    /// Reads the whole file.
    pub(super) fn config(&mut self, root: &TreeNode<'a>) -> Config {
        let mut config = Config::default();
        let what = match root.value {
            TreeValue::Nothing => "policies by name",
            _ => "the fields of a file",
        };
        let Some(fields) = self.fields(root, what, FILE, EXAMPLE) else { return config };
        let lists = KeyLists {
            allow: fields
                .get("allow")
                .map(|node| self.within("allow", |reader| reader.list(node, None)))
                .unwrap_or_default(),
            deny: fields
                .get("deny")
                .map(|node| self.within("deny", |reader| reader.list(node, None)))
                .unwrap_or_default(),
        };
        if let Some(node) = fields.get("webhook") {
            config.webhook = self.within("webhook", |reader| reader.webhook(node));
        }
        match fields.get("policies") {
            Some(node) => config.policies = self.within("policies", |reader| reader.policies(node, &lists)),
            None if fields.lacks("policies") => self.wrong(root.at, "the field policies", "none", EXAMPLE),
            None => {}
        }
        config
    }

    fn policies(&mut self, node: &TreeNode<'a>, lists: &KeyLists) -> Vec<Arc<PolicyEntry>> {
        let TreeValue::Map(fields) = &node.value else {
            self.wrong_value(node, "policies by name", EXAMPLE);
            return Vec::new();
        };
        if fields.is_empty() {
            self.warn(node.at, "policies", "none", "no name can be asked for");
        }
        if fields.len() > MAX_POLICIES {
            let found = fields.len().to_string();
            self.wrong(node.at, format!("at most {MAX_POLICIES} policies"), found, "");
            return Vec::new();
        }
        let mut seen = HashMap::new();
        let mut entries = Vec::with_capacity(fields.len());
        let mut in_all = 0;
        for field in fields {
            match seen.insert(field.name.as_ref(), field.at) {
                Some(first) => self.twice(field, first),
                None => entries.extend(self.within(&field.name, |reader| reader.named(field, lists, &mut in_all))),
            }
        }
        entries
    }

    fn named(&mut self, field: &TreeField<'a>, lists: &KeyLists, in_all: &mut usize) -> Option<Arc<PolicyEntry>> {
        let name = field.name.as_ref();
        let named = is_word(name) && name.len() <= MAX_NAME && !name.contains("--");
        if !named {
            let expected = format!("a name of 1 to {MAX_NAME} letters, digits, - and _, without --");
            let hint = if name.contains("--") { "names with -- are the server's own" } else { "for example login" };
            self.wrong(field.at, expected, quoted(name), hint);
        }
        let entry = self.entry(field, if named { name } else { "x" }, lists, in_all)?;
        if *in_all > MAX_IN_ALL {
            let expected = format!("at most {MAX_IN_ALL} list entries and overrides in all");
            self.wrong(field.at, expected, "more", "those for all policies count for each");
            return None;
        }
        named.then(|| Arc::new(entry))
    }

    /// Reads the webhook. Messages never contain the URL, which may contain a secret.
    fn webhook(&mut self, node: &TreeNode<'a>) -> Option<Webhook> {
        const EXPECTED: &str = "a URL with http:// or https:// and a host";
        let TreeValue::Text(url) = &node.value else {
            self.wrong_value(node, EXPECTED, "");
            return None;
        };
        let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
        let host = rest.is_some_and(|rest| {
            let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
            let host = authority.rsplit('@').next().unwrap_or_default();
            !host.is_empty() && !host.starts_with(':')
        });
        let clean = url.len() <= MAX_URL && url.chars().all(|char| char.is_ascii_graphic());
        if host && clean {
            return Some(Webhook { url: url.clone().into_owned() });
        }
        let hint = format!("of at most {MAX_URL} visible ASCII characters, such as http://127.0.0.1:9093/alerts");
        self.wrong(node.at, EXPECTED, "another text", hint);
        None
    }
}
