//! A folder for one run, gone with it.
//!
//! It holds private keys, if only those of the demo, so that nobody else may enter it. It knows nothing of what is put
//! there. The tests of the demo see it vanish.

use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// A new folder; dropping it removes it with all that is in it.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Makes a folder with an unused name in `parent`.
    pub(super) fn new(parent: &Path) -> io::Result<Self> {
        let mark = RandomState::new().build_hasher().finish();
        let path = parent.join(format!("tlsidecar-demo-{mark:016x}"));
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self { path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nobody is left who could be told, and the system clears its temporary folder in time.
        let _ = fs::remove_dir_all(&self.path);
    }
}
