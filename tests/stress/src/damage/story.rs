//! The stories: what one connection did, all of it answered, and the folder that it left.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::Failure;
use crate::kills::Client;
use crate::serving::{Folder, Resp, ServerProcess};
use tollgate_random::Rng;

/// Turns of the connection between two ends of its server, and requests of a turn.
const TURNS: usize = 40;
const DEPTH: usize = 6;

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Killed,
    /// Asked to end, which leaves a snapshot.
    Asked,
}

/// What became of the servers of a story, one after the other.
const STORIES: &[(&str, &[End])] = &[
    ("a server killed", &[End::Killed]),
    ("three servers killed", &[End::Killed, End::Killed, End::Killed]),
    ("one asked to end, two killed", &[End::Asked, End::Killed, End::Killed]),
    ("one killed, one asked to end", &[End::Killed, End::Asked]),
];

/// A story, with its folder.
pub(super) struct Story {
    pub(super) name: &'static str,
    folder: Folder,
    pub(super) client: Client,
    /// Before anything happened.
    pub(super) start: Instant,
    /// What a server says that finds the folder as it was left, without its numbers.
    usual: BTreeSet<String>,
}

/// The files of a folder by name, without the one that only says who writes.
pub(super) type Files = BTreeMap<String, Vec<u8>>;

impl Story {
    pub(super) fn all(seed: u64) -> Result<Vec<Self>, Failure> {
        STORIES.iter().zip(0..).map(|((name, ends), number)| Self::live(name, ends, seed, number)).collect()
    }

    fn live(name: &'static str, ends: &[End], seed: u64, number: u64) -> Result<Self, Failure> {
        let (folder, start) = (Folder::new("story")?, Instant::now());
        let mut client = Client::new("story", 0, DEPTH, Rng::of_part(seed, number));
        let words = words(&folder.at("data"), false);
        for end in ends {
            let mut server = ServerProcess::start(&words, &[])?;
            let mut turns = 0;
            client.run(server.resp, &[], || {
                turns += 1;
                turns > TURNS
            });
            if client.ended.is_some() {
                return Err(Failure(format!("{name}: the connection ended: {:?}", client.wrong)));
            }
            match end {
                End::Killed => drop(server.kill()?),
                End::Asked => drop(server.end()?),
            }
        }
        let mut story = Self { name, folder, client, start, usual: BTreeSet::new() };
        story.usual = story.control()?;
        Ok(story)
    }

    /// Starts a server on a copy that nobody harmed: it must know all.
    fn control(&self) -> Result<BTreeSet<String>, Failure> {
        let copy = self.folder.at("copy");
        write(&copy, &files(&self.data())?)?;
        let server = ServerProcess::start(&words(&copy, false), &[])?;
        let found = self.client.read(&mut Resp::connect(server.resp)?, None)?;
        let said = server.finish()?;
        match self.client.history.judge(&found, None) {
            Ok(_) => Ok(said.iter().map(|line| without_numbers(line)).collect()),
            Err(wrong) => Err(Failure(format!("{}, unharmed: {wrong}", self.name))),
        }
    }

    /// Whether somebody is told more than usual, with the name of a file.
    pub(super) fn is_unusual(&self, said: &[String]) -> bool {
        let mut lines = said.iter().filter(|line| names_a_file(line));
        lines.any(|line| !self.usual.contains(&without_numbers(line)))
    }

    pub(super) fn data(&self) -> PathBuf {
        self.folder.at("data")
    }

    pub(super) fn keys(&self) -> usize {
        self.client.history.accounts.len()
    }

    pub(super) fn acts(&self) -> usize {
        self.client.history.sent()
    }

    /// Its files, for people.
    pub(super) fn files(&self) -> Result<String, Failure> {
        let files = files(&self.data())?;
        let told: Vec<String> = files.iter().map(|(name, bytes)| format!("{name} {} bytes", bytes.len())).collect();
        Ok(told.join(", "))
    }
}

/// The words of a server on a folder.
pub(super) fn words(data: &Path, repairs: bool) -> Vec<String> {
    let data = data.display().to_string();
    let mut words = vec!["--http", "off", "--memory", "16M", "--keys", "16M", "--data", &data];
    if repairs {
        words.push("--repair");
    }
    words.into_iter().map(str::to_owned).collect()
}

/// Whether a line tells which file is meant.
pub(super) fn names_a_file(line: &str) -> bool {
    ["journal-", "snapshot-", "newest"].iter().any(|name| line.contains(name))
}

fn without_numbers(line: &str) -> String {
    line.chars().filter(|char| !char.is_ascii_digit()).collect()
}

/// Writes a folder anew.
pub(super) fn write(data: &Path, files: &Files) -> Result<(), Failure> {
    DirBuilder::new().mode(0o700).create(data)?;
    for (name, bytes) in files {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(data.join(name))?;
        file.write_all(bytes)?;
    }
    Ok(())
}

pub(super) fn files(data: &Path) -> Result<Files, Failure> {
    let mut files = Files::new();
    for file in fs::read_dir(data)? {
        let file = file?;
        let name = file.file_name().to_string_lossy().into_owned();
        if name != "lock" {
            files.insert(name, fs::read(file.path())?);
        }
    }
    Ok(files)
}
