//! Certificates by generation, and folders on the kinds of file system that a sidecar meets.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use nix::sys::statfs::{self, FsType, statfs};
use tempfile::TempDir;
use tlsidecar::demo::authority::{Authority, Leaf, Profile};

use crate::client::{Trust, canonical_serial};
use crate::patience::wall_clock;

/// Leaves of one authority, told apart by a generation number that is also their serial.
#[derive(Debug)]
pub(crate) struct Generations {
    authority: Mutex<Authority>,
    issued: Mutex<BTreeMap<u64, Leaf>>,
}

impl Generations {
    pub(crate) fn new() -> Self {
        let authority = Authority::new("e2e root", wall_clock()).unwrap();
        Self { authority: Mutex::new(authority), issued: Mutex::default() }
    }

    /// The leaf of this generation, the same at each call.
    pub(crate) fn leaf(&self, number: u64) -> Leaf {
        let mut issued = self.issued.lock().unwrap();
        issued.entry(number).or_insert_with(|| self.issue(number)).clone()
    }

    fn issue(&self, number: u64) -> Leaf {
        let mut authority = self.authority.lock().unwrap();
        let profile = Profile { serial: number, ..authority.profile() };
        authority.issue_as(&profile).unwrap()
    }

    pub(crate) fn root_pem(&self) -> String {
        self.authority.lock().unwrap().root_pem()
    }

    pub(crate) fn trust(&self) -> Trust {
        Trust::new(&self.root_pem())
    }
}

/// How a generation's serial looks on the wire and, made canonical, in the log.
pub(crate) fn serial(number: u64) -> String {
    canonical_serial(&format!("{number:x}"))
}

/// The two files of a pair as a volume's payload.
pub(crate) fn payload(leaf: &Leaf) -> [(&'static str, &[u8]); 2] {
    [("tls.crt", leaf.chain_pem.as_bytes()), ("tls.key", leaf.key_pem.as_bytes())]
}

/// Writes a pair in place, as `cp` and most programs do.
pub(crate) fn write_in_place(folder: &Path, leaf: &Leaf) {
    for (name, bytes) in payload(leaf) {
        fs::write(folder.join(name), bytes).unwrap();
    }
}

/// Somewhere to put scenarios, and what kind of file system that is.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) kind: &'static str,
    root: PathBuf,
}

impl Place {
    fn at(root: PathBuf) -> Option<Self> {
        root.exists().then(|| Self { kind: kind_of_file_system(&root), root })
    }

    pub(crate) fn folder(&self) -> TempDir {
        tempfile::Builder::new().prefix("tlsidecar-e2e-").tempdir_in(&self.root).unwrap()
    }
}

/// The kind of file system that a path leads to.
pub(crate) fn kind_of_file_system(path: &Path) -> &'static str {
    /// Not among the constants of the library.
    const XFS: FsType = FsType(0x5846_5342);
    match statfs(path).unwrap().filesystem_type() {
        statfs::EXT4_SUPER_MAGIC => "ext4",
        statfs::TMPFS_MAGIC => "tmpfs",
        statfs::OVERLAYFS_SUPER_MAGIC => "overlayfs",
        statfs::BTRFS_SUPER_MAGIC => "btrfs",
        statfs::FUSE_SUPER_MAGIC => "fuse",
        XFS => "xfs",
        _ => "another file system",
    }
}

/// Memory, as a kubelet's secret volume is.
pub(crate) fn memory() -> Option<Place> {
    Place::at("/dev/shm".into()).filter(|place| place.kind == "tmpfs")
}

/// A disk: where temporary files go, or else where the build is, if the former is memory.
pub(crate) fn disk() -> Option<Place> {
    let places = [std::env::temp_dir(), env!("CARGO_TARGET_TMPDIR").into()];
    places.into_iter().filter_map(Place::at).find(|place| place.kind != "tmpfs")
}

/// Further places from `TLSIDECAR_E2E_PLACES`, separated by colons: mounts of other file systems.
pub(crate) fn further() -> Vec<Place> {
    let list = std::env::var_os("TLSIDECAR_E2E_PLACES").unwrap_or_default();
    std::env::split_paths(&list).filter_map(Place::at).collect()
}

/// A folder on whatever temporary files are on, for tests to which it does not matter.
pub(crate) fn folder() -> TempDir {
    tempfile::Builder::new().prefix("tlsidecar-e2e-").tempdir().unwrap()
}

/// A folder where a secret volume would be: in memory, if there is such a place.
pub(crate) fn memory_folder() -> TempDir {
    memory().map_or_else(folder, |place| place.folder())
}

/// A pair of plain files in a folder of its own.
#[derive(Debug)]
pub(crate) struct PlainPair {
    pub(crate) folder: TempDir,
}

impl PlainPair {
    pub(crate) fn of(leaf: &Leaf) -> Self {
        let folder = folder();
        write_in_place(folder.path(), leaf);
        Self { folder }
    }

    pub(crate) fn certificate(&self) -> PathBuf {
        self.folder.path().join("tls.crt")
    }

    pub(crate) fn key(&self) -> PathBuf {
        self.folder.path().join("tls.key")
    }
}

/// Full sizes when `TLSIDECAR_E2E_FULL` is set, else what an unoptimised build moves in a few seconds.
pub(crate) fn scaled(full: u64, ordinary: u64) -> u64 {
    if is_full() { full } else { ordinary }
}

/// Whether long runs are to be played in full length.
pub(crate) fn is_full() -> bool {
    std::env::var_os("TLSIDECAR_E2E_FULL").is_some()
}
