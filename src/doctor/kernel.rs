//! The kernel's files that say how much of inotify there is and how much of it is taken.
//!
//! Nothing here is needed: a container may hide any of these files, and then nothing is said about them. It does not
//! judge numbers. `tests/doctor.rs` reads them through the program.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::examination::{QueueLimits, QueueUse};

/// Processes and descriptors that are looked into at most: a machine with more is not searched to its end.
const PROCESSES_MAX: usize = 4096;
const DESCRIPTORS_MAX: usize = 1 << 16;

/// A file of the kernel's or of `/etc`, as far as its first 16 MiB.
pub(super) fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    const BYTES_MAX: u64 = 16 << 20;
    let mut bytes = Vec::new();
    File::open(path)?.take(BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The limits that hold for this process. A user namespace may set narrower ones than the machine.
pub(super) fn limits() -> QueueLimits {
    let narrower = |one: Option<u64>, other: Option<u64>| one.into_iter().chain(other).min();
    let machine = |name: &str| number(&format!("/proc/sys/fs/inotify/{name}"));
    let namespace = |name: &str| number(&format!("/proc/sys/user/{name}"));
    QueueLimits {
        max_user_instances: narrower(machine("max_user_instances"), namespace("max_inotify_instances")),
        max_user_watches: narrower(machine("max_user_watches"), namespace("max_inotify_watches")),
        max_queued_events: machine("max_queued_events"),
    }
}

fn number(path: &str) -> Option<u64> {
    String::from_utf8(read(path).ok()?).ok()?.trim().parse().ok()
}

/// What a user's processes hold, counted in `/proc`. Processes come and go meanwhile: what has gone counts nothing.
pub(super) fn in_use(uid: u32) -> QueueUse {
    let mut seen = QueueUse::default();
    let mut descriptors = 0;
    for process in fs::read_dir("/proc").into_iter().flatten().flatten().take(PROCESSES_MAX) {
        let is_process = process.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit);
        if !is_process || process.metadata().map_or(true, |metadata| metadata.uid() != uid) {
            continue;
        }
        match fs::read_dir(process.path().join("fd")) {
            Ok(open) => {
                for descriptor in open.flatten().take(DESCRIPTORS_MAX - descriptors) {
                    descriptors += 1;
                    count(&process.path(), &descriptor, &mut seen);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => seen.processes_hidden += 1,
            Err(_) => {}
        }
    }
    seen
}

fn count(process: &Path, descriptor: &fs::DirEntry, seen: &mut QueueUse) {
    let leads_to = fs::read_link(descriptor.path());
    if leads_to.map_or(true, |leads_to| leads_to.as_os_str() != "anon_inode:inotify") {
        return;
    }
    seen.instances += 1;
    let details = read(process.join("fdinfo").join(descriptor.file_name())).unwrap_or_default();
    let watches = details.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"inotify ")).count();
    seen.watches += u64::try_from(watches).unwrap_or(u64::MAX);
}
