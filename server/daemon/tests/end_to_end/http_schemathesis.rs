//! schemathesis, which nobody here wrote, asks the server whatever its OpenAPI document allows and much that
//! it does not: no answer is undocumented, malformed or 500, and what is valid is accepted.
//! `cargo xtask schemathesis` brings it and runs this.

use std::path::Path;
use std::process::Command;

use tollgate_daemon::{Server, ServerSettings};

#[test]
#[ignore = "needs schemathesis: cargo xtask schemathesis"]
fn schemathesis_finds_nothing() {
    let program = std::env::var("TOLLGATE_SCHEMATHESIS").expect("run by cargo xtask schemathesis");
    let examples = std::env::var("TOLLGATE_EXAMPLES").expect("run by cargo xtask schemathesis");
    let phases = std::env::var("TOLLGATE_PHASES").expect("run by cargo xtask schemathesis");
    let settings = ServerSettings {
        resp: None,
        http: Some("127.0.0.1:0".parse().unwrap()),
        threads: 1,
        policies: vec!["5/min".parse::<tollgate_kernel::Policy>().unwrap().with_name("login").unwrap()],
        ..ServerSettings::default()
    };
    let server = Server::start(settings).unwrap();
    let addr = server.http_addr().unwrap();
    let token = server.token().expect("one is made on loopback").text();
    // It writes beside its settings.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("schemathesis");
    std::fs::create_dir_all(&folder).unwrap();
    for file in ["schemathesis.toml", "hooks.py"] {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schemathesis").join(file);
        std::fs::copy(from, folder.join(file)).unwrap();
    }
    let status = Command::new(program)
        .arg("run")
        .arg(format!("http://{addr}/openapi.json"))
        .args(["--phases", &phases, "--max-examples", &examples, "--header", &format!("Authorization: Bearer {token}")])
        .args(["--seed", "1", "--workers", "1", "--no-color", "--generation-database", "none"])
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(folder)
        .status()
        .expect("schemathesis runs");
    assert!(status.success(), "what it found is above");
    server.stop();
}
