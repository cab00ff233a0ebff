//! Whether a new file that takes the name of the old one would be seen, from the steps that lead to it.
//!
//! A mount fixes an inode for ever, as does a descriptor: renames beside the original happen where this process does not
//! look. A function of its arguments; the table below shows it.

use super::examination::{Follower, Kind, Replacement, Step};

/// What the kernel appends to the root of a mount whose original was removed.
const DELETED: &str = "//deleted";

/// For the file at the end of the steps, or the one that is missing there. A directory that was removed is empty, so only
/// a missing file can lie in one.
pub(super) fn of(steps: &[Step]) -> Option<Replacement> {
    let mut roots = steps.iter().filter_map(|step| Some(&*step.inode.as_ref()?.mount.as_ref()?.root));
    let last = steps.last()?;
    if last.kind == Kind::Nothing && roots.clone().any(|root| root.ends_with(DELETED)) {
        return Some(Replacement::MountOfDeletedDirectory);
    }
    let file = last.inode.as_ref().filter(|_| last.kind == Kind::File)?;
    if steps.iter().rev().nth(1).is_some_and(|step| step.followed_by == Some(Follower::Kernel)) {
        return Some(Replacement::OpenFile);
    }
    let root = file.mount.as_ref().map_or("", |mount| &*mount.root);
    if file.is_mount_root && (file.hard_links == 0 || root.ends_with(DELETED)) {
        return Some(Replacement::SingleFileMountOfDeleted);
    }
    if file.is_mount_root {
        return Some(Replacement::SingleFileMount);
    }
    if roots.any(|root| root.split('/').any(is_generation)) {
        return Some(Replacement::MountOfOneGeneration);
    }
    // Where the mounts are not known, there may be one that keeps a new file away.
    let is_known = |step: &Step| step.inode.as_ref().is_some_and(|inode| inode.mount.is_some());
    steps.iter().all(is_known).then_some(Replacement::Seen)
}

/// Whether a directory's name is one that the kubelet gives to a generation: `..2026_11_30_13_42_00.123456`.
fn is_generation(name: &str) -> bool {
    name.strip_prefix("..").is_some_and(|stamp| {
        stamp.split(['_', '.']).count() == 7
            && stamp.chars().all(|c| c.is_ascii_digit() || matches!(c, '_' | '.'))
    })
}

#[cfg(test)]
mod tests {
    use super::super::examination::{Inode, Mode, MountPoint, Owner};
    use super::*;

    fn step(kind: Kind, hard_links: u64, is_mount_root: bool, root: &str) -> Step {
        let mount = MountPoint { point: "/m".into(), root: root.into(), filesystem: "tmpfs".into() };
        let owner = Owner { uid: 0, user: None, gid: 0, group: None };
        let (mode, size_bytes) = (Mode(0o755), 1);
        let inode = Inode { owner, mode, hard_links, size_bytes, is_mount_root, mount: Some(mount) };
        Step { path: "/m".into(), kind, link_text: None, followed_by: None, inode: Some(inode) }
    }

    fn nothing() -> Step {
        Step { path: "/m/f".into(), kind: Kind::Nothing, link_text: None, followed_by: None, inode: None }
    }

    fn magic_link() -> Step {
        Step { followed_by: Some(Follower::Kernel), ..step(Kind::Link, 1, false, "/") }
    }

    fn somewhere(mut step: Step) -> Step {
        step.inode.iter_mut().for_each(|inode| inode.mount = None);
        step
    }

    #[test]
    fn only_mounts_and_open_files_keep_a_new_file_away() {
        use Kind::{Directory, Fifo, File};
        let generation = "/..2026_11_30_13_42_00.123456/sub";
        for (steps, expected) in [
            (vec![], None),
            (vec![magic_link(), step(File, 0, false, "/")], Some(Replacement::OpenFile)),
            (
                vec![magic_link(), step(Directory, 2, true, "/"), step(File, 1, false, "/")],
                Some(Replacement::Seen),
            ),
            (vec![step(Directory, 2, true, "/")], None),
            (vec![step(Fifo, 1, false, "/")], None),
            (vec![step(Directory, 2, true, "/"), step(File, 1, false, "/")], Some(Replacement::Seen)),
            (vec![somewhere(step(Directory, 2, true, "/")), step(File, 1, false, "/")], None),
            (vec![step(Directory, 2, true, "/"), somewhere(step(File, 1, false, "/"))], None),
            (vec![somewhere(step(File, 1, true, "/"))], Some(Replacement::SingleFileMount)),
            (vec![step(File, 1, true, "/a/f")], Some(Replacement::SingleFileMount)),
            (vec![step(File, 1, true, generation)], Some(Replacement::SingleFileMount)),
            (vec![step(File, 1, true, "/f//deleted")], Some(Replacement::SingleFileMountOfDeleted)),
            (vec![step(File, 0, true, "/f")], Some(Replacement::SingleFileMountOfDeleted)),
            // Replaced between the look at its name and the look at it.
            (vec![step(File, 0, false, "/")], Some(Replacement::Seen)),
            (vec![step(Directory, 2, true, "/"), nothing()], None),
            (
                vec![step(Directory, 0, true, "/d//deleted"), nothing()],
                Some(Replacement::MountOfDeletedDirectory),
            ),
            (vec![step(File, 1, false, generation)], Some(Replacement::MountOfOneGeneration)),
            (vec![step(File, 1, false, "/..2026/deleted")], Some(Replacement::Seen)),
        ] {
            assert_eq!(of(&steps), expected, "{steps:?}");
        }
    }
}
