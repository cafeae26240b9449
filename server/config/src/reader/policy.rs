//! A policy and everything that belongs to it.

use tollgate_kernel::{Mode, OnError, Policy};

use super::fields::{FieldMap, POLICY};
use super::findings::ConfigReader;
use super::lists::KeyLists;
use super::{MAX_GLOB_BYTES, MAX_GLOBS};
use crate::model::{Override, PolicyEntry};
use crate::tree::{TreeField, TreeValue};

const EXAMPLE: &str = "for example {limit: \"100/min\"}, or the text alone";
/// The default percentages at which alerts are raised.
const ALERTS: [u8; 2] = [80, 95];

impl<'a> ConfigReader<'a> {
    /// Reads the policy of a field, under `name`; adds the number of its list entries and overrides to `in_all`.
    pub(super) fn entry(
        &mut self,
        field: &TreeField<'a>,
        name: &str,
        lists: &KeyLists,
        in_all: &mut usize,
    ) -> Option<PolicyEntry> {
        let node = &field.node;
        if let TreeValue::Text(_) = node.value {
            let policy = self.limits(node)?.with_name(name).ok()?;
            let mut entry = PolicyEntry { alerts: ALERTS.to_vec(), ..PolicyEntry::new(policy) };
            self.add_lists(field, &mut entry, lists, in_all);
            return Some(entry);
        }
        let fields = self.fields(node, "policy text, or the fields of a policy", POLICY, EXAMPLE)?;
        if fields.lacks("limit") {
            self.wrong(field.at, "the field limit", "none", EXAMPLE);
        }
        let mode = self.mode(&fields);
        let on_error = self.on_error(&fields);
        let dressed = |policy: Policy, name: &str| policy.with_mode(mode).with_on_error(on_error).with_name(name).ok();
        let limits = fields.get("limit").and_then(|node| self.within("limit", |reader| reader.limits(node)));
        let policy = limits.and_then(|limits| dressed(limits, name));
        let mut entry = PolicyEntry::new(policy.clone().or_else(|| dressed("1/s".parse().ok()?, name))?);
        self.rules(&fields, &mut entry);
        self.extras(&fields, &mut entry);
        for own in &mut entry.overrides {
            own.policy = dressed(own.policy.clone(), name)?;
        }
        if let Some(candidate) = entry.candidate.take() {
            let own_name = format!("{name}--candidate");
            entry.candidate = candidate.with_mode(mode).with_name(&own_name).ok();
        }
        self.add_lists(field, &mut entry, lists, in_all);
        self.look_over(&fields, &entry);
        policy.map(|_| entry)
    }

    fn mode(&mut self, fields: &FieldMap<'_, 'a>) -> Mode {
        let words = Mode::ALL.map(|mode| (mode.name(), mode));
        fields.get("mode").and_then(|node| self.within("mode", |reader| reader.word(node, &words))).unwrap_or_default()
    }

    fn on_error(&mut self, fields: &FieldMap<'_, 'a>) -> OnError {
        let words = OnError::ALL.map(|on_error| (on_error.name(), on_error));
        let read = |node| self.within("on_error", |reader| reader.word(node, &words));
        fields.get("on_error").and_then(read).unwrap_or_default()
    }

    /// Reads the key parts, lists and overrides: which keys the limits apply to.
    fn rules(&mut self, fields: &FieldMap<'_, 'a>, entry: &mut PolicyEntry) {
        if let Some(node) = fields.get("key") {
            entry.key = self.within("key", |reader| reader.parts(node));
        }
        let parts = if entry.key.len() > 1 { entry.key.len() } else { 0 };
        if let Some(node) = fields.get("allow") {
            entry.allow = self.within("allow", |reader| reader.list(node, Some(parts)));
        }
        if let Some(node) = fields.get("deny") {
            entry.deny = self.within("deny", |reader| reader.list(node, Some(parts)));
        }
        if let Some(node) = fields.get("overrides") {
            entry.overrides = self.within("overrides", |reader| reader.overrides(node, parts));
        }
    }

    /// Reads the other fields.
    fn extras(&mut self, fields: &FieldMap<'_, 'a>, entry: &mut PolicyEntry) {
        for (name, to) in [("shadow", &mut entry.shadow), ("usage", &mut entry.usage)] {
            if let Some(node) = fields.get(name) {
                *to = self.within(name, |reader| reader.switch(node)).unwrap_or_default();
            }
        }
        entry.candidate =
            fields.get("candidate").and_then(|node| self.within("candidate", |reader| reader.limits(node)));
        entry.ban = fields.get("ban").and_then(|node| self.within("ban", |reader| reader.ban(node)));
        entry.note = fields.get("note").and_then(|node| self.within("note", |reader| reader.note(node)));
        entry.alerts = match fields.get("alerts") {
            Some(node) => self.within("alerts", |reader| reader.alerts(node)).unwrap_or_default(),
            None => ALERTS.to_vec(),
        };
    }

    /// Adds the lists of the whole file, and checks the bounds on all lists together.
    fn add_lists(&mut self, field: &TreeField<'a>, entry: &mut PolicyEntry, lists: &KeyLists, in_all: &mut usize) {
        let lengths = entry.allow.len() + entry.deny.len() + entry.overrides.len();
        *in_all += lengths + lists.allow.len() + lists.deny.len();
        if *in_all > super::MAX_IN_ALL {
            // The caller reports it; the lists are not copied.
            return;
        }
        for (own, all) in [(&mut entry.allow, &lists.allow), (&mut entry.deny, &lists.deny)] {
            own.extend(all.iter().cloned());
        }
        let overrides = entry.overrides.iter().map(|own: &Override| &own.key);
        let globs = entry.allow.iter().chain(&entry.deny).chain(overrides).filter(|pattern| pattern.key().is_none());
        let (globs, bytes) = globs.fold((0, 0), |(globs, bytes), glob| (globs + 1, bytes + glob.as_str().len()));
        if globs <= MAX_GLOBS && bytes > MAX_GLOB_BYTES {
            let expected =
                format!("at most {MAX_GLOB_BYTES} bytes of glob patterns over the lists and overrides of a policy");
            self.wrong(field.at, expected, bytes.to_string(), "whole keys are found faster, and may be more");
        }
        if globs > MAX_GLOBS {
            let expected = format!("at most {MAX_GLOBS} glob patterns over the lists and overrides of a policy");
            self.wrong(field.at, expected, globs.to_string(), "whole keys are found faster, and may be more");
        }
    }

    /// Warns of settings that are valid but have no effect.
    fn look_over(&mut self, fields: &FieldMap<'_, 'a>, entry: &PolicyEntry) {
        if let (Some(node), true, true) = (fields.get("ban"), entry.ban.is_some(), entry.shadow) {
            self.within("ban", |reader| {
                reader.warn(node.at, "no ban beside shadow: true", "one", "nobody is banned while shadow is on");
            });
        }
        let same = |candidate: &Policy| candidate.limits() == entry.policy.limits();
        if let (Some(node), true) = (fields.get("candidate"), entry.candidate.as_ref().is_some_and(same)) {
            self.within("candidate", |reader| {
                reader.warn(node.at, "limits that differ from the live ones", "the same", "no decision can flip");
            });
        }
    }
}
