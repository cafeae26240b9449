//! Which files are accepted, and how large they may be.

use std::fs;
use std::path::{Path, PathBuf};

use tollgate_config::{ConfigFormat, MAX_FILE, read, read_file};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("files-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        set_mode(&path, 0o600);
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[cfg(not(unix))]
fn set_mode(_: &Path, _: u32) {}

/// The message without the path.
fn told(path: &Path) -> String {
    let error = read_file(path).unwrap_err().to_string();
    error.strip_prefix(&format!("{}: ", path.display())).unwrap_or(&error).to_owned()
}

#[test]
fn the_ending_tells_the_format() {
    let folder = Folder::new("endings");
    for (name, text) in
        [("a.yaml", "policies: {a: 1/s}"), ("a.yml", "policies: {a: 1/s}"), ("a.toml", "policies.a = '1/s'")]
    {
        assert_eq!(read_file(&folder.file(name, text)).unwrap().config.policies.len(), 1, "{name}");
    }
    assert_eq!(
        told(&folder.file("a.conf", "")),
        r#"expected a file name ending in .yaml, .yml, .json or .toml, found "conf"; the ending tells the format"#
    );
    assert_eq!(
        told(&folder.file("a", "")),
        "expected a file name ending in .yaml, .yml, .json or .toml, found none; the ending tells the format"
    );
}

#[cfg(unix)]
#[test]
fn others_may_not_write_it() {
    let folder = Folder::new("modes");
    let path = folder.file("it's.yaml", "policies: {a: 1/s}");
    for mode in [0o600, 0o644, 0o400, 0o755] {
        set_mode(&path, mode);
        assert!(read_file(&path).is_ok(), "{mode:o}");
    }
    for mode in [0o620, 0o602, 0o666] {
        set_mode(&path, mode);
        let quoted = path.display().to_string().replace('\'', "'\\''");
        let expected = format!(
            "expected a file that neither its group nor others may write, found mode 0{mode:o}; run: chmod go-w '{quoted}'"
        );
        assert_eq!(told(&path), expected);
    }
    // The link's own mode is always open; what counts is the file.
    set_mode(&path, 0o600);
    let link = folder.0.join("link.yaml");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(read_file(&link).is_ok());
}

#[test]
fn a_path_that_is_no_file_is_refused() {
    let folder = Folder::new("kinds");
    let path = folder.0.join("dir.yaml");
    fs::create_dir(&path).unwrap();
    set_mode(&path, 0o700);
    assert_eq!(told(&path), "expected a regular file, found a directory; name the policy file itself");
    let missing = told(&folder.0.join("missing.yaml"));
    assert!(
        missing.starts_with("expected a file that can be read, found ") && missing.ends_with("; is the path right?")
    );
}

#[test]
fn a_file_of_16_mb_is_read_and_a_longer_one_is_not() {
    let folder = Folder::new("sizes");
    let policies = "policies: {a: 1/s}\n";
    let text = format!("{policies}#{}", "x".repeat(MAX_FILE - policies.len() - 1));
    assert_eq!(text.len(), MAX_FILE);
    assert!(read_file(&folder.file("long.yaml", &text)).is_ok());
    assert_eq!(
        told(&folder.file("longer.yaml", &(text + "x"))),
        "expected a file of at most 16777216 bytes, found 16777217 bytes"
    );
}

/// The greatest number of each thing is accepted, one more is refused.
#[test]
fn the_bounds_are_where_they_are_said_to_be() {
    let list = |name: &str, count: usize, sign: &str| -> String {
        let keys: Vec<_> = (0..count).map(|number| format!("\"{number}{sign}\"")).collect();
        format!("{name}: [{}]\n", keys.join(","))
    };
    let policies = |count: usize| -> String {
        let lines: Vec<_> = (0..count).map(|number| format!("  p{number}: 1/s\n")).collect();
        format!("policies:\n{}", lines.concat())
    };
    let overrides = |count: usize| -> String {
        let lines: Vec<_> = (0..count).map(|number| format!("{{key: k{number}, limit: 1/s}}")).collect();
        format!("policies: {{a: {{limit: 1/s, overrides: [{}]}}}}", lines.join(","))
    };
    let texts = |count| format!("policies: {{a: {{limit: 1/s, note: {}}}}}", "ü".repeat(count));
    let named = |length| format!("policies: {{{}: 1/s}}", "n".repeat(length));
    let keyed = |length| format!("allow: [{}]\npolicies: {{a: 1/s}}", "k".repeat(length));
    let some = |list: String| list + "policies: {a: 1/s}";
    for (right, wrong, said) in [
        (policies(10_000), policies(10_001), "at most 10000 policies, found 10001"),
        (some(list("allow", 10_000, "")), some(list("allow", 10_001, "")), "at most 10000 entries, found 10001"),
        (overrides(10_000), overrides(10_001), "at most 10000 entries, found 10001"),
        (some(list("deny", 1_000, "*")), some(list("deny", 1_001, "*")), "at most 1000 glob patterns"),
        (
            some(list("deny", 100, &format!("*{}", "x".repeat(160)))),
            some(list("deny", 100, &format!("*{}", "x".repeat(161)))),
            "at most 16384 bytes of glob patterns over the lists and overrides of a policy, found 16390",
        ),
        (
            list("allow", 10_000, "") + &policies(100),
            list("allow", 10_000, "") + &policies(101),
            "at most 1000000 list entries and overrides in all, found more",
        ),
        (texts(200), texts(201), "a note of at most 200 characters, found 201"),
        (named(48), named(49), "a name of 1 to 48 letters"),
        (keyed(512), keyed(513), "a key or a pattern of 1 to 512 bytes, found 513 bytes"),
    ] {
        assert!(read(&right, ConfigFormat::Yaml).is_ok(), "{said}");
        let error = read(&wrong, ConfigFormat::Yaml).unwrap_err();
        assert!(error.to_string().contains(said), "{said}: {error}");
        assert_eq!(error.messages.len(), 1, "{said}");
    }
}

/// A few bytes that expand to many are refused before they expand.
#[test]
fn the_values_of_aliases_are_bounded() {
    let long = format!("a: &a \"\\u0041{}\"\n", "x".repeat(1 << 20));
    let repeated = format!("{long}b: [{}]", ["*a"; 1_000].join(","));
    let error = read(&repeated, ConfigFormat::Yaml).unwrap_err().to_string();
    assert!(error.contains("at most 2000000 values in a file"), "{error}");
    let flat = format!("deny: [{}]", "a,".repeat(2_000_001));
    let error = read(&flat, ConfigFormat::Yaml).unwrap_err().to_string();
    assert!(error.contains("at most 2000000 values in a file"), "{error}");
    let flat = format!("deny = [{}]", "1,".repeat(2_000_001));
    let error = read(&flat, ConfigFormat::Toml).unwrap_err().to_string();
    assert!(error.contains("at most 2000000 values in a file"), "{error}");
}

/// Every byte is a mistake: only the first is reported of a long text.
#[test]
fn a_flood_of_mistakes_is_bounded() {
    let short = read(&"=\n".repeat(1 << 16), ConfigFormat::Toml).unwrap_err();
    assert!(short.messages.len() == 20 && short.more >= (1 << 16) - 20, "{}", short.more);
    let long = read(&"=\n".repeat(1 << 19), ConfigFormat::Toml).unwrap_err();
    assert_eq!((long.messages.len(), long.more), (1, 0));
    let names: String = (0..100_000).map(|number| format!("limti{number}: 1\n")).collect();
    let unknown = read(&names, ConfigFormat::Yaml).unwrap_err();
    // One more: there are no policies.
    assert_eq!((unknown.messages.len(), unknown.more), (20, 100_001 - 20));
    let twice = format!("policies:\n{}", "  login: 5/min\n".repeat(10_000));
    assert_eq!(read(&twice, ConfigFormat::Yaml).unwrap_err().more, 9_999 - 20);
}
