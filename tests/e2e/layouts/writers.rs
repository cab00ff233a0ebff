//! Ways to write a pair that no ordinary tool offers (slowly, without closing, unnamed, through a mapping, in parts), and
//! writers of other names that are in the way.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::linkat;
use tlsidecar::demo::authority::Leaf;

use crate::mapping::Mapping;
use crate::material::payload;
use crate::patience::pause;
use crate::probe::Endless;

const SLOWNESS: Duration = Duration::from_millis(100);
/// Longer than any chain of ours, and than any key.
const PADDED_BYTES: usize = 4096;

pub(super) fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut padded = bytes.to_vec();
    assert!(padded.len() <= PADDED_BYTES);
    padded.resize(PADDED_BYTES, b'\n');
    padded
}

pub(super) fn put_padded(folder: &Path, leaf: &Leaf) {
    for (name, bytes) in payload(leaf) {
        fs::write(folder.join(name), padded(bytes)).unwrap();
    }
}

pub(super) fn put_slowly(folder: &Path, leaf: &Leaf) {
    for (name, bytes) in payload(leaf) {
        let mut file = File::create(folder.join(name)).unwrap();
        let (first, second) = bytes.split_at(bytes.len() / 2);
        pause(SLOWNESS);
        file.write_all(first).unwrap();
        pause(SLOWNESS);
        file.write_all(second).unwrap();
        pause(SLOWNESS);
    }
}

/// The descriptors, still open for writing.
pub(super) fn put_and_hold(folder: &Path, leaf: &Leaf) -> [File; 2] {
    payload(leaf).map(|(name, bytes)| {
        let mut file = File::create(folder.join(name)).unwrap();
        file.write_all(bytes).unwrap();
        file
    })
}

pub(super) fn put_mapped(folder: &Path, leaf: &Leaf) {
    for (name, bytes) in payload(leaf) {
        Mapping::of(&folder.join(name)).store(bytes);
    }
}

pub(super) fn put_unnamed(folder: &Path, leaf: &Leaf) {
    for (name, bytes) in payload(leaf) {
        let mut file =
            OpenOptions::new().write(true).mode(0o644).custom_flags(libc::O_TMPFILE).open(folder).unwrap();
        let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
        let named = folder.join(name);
        linkat(AT_FDCWD, unnamed.as_str(), AT_FDCWD, &named, AtFlags::AT_SYMLINK_FOLLOW).unwrap();
        pause(SLOWNESS);
        file.write_all(bytes).unwrap();
    }
}

/// As some programs add the issuer to a chain: the leaf alone is a valid, shorter chain for 10 ms.
pub(super) fn put_in_parts(folder: &Path, leaf: &Leaf) {
    const END: &str = "-----END CERTIFICATE-----\n";
    fs::write(folder.join("tls.key"), &leaf.key_pem).unwrap();
    let first = leaf.chain_pem.find(END).unwrap() + END.len();
    let (own, issuers) = leaf.chain_pem.split_at(first);
    fs::write(folder.join("tls.crt"), own).unwrap();
    pause(Duration::from_millis(10));
    let mut rest = OpenOptions::new().append(true).open(folder.join("tls.crt")).unwrap();
    rest.write_all(issuers.as_bytes()).unwrap();
}

/// Names that have nothing to do with the pair come and go.
pub(super) fn churn(folder: &Path, count: u32) {
    for number in 0..count {
        let path = folder.join(format!("other-{number}"));
        File::create(&path).unwrap();
        fs::remove_file(&path).unwrap();
    }
}

/// The same without an end, on a thread, until it is dropped.
#[derive(Debug)]
pub(super) struct Flood(Option<Endless<()>>);

impl Flood {
    pub(super) fn start(folder: PathBuf) -> Self {
        Self(Some(Endless::start(move |going_on| {
            while going_on() {
                churn(&folder, 100);
            }
        })))
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        if let Some(flood) = self.0.take() {
            flood.finish();
        }
    }
}
