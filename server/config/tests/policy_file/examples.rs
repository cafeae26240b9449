//! The folders of examples: those in `good` are read, those in `bad` give exactly the messages in the `.txt` beside
//! them. `TOLLGATE_WRITE_MESSAGES=1` writes the messages instead; look at what changed.

use std::fs;
use std::path::{Path, PathBuf};

use tollgate_config::{Config, ConfigError, ConfigFormat, ParsedConfig, read, read_file};

/// The files of a folder, sorted.
fn files(folder: &str) -> Vec<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/examples").join(folder);
    let mut files: Vec<_> = fs::read_dir(path).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

/// Reads a file as one that only its owner may write, whatever mode the checkout gave it.
fn owned(path: &Path) -> Result<ParsedConfig, ConfigError> {
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("examples-{}-{}", std::process::id(), name(path)));
    fs::write(&copy, fs::read(path).unwrap()).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o644)).unwrap();
    }
    let read = read_file(&copy).map_err(|error| ConfigError { file: Some(name(path)), ..error });
    fs::remove_file(&copy).unwrap();
    read
}

fn good(file: &str) -> Config {
    let path = files("good").into_iter().find(|path| name(path) == file).unwrap();
    owned(&path).unwrap_or_else(|error| panic!("{error}")).config
}

#[test]
fn good_files_are_read_without_a_warning() {
    let files = files("good");
    assert!(files.len() >= 8);
    for path in files {
        let read = owned(&path).unwrap_or_else(|error| panic!("{error}"));
        assert!(!read.config.policies.is_empty(), "{path:?}");
        assert_eq!(read.warnings, [], "{path:?}");
    }
}

#[test]
fn line_ends_and_a_byte_order_mark_change_nothing() {
    for path in files("good") {
        let format = ConfigFormat::of(&path).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let plain = read(&text, format).unwrap();
        let dressed = read(&format!("\u{feff}{}", text.replace('\n', "\r\n")), format);
        assert_eq!(dressed.unwrap_or_else(|error| panic!("{path:?}: {error}")), plain, "{path:?}");
    }
}

#[test]
fn yaml_toml_and_json_of_one_content_are_one_config() {
    for (one, others) in [
        ("minimal.yaml", &["minimal.toml", "minimal.json"][..]),
        ("every_field.yaml", &["every_field.toml", "every_field.json"]),
        ("team.yaml", &["team.toml"]),
        ("utf8.yaml", &["utf8.json"]),
    ] {
        for other in others {
            assert_eq!(by_name(good(one)), by_name(good(other)), "{one} {other}");
        }
    }
}

/// A TOML file has its tables behind its values, so the order of policies may differ.
fn by_name(mut config: Config) -> Config {
    config.policies.sort_by(|one, other| one.policy.name().cmp(other.policy.name()));
    config
}

#[test]
fn bad_files_give_their_messages() {
    let write = std::env::var_os("TOLLGATE_WRITE_MESSAGES").is_some();
    let (texts, files): (Vec<_>, Vec<_>) =
        files("bad").into_iter().partition(|path| path.extension().is_some_and(|ending| ending == "txt"));
    assert!(files.len() >= 25);
    let mut differ = Vec::new();
    for path in &files {
        let Err(error) = owned(path) else { panic!("{path:?} is read") };
        let told = format!("{error}\n");
        let beside = PathBuf::from(format!("{}.txt", path.display()));
        if write {
            fs::write(&beside, &told).unwrap();
        }
        let expected = fs::read_to_string(&beside).unwrap_or_else(|_| panic!("{beside:?} is missing"));
        if told != expected {
            differ.push(format!("{}:\n{told}instead of\n{expected}", name(path)));
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
    for text in texts {
        assert!(files.iter().any(|path| text == Path::new(&format!("{}.txt", path.display()))), "{text:?} has no file");
    }
}

/// The same mistakes have the same messages in YAML and TOML.
#[test]
fn mistakes_are_the_same_in_yaml_and_toml() {
    let yaml = r#"
allow: health
policies:
  login:
    limit: "5/parsec"
    moed: nary
    alerts: [95, 80]
    ban: 10min
    shadow: "maybe"
    key: ["header:"]
    overrides: [{key: "a", limit: 5, until: "tomorrow"}]
"#;
    let toml = r#"
allow = "health"
[policies.login]
limit = "5/parsec"
moed = "nary"
alerts = [95, 80]
ban = "10min"
shadow = "maybe"
key = ["header:"]
overrides = [{key = "a", limit = 5, until = "tomorrow"}]
"#;
    let told = |text, format| -> Vec<String> {
        let error = read(text, format).unwrap_err();
        error.messages.iter().map(ToString::to_string).collect()
    };
    assert_eq!(told(yaml, ConfigFormat::Yaml), told(toml, ConfigFormat::Toml));
    assert_eq!(told(yaml, ConfigFormat::Yaml).len(), 9);
}
