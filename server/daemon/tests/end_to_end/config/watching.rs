//! Changes of the file are seen, however they are made: nobody calls for them here.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::config::support::{folder, start, start_at, write};

const INVALID: &str = "tollgate_config_invalid";

fn reloads(result: &str) -> String {
    format!("tollgate_config_reloads_total{{result=\"{result}\"}}")
}

fn yaml(count: u64) -> String {
    format!("policies:\n  api: {count}/min\n")
}

#[test]
fn a_file_written_in_place() {
    let tested = start("in-place", &yaml(1));
    assert_eq!((tested.server.generation(), tested.server.policies()), (1, 1));
    for count in 2..=4 {
        fs::write(&tested.file, yaml(count)).unwrap();
        tested.wait_for(count);
        assert_eq!(tested.client().ask(&["TG.PEEK", "k", "api"])[2], count as i64);
    }
}

#[test]
fn a_file_written_beside_and_renamed() {
    let tested = start("renamed", &yaml(1));
    for count in 2..=4 {
        let beside = tested.file.with_extension("yaml~");
        write(&beside, &yaml(count));
        fs::rename(&beside, &tested.file).unwrap();
        tested.wait_for(count);
    }
}

#[test]
fn a_config_map_whose_link_is_swapped() {
    let folder = folder("config-map");
    let version = |count: u64| {
        let data = folder.join(format!("..2026_{count}"));
        fs::create_dir(&data).unwrap();
        write(&data.join("tollgate.yaml"), &yaml(count));
        data
    };
    let swap = |to: &Path| {
        let beside = folder.join("..data_tmp");
        symlink(to.file_name().unwrap(), &beside).unwrap();
        fs::rename(&beside, folder.join("..data")).unwrap();
    };
    swap(&version(1));
    let file = folder.join("tollgate.yaml");
    symlink("..data/tollgate.yaml", &file).unwrap();
    let tested = start_at(&file).unwrap();
    for count in 2..=4 {
        swap(&version(count));
        fs::remove_dir_all(folder.join(format!("..2026_{}", count - 1))).unwrap();
        tested.wait_for(count);
        assert_eq!(tested.client().ask(&["TG.PEEK", "k", "api"])[2], count as i64);
    }
}

#[test]
fn a_link_to_a_file_elsewhere() {
    let (folder, elsewhere) = (folder("linked"), folder("linked-elsewhere").join("real.yaml"));
    write(&elsewhere, &yaml(1));
    let file = folder.join("tollgate.yaml");
    symlink(&elsewhere, &file).unwrap();
    let tested = start_at(&file).unwrap();
    fs::write(&elsewhere, yaml(2)).unwrap();
    tested.wait_for(2);
}

#[test]
fn a_file_that_goes_and_comes_back() {
    let tested = start("gone", &yaml(1));
    fs::remove_file(&tested.file).unwrap();
    tested.wait_for_metric(INVALID, 1.);
    assert_eq!(tested.server.generation(), 1);
    assert_eq!(tested.client().ask(&["TG.PEEK", "k", "api"])[2], 1, "what was in use stays");
    write(&tested.file, &yaml(1));
    tested.wait_for_metric(INVALID, 0.);
    assert_eq!(tested.server.generation(), 1, "it says what it said");
    fs::remove_file(&tested.file).unwrap();
    tested.wait_for_metric(INVALID, 1.);
    write(&tested.file, &yaml(2));
    tested.wait_for(2);
    tested.wait_for_metric(INVALID, 0.);
}

#[test]
fn a_burst_of_changes_ends_in_the_last() {
    let tested = start("burst", &yaml(1));
    for count in 2..=300 {
        fs::write(&tested.file, yaml(count)).unwrap();
    }
    fs::write(&tested.file, "policies:\n  api: 1/min\n  last: 1/min\n").unwrap();
    let mut client = tested.client();
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while client.text(&["TG.PEEK", "k", "last"]).starts_with('-') {
        assert!(std::time::Instant::now() < end, "the last change was not seen");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(tested.server.generation() < 100, "they were not taken one by one");
}

#[test]
fn a_wrong_file_changes_nothing_and_is_told() {
    let tested = start("wrong", &yaml(1));
    let began = tested.metric("tollgate_config_last_ok_time_seconds");
    assert!(began > 0.);
    fs::write(&tested.file, "policies:\n  api: 1/parsec\n").unwrap();
    tested.wait_for_metric(INVALID, 1.);
    assert_eq!((tested.server.generation(), tested.metric("tollgate_config_generation")), (1, 1.));
    assert_eq!(tested.metric(&reloads("invalid")), 1.);
    assert_eq!(tested.metric("tollgate_config_last_ok_time_seconds"), began);
    tested.server.reload();
    assert_eq!(tested.metric(&reloads("invalid")), 2., "read again when somebody asks for it");
    fs::write(&tested.file, yaml(5)).unwrap();
    tested.wait_for(2);
    tested.wait_for_metric(INVALID, 0.);
    assert_eq!(tested.metric(&reloads("ok")), 1.);
    tested.server.reload();
    assert_eq!(tested.metric(&reloads("unchanged")), 1.);
    assert!(tested.metric("tollgate_config_last_ok_time_seconds") >= began);
}

#[test]
fn a_server_does_not_start_by_a_wrong_file() {
    let file = folder("first").join("tollgate.yaml");
    let said = |text: &str| {
        write(&file, text);
        start_at(&file).err().expect("it does not start").to_string()
    };
    let told = said("policies:\n  api: 1/parsec\n  b: 2/min\n  c: /min\n");
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), 2, "{told}");
    assert!(lines[0].contains("tollgate.yaml:2:10: policies.api: expected a unit"), "{told}");
    assert!(lines[1].contains("tollgate.yaml:4:6: policies.c: expected"), "{told}");
    fs::remove_file(&file).unwrap();
    let told = start_at(&file).err().unwrap().to_string();
    assert!(told.contains("tollgate.yaml: expected a file that can be read"), "{told}");
    // A name that the command line has.
    write(&file, "policies: {login: 5/min}");
    let login = "5/min".parse::<tollgate_kernel::Policy>().unwrap().with_name("login").unwrap();
    let settings = tollgate_daemon::ServerSettings { policies: vec![login], ..crate::config::support::settings(&file) };
    let told = tollgate_daemon::Server::start(settings).err().unwrap().to_string();
    assert!(told.contains("policies.login: expected a name of its own"), "{told}");
}

#[test]
fn a_pipeline_sees_a_new_generation_with_its_next_command() {
    let tested = start("pipeline", &yaml(10));
    let mut client = tested.client();
    assert_eq!(client.ask(&["TG.CHECK", "k", "api"])[2], 9);
    assert_eq!(client.ask(&["TG.CHECK", "k", "api"])[2], 8);
    tested.change(&yaml(20));
    assert_eq!(client.ask(&["TG.CHECK", "k", "api"])[2], 17);
    tested.change("policies: {other: 1/s}");
    let told = client.text(&["TG.CHECK", "k", "api"]);
    assert!(told.starts_with("-ERR policy: expected a policy such as \"100/min\", or a name (other)"), "{told}");
    assert_eq!(client.ask(&["TG.CHECK", "k", "5/min"])[2], 4);
}
