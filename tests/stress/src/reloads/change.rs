//! The ways in which a file changes, as editors, people and mounted config maps change it, and goes wrong.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::serving::Folder;

/// A way to put a text into a file's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteMethod {
    /// Written beside it and renamed.
    Rename,
    /// Written into it, in one write.
    InPlace,
    /// A link to another file takes its place.
    Link,
    /// It is behind a link to a folder, which is exchanged: a mounted config map.
    Mount,
}

/// The ways, of which one is chosen at random.
pub(super) const WAYS: [WriteMethod; 4] =
    [WriteMethod::Rename, WriteMethod::InPlace, WriteMethod::Link, WriteMethod::Mount];

/// A way to go wrong: the text, and the rights of the file.
pub(super) type BadFile = (&'static str, fn(&str) -> (Vec<u8>, u32));

/// The rights of a file that is right.
pub(super) const RIGHT: u32 = 0o600;

/// What can be wrong with a file.
pub(super) const WRONGS: &[BadFile] = &[
    ("nothing in it", |_| (Vec::new(), RIGHT)),
    ("no YAML", |text| (format!("{text}  broken: [1, 2\n").into_bytes(), RIGHT)),
    ("cut in the middle of a line", |text| (text.as_bytes()[..text.len() - 4].to_vec(), RIGHT)),
    ("an unknown field", |text| (text.replace("note:", "nota:").into_bytes(), RIGHT)),
    ("a policy that says nothing", |text| (text.replace("\"1/d\"", "\"1/parsec\"").into_bytes(), RIGHT)),
    ("a name twice", |text| (format!("{text}  counter: \"2/d\"\n").into_bytes(), RIGHT)),
    ("bytes that are no text", |text| ([text.as_bytes(), b"\xff\xfe\n"].concat(), RIGHT)),
    ("others may write it", |text| (text.as_bytes().to_vec(), 0o666)),
];

/// Where the file is.
pub(super) struct PolicyFile {
    folder: PathBuf,
}

impl PolicyFile {
    pub(super) fn new(folder: &Folder) -> io::Result<Self> {
        let place = Self { folder: folder.at("conf") };
        fs::create_dir(&place.folder)?;
        Ok(place)
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.join("tollgate.yaml")
    }

    /// The first file.
    pub(super) fn begin(&self, text: &str) -> io::Result<()> {
        write(&self.path(), text.as_bytes(), RIGHT)
    }

    /// Puts bytes into the file's place.
    pub(super) fn change(&self, way: WriteMethod, number: u64, bytes: &[u8], rights: u32) -> io::Result<()> {
        let at = |name: String| self.folder.join(name);
        match way {
            WriteMethod::Rename => {
                let beside = at(".tollgate.yaml.swp".to_owned());
                write(&beside, bytes, rights)?;
                fs::rename(beside, self.path())
            }
            WriteMethod::InPlace => write(&self.path(), bytes, rights),
            WriteMethod::Link => {
                let target = at(format!("version-{number}.yaml"));
                write(&target, bytes, rights)?;
                self.link(&target)
            }
            WriteMethod::Mount => {
                let folder = at(format!("..{number}"));
                fs::create_dir(&folder)?;
                write(&folder.join("tollgate.yaml"), bytes, rights)?;
                let (beside, data) = (at("..data_tmp".to_owned()), at("..data".to_owned()));
                symlink(&folder, &beside)?;
                fs::rename(beside, data)?;
                let target = Path::new("..data/tollgate.yaml");
                if fs::read_link(self.path()).ok().as_deref() == Some(target) { Ok(()) } else { self.link(target) }
            }
        }
    }

    fn link(&self, target: &Path) -> io::Result<()> {
        let beside = self.folder.join("link_tmp");
        symlink(target, &beside)?;
        fs::rename(beside, self.path())
    }
}

/// Writes all of a file in one write, so that a reader finds nothing or all.
fn write(path: &Path, bytes: &[u8], rights: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(RIGHT).open(path)?;
    // Before there is anything to read.
    file.set_permissions(Permissions::from_mode(rights))?;
    file.write_all(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_leads_to_the_text_after_every_other() {
        let folder = Folder::new("change-test").unwrap();
        let place = PolicyFile::new(&folder).unwrap();
        place.begin("first").unwrap();
        let mut number = 0;
        for one in WAYS {
            for other in WAYS {
                for way in [one, other] {
                    number += 1;
                    let text = format!("text {number}");
                    place.change(way, number, text.as_bytes(), RIGHT).unwrap();
                    assert_eq!(fs::read_to_string(place.path()).unwrap(), text, "{one:?} {other:?}");
                    let rights = fs::metadata(place.path()).unwrap().permissions().mode();
                    assert_eq!(rights & 0o777, RIGHT, "{one:?} {other:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_wrong_differs_from_what_is_right() {
        let text = super::super::policies::file(0, 0);
        for (name, wrong) in WRONGS {
            let (bytes, rights) = wrong(&text);
            assert!(bytes != text.as_bytes() || rights != RIGHT, "{name}");
        }
    }
}
