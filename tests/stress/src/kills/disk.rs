//! What would be on the disk if the power had gone: read from what the preloaded library recorded.
//!
//! A name is there if the folder was synced since it came; of a file, what was synced. Of what was not, any part
//! may be there: names up to some change, since file systems write those in order; of a file some of its pages.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::Failure;
use tollgate_random::Rng;

/// The unit in which a system writes files.
const PAGE: u64 = 4096;

/// A folder and its disk.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    /// Names of the folder when it was given to the server.
    names: BTreeMap<String, u64>,
    /// Files by inode: how much of each is on the disk.
    files: BTreeMap<u64, Extent>,
    /// Changes of names that may not be on the disk.
    pending: Vec<Change>,
    /// Files that were made as journals.
    journals: BTreeSet<u64>,
    /// How long the longest sync of a journal took, in microseconds.
    pub(super) longest_sync: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Extent {
    synced: u64,
    /// It was cut below that, and not synced since.
    is_cut: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    Made(u64, String),
    Renamed(String, String),
    Removed(String),
}

impl Disk {
    /// A folder as it is, all of it on the disk, with copies of its files in `kept`.
    pub(super) fn new(folder: &Path, kept: &Path) -> Result<Self, Failure> {
        fs::create_dir_all(kept)?;
        let (mut names, mut files) = (BTreeMap::new(), BTreeMap::new());
        for file in fs::read_dir(folder)? {
            let file = file?;
            let (found, name) = (file.metadata()?, file.file_name().to_string_lossy().into_owned());
            fs::copy(file.path(), kept.join(found.ino().to_string()))?;
            names.insert(name, found.ino());
            files.insert(found.ino(), Extent { synced: found.len(), is_cut: false });
        }
        Ok(Self { names, files, pending: Vec::new(), journals: BTreeSet::new(), longest_sync: 0 })
    }

    /// Takes what was recorded.
    pub(super) fn read(&mut self, log: &str) -> Result<(), Failure> {
        // Where each thread that syncs the folder began.
        let mut begun: BTreeMap<&str, usize> = BTreeMap::new();
        let lines: Vec<Vec<&str>> = log.lines().map(|line| line.split(' ').collect()).collect();
        for words in &lines {
            match words.as_slice() {
                ["C", inode, name] => {
                    if name.starts_with("journal-") {
                        self.journals.insert(inode.parse()?);
                    }
                    self.pending.push(Change::Made(inode.parse()?, (*name).to_owned()));
                    self.files.entry(inode.parse()?).or_default();
                }
                ["R", old, new] => self.pending.push(Change::Renamed((*old).to_owned(), (*new).to_owned())),
                ["U", name] => self.pending.push(Change::Removed((*name).to_owned())),
                ["B", thread] => drop(begun.insert(thread, self.pending.len())),
                ["D", thread] => {
                    let Some(there) = begun.remove(thread) else { continue };
                    let there = there.min(self.pending.len());
                    for change in self.pending.drain(..there) {
                        change.make(&mut self.names);
                    }
                    begun.values_mut().for_each(|begun| *begun = begun.saturating_sub(there));
                }
                ["S", inode, length, took] => {
                    let inode = inode.parse()?;
                    self.files.insert(inode, Extent { synced: length.parse()?, is_cut: false });
                    if self.journals.contains(&inode) {
                        self.longest_sync = self.longest_sync.max(took.parse()?);
                    }
                }
                ["T", inode, length] => {
                    let file = self.files.entry(inode.parse()?).or_default();
                    file.is_cut |= length.parse::<u64>()? < file.synced;
                }
                ["W", inode] => {
                    return Err(Failure(format!("inode {inode} is not only appended to: what is lost cannot be told")));
                }
                // The last line of a server that was killed may be a part of one.
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes the folder `to` as the disk has it, of what is in `folder` and `graves`; `kept` has files as they
    /// were at first. Nothing of what was not synced is there without a `rng`, else a part.
    pub(super) fn lose(
        &self,
        [folder, graves, kept]: [&Path; 3],
        to: &Path,
        mut rng: Option<&mut Rng>,
    ) -> Result<(), Failure> {
        let mut names = self.names.clone();
        let some = rng.as_mut().map_or(0, |rng| rng.below(self.pending.len() as u64 + 1)) as usize;
        self.pending.iter().take(some).for_each(|change| change.make(&mut names));
        let mut places = BTreeMap::new();
        for place in [graves, folder] {
            for file in fs::read_dir(place)? {
                let file = file?;
                places.insert(file.metadata()?.ino(), file.path());
            }
        }
        for (name, inode) in names {
            let extent = self.files.get(&inode).copied().unwrap_or_default();
            // A cut that is not on the disk leaves what there was.
            let content = match extent.is_cut {
                true => fs::read(kept.join(inode.to_string()))
                    .map_err(|_| Failure(format!("{name} was synced, then cut: what the disk had is not known")))?,
                false => match places.get(&inode) {
                    Some(path) => fs::read(path)?,
                    None => return Err(Failure(format!("{name}, inode {inode}, is nowhere any more"))),
                },
            };
            write(&to.join(name), &survives(content, extent.synced, rng.as_deref_mut()))?;
        }
        Ok(())
    }
}

impl Change {
    fn make(&self, names: &mut BTreeMap<String, u64>) {
        match self {
            Self::Made(inode, name) => drop(names.insert(name.clone(), *inode)),
            Self::Removed(name) => drop(names.remove(name)),
            Self::Renamed(old, new) => {
                if let Some(inode) = names.remove(old) {
                    names.insert(new.clone(), inode);
                }
            }
        }
    }
}

/// What is left of a file of which so much was synced: of the rest some pages up to some length.
fn survives(mut content: Vec<u8>, synced: u64, rng: Option<&mut Rng>) -> Vec<u8> {
    let synced = synced.min(content.len() as u64);
    let Some(rng) = rng else {
        content.truncate(synced as usize);
        return content;
    };
    let pages = (content.len() as u64).div_ceil(PAGE);
    let first = synced / PAGE;
    let last = first + rng.below(pages - first + 1);
    content.truncate((last * PAGE).max(synced) as usize);
    // Of those before the last, some may not have been written.
    for page in first..last {
        if rng.below(3) == 0 {
            let (start, end) = ((page * PAGE).max(synced) as usize, ((page + 1) * PAGE) as usize);
            let end = end.min(content.len());
            content[start.min(end)..end].fill(0);
        }
    }
    content
}

fn write(path: &Path, content: &[u8]) -> Result<(), Failure> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    Ok(std::io::Write::write_all(&mut file, content)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kills::shim::Shim;
    use crate::serving::Folder;
    use std::process::Command;

    /// What is left of what a shell did, file by file.
    fn left(commands: &str) -> Vec<(String, String)> {
        let folder = Folder::new("disk-test").unwrap();
        let shim = Shim::build(folder.path()).unwrap();
        let dir = folder.at("data");
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("old"), "old").unwrap();
        let disk = shim.watch(&dir).unwrap();
        let commands = commands.replace("DIR", &dir.display().to_string());
        let done = Command::new("sh").args(["-ec", &commands]).envs(shim.set(&dir)).status().unwrap();
        assert!(done.success());
        let to = folder.at("left");
        fs::create_dir(&to).unwrap();
        shim.lose(disk, &dir, &to, None).unwrap();
        let mut left: Vec<_> = fs::read_dir(&to)
            .unwrap()
            .map(|file| {
                let file = file.unwrap();
                (file.file_name().into_string().unwrap(), fs::read_to_string(file.path()).unwrap())
            })
            .collect();
        left.sort();
        left
    }

    #[test]
    fn what_was_not_synced_is_gone() {
        let is = |commands: &str, expected: &[(&str, &str)]| {
            let expected: Vec<_> =
                expected.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
            assert_eq!(left(commands), expected, "{commands}");
        };
        is("true", &[("old", "old")]);
        is("echo a >> DIR/new; sync DIR/new", &[("old", "old")]);
        is("echo a >> DIR/new; sync DIR", &[("new", ""), ("old", "old")]);
        is("echo a >> DIR/new; sync DIR/new DIR; echo b >> DIR/new", &[("new", "a\n"), ("old", "old")]);
        is("rm DIR/old", &[("old", "old")]);
        is("rm DIR/old; sync DIR", &[]);
        is("echo more >> DIR/old", &[("old", "old")]);
        is("mv DIR/old DIR/new", &[("old", "old")]);
        is("mv DIR/old DIR/new; sync DIR", &[("new", "old")]);
        is("echo a >> DIR/new; sync DIR/new; mv DIR/new DIR/old", &[("old", "old")]);
        is("echo a >> DIR/new; sync DIR/new; mv DIR/new DIR/old; sync DIR", &[("old", "a\n")]);
    }

    #[test]
    fn a_part_of_the_rest_may_be_there_but_never_less_than_was_synced() {
        let content: Vec<u8> = (0..5 * PAGE).map(|number| 1 + (number % 200) as u8).collect();
        let synced = PAGE + 100;
        let mut longest = 0;
        for part in 0..200 {
            let left = survives(content.clone(), synced, Some(&mut Rng::of_part(7, part)));
            assert!(left.len() as u64 >= synced && left.len() <= content.len());
            assert_eq!(left[..synced as usize], content[..synced as usize]);
            assert!(left.iter().zip(&content).all(|(left, was)| left == was || *left == 0));
            longest = longest.max(left.len());
        }
        assert_eq!(longest, content.len());
        assert_eq!(survives(content, synced, None).len() as u64, synced);
    }
}
