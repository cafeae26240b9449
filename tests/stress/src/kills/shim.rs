//! The library that is preloaded into a server, and the files by which it tells and is told.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::disk::Disk;
use crate::Failure;
use tollgate_random::Rng;

const SOURCE: &str = include_str!("../../shims/disk.c");

/// What the disk is made to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    None,
    /// Writes find no room.
    Full,
    /// Syncs fail.
    Failing,
}

pub(crate) struct Shim {
    library: PathBuf,
    log: PathBuf,
    graves: PathBuf,
    kept: PathBuf,
    control: PathBuf,
}

impl Shim {
    /// Compiles it into a folder of this user, where its files are too.
    pub(crate) fn build(folder: &Path) -> Result<Self, Failure> {
        let at = |name: &str| folder.join(name);
        let (source, library) = (at("disk.c"), at("disk.so"));
        fs::write(&source, SOURCE)?;
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-O2", "-o"]).arg(&library).arg(&source).args(["-ldl", "-lpthread"]);
        let done = cc.output().map_err(|error| Failure(format!("cc, a C compiler, is needed: {error}")))?;
        if !done.status.success() {
            return Err(Failure(format!("cc: {}", String::from_utf8_lossy(&done.stderr))));
        }
        let shim =
            Self { library, log: at("disk.log"), graves: at("graves"), kept: at("kept"), control: at("control") };
        fs::write(&shim.control, vec![0; 4096])?;
        Ok(shim)
    }

    /// The variables for a server whose folder it watches.
    pub(crate) fn set(&self, folder: &Path) -> Vec<(&'static str, String)> {
        let path = |path: &Path| path.display().to_string();
        vec![
            ("LD_PRELOAD", path(&self.library)),
            ("TOLLGATE_DISK_DIR", path(folder)),
            ("TOLLGATE_DISK_LOG", path(&self.log)),
            ("TOLLGATE_DISK_GRAVES", path(&self.graves)),
            ("TOLLGATE_DISK_CONTROL", path(&self.control)),
        ]
    }

    /// Begins to watch a folder, all of which is on the disk.
    pub(crate) fn watch(&self, folder: &Path) -> Result<Disk, Failure> {
        for old in [&self.graves, &self.kept] {
            let _ = fs::remove_dir_all(old);
            fs::create_dir(old)?;
        }
        fs::write(&self.log, "")?;
        self.trouble(Trouble::None)?;
        Disk::new(folder, &self.kept)
    }

    /// Writes the folder `to` as the disk of a watched one has it. A part of what was not synced is there with a
    /// `rng`.
    pub(super) fn lose(
        &self,
        mut disk: Disk,
        folder: &Path,
        to: &Path,
        rng: Option<&mut Rng>,
    ) -> Result<Disk, Failure> {
        disk.read(&fs::read_to_string(&self.log)?)?;
        disk.lose([folder, &self.graves, &self.kept], to, rng)?;
        Ok(disk)
    }

    /// Makes the disk full, or fail, or neither.
    pub(crate) fn trouble(&self, trouble: Trouble) -> Result<(), Failure> {
        let bytes = [u8::from(trouble == Trouble::Full), u8::from(trouble == Trouble::Failing)];
        Ok(File::options().write(true).open(&self.control)?.write_all_at(&bytes, 0)?)
    }
}
