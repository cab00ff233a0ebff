//! Paths that lead nowhere, files that may not be read or can never change, and rights that are too wide.
//!
//! Knows nothing of what files hold. `tests/doctor.rs` shows each on real directories.

use super::{Finding, Severity, rights, who};
use crate::doctor::examination::{
    Content, Examination, ExaminedFile, Inode, Kind, Purpose, Replacement, Step, Viewer,
};
use crate::watch::Cause;

/// Read by those who are neither owner nor group.
const OTHERS_READ: u32 = 0o004;
/// Searched by those.
const OTHERS_SEARCH: u32 = 0o001;
/// Written by those.
const OTHERS_WRITE: u32 = 0o002;
/// Written by the group.
const GROUP_WRITE: u32 = 0o020;
/// In such a directory only the owner of a name may replace it.
const STICKY: u32 = 0o1000;

pub(super) fn findings(examination: &Examination) -> Vec<Finding> {
    let mut found: Vec<Finding> = no_proc(examination).into_iter().collect();
    for file in &examination.files {
        found.extend(unread(file, &examination.viewer).filter(|_| examination.has_proc));
        let of_file = [file.replacement.and_then(never_replaced), key_for_everyone(file)];
        found.extend(of_file.into_iter().flatten().map(|finding| finding.at(&*file.path)));
        found.extend(file.steps.iter().filter_map(replaceable_by_others));
    }
    found
}

/// Files that are pinned are read and watched by their names in `/proc`.
fn no_proc(examination: &Examination) -> Option<Finding> {
    (!examination.has_proc).then(|| {
        let problem = "/proc is not there, without which no file can be read or watched";
        Finding::new(Severity::Error, "no_proc", problem, "mount proc on /proc")
    })
}

/// Blames the place where the path breaks rather than the path: it may be the same for both files.
fn unread(file: &ExaminedFile, viewer: &Viewer) -> Option<Finding> {
    let (code, problem, advice) = match &file.content {
        Content::Read => return None,
        Content::Unresolved { at, problem, cause } => {
            let error = |problem| {
                Finding::new(Severity::Error, cause.label(), problem, unresolved_advice(*cause, file))
            };
            let directory = last(file, Kind::Directory).filter(|_| *cause == Cause::Forbidden);
            return Some(match directory {
                Some((step, inode)) => {
                    let (who, rights) = (who(viewer), rights(inode));
                    error(format!("{who} may not look up names in the directory {} ({rights})", step.path))
                        .at(&*step.path)
                }
                None => error(problem.clone()).at(at),
            });
        }
        Content::Moving => (
            "changed_while_read",
            "it changed while it was read".to_owned(),
            "run this again; if it stays so, find out what keeps writing to it".to_owned(),
        ),
        Content::Forbidden => {
            let rights = last(file, Kind::File).map(|(_, inode)| format!(" ({})", rights(inode)));
            let problem = format!("{} may not read it{}", who(viewer), rights.unwrap_or_default());
            ("unreadable", problem, LET_READ.to_owned())
        }
        Content::TooLarge => (
            "too_large",
            "it is larger than 1 MiB, which no certificate or key is".to_owned(),
            "see whether the path is that of the right file".to_owned(),
        ),
        Content::Failed { problem } => (
            "read_failed",
            format!("it could not be read: {problem}"),
            "see whether its file system answers".to_owned(),
        ),
    };
    Some(Finding::new(Severity::Error, code, problem, advice).at(&*file.path))
}

const LET_READ: &str = "let that user or one of its groups read it, for example chgrp and chmod g+r; in Kubernetes set \
                        securityContext.fsGroup of the pod, and defaultMode 0440 of the volume";

fn unresolved_advice(cause: Cause, file: &ExaminedFile) -> String {
    let link = last(file, Kind::Link);
    let through = link.map(|(step, _)| format!("the link {} leads there", step.path));
    let path_or_link = through.map_or("correct the path".to_owned(), |through| {
        format!("correct the path or what it goes through: {through}")
    });
    match cause {
        Cause::Missing => format!("{path_or_link}; if it has yet to be written, the server will wait for it"),
        Cause::NotADirectory | Cause::TooLong => path_or_link,
        Cause::Forbidden => {
            "let that user or one of its groups search it, for example chgrp and chmod g+rx (reading it is what watching \
             it needs)"
                .to_owned()
        }
        Cause::Loop => format!("the links lead in a circle; {path_or_link}"),
        Cause::IsADirectory => "write the path of the file in it".to_owned(),
        Cause::NotAFile => "put a regular file in its place; nothing else is ever opened".to_owned(),
        Cause::Failed { .. } => format!("see whether the file system there answers; {path_or_link}"),
    }
}

fn last(file: &ExaminedFile, kind: Kind) -> Option<(&Step, &Inode)> {
    let step = file.steps.iter().rev().find(|step| step.kind == kind)?;
    Some((step, step.inode.as_ref()?))
}

fn never_replaced(replacement: Replacement) -> Option<Finding> {
    let directory =
        "mount the directory that holds the file instead, in Kubernetes the whole volume without subPath";
    let (code, problem, advice) = match replacement {
        Replacement::Seen => return None,
        Replacement::SingleFileMount => (
            "single_file_mount",
            "the file itself is mounted: one that replaces it where it came from is never seen here, only writes into it",
            directory.to_owned(),
        ),
        Replacement::SingleFileMountOfDeleted => (
            "single_file_mount_deleted",
            "the file itself is mounted and has been replaced or removed where it came from: what is read here is old \
             and stays so",
            format!("start the container again to see the new file once; to see every one, {directory}"),
        ),
        Replacement::OpenFile => (
            "open_file",
            "the path ends in a file that a process holds open: one that takes its name is never seen here, only writes \
             into it",
            "write the path by which the file was opened".to_owned(),
        ),
        Replacement::MountOfDeletedDirectory => (
            "directory_mount_deleted",
            "a directory on the way is mounted and has been removed where it came from: nothing new will appear in it",
            "start the container again, and mount a directory that stays".to_owned(),
        ),
        Replacement::MountOfOneGeneration => (
            "one_generation_mount",
            "a directory on the way is mounted from within one generation of a Kubernetes volume: later ones are never \
             seen here",
            "mount the whole volume without subPath".to_owned(),
        ),
    };
    Some(Finding::new(Severity::Error, code, problem, advice))
}

/// Whether everybody can read the key: its own rights and those of each directory on the way decide.
fn key_for_everyone(file: &ExaminedFile) -> Option<Finding> {
    let (_, key) = last(file, Kind::File).filter(|_| file.purpose == Purpose::Key)?;
    let is_open = |inode: &Inode| inode.mode.0 & OTHERS_SEARCH != 0;
    let mut directories = file.steps.iter().filter(|step| step.kind == Kind::Directory);
    let reachable = directories.all(|step| step.inode.as_ref().is_some_and(is_open));
    (reachable && key.mode.0 & OTHERS_READ != 0).then(|| {
        Finding::new(
            Severity::Hint,
            "key_readable_by_all",
            format!("every user of this machine or container can read the key ({})", rights(key)),
            "take the right away with chmod o-r; in Kubernetes set defaultMode 0440 of the volume, and \
             securityContext.fsGroup of the pod",
        )
    })
}

/// Whether somebody else can put other files in the place of those that are read.
fn replaceable_by_others(step: &Step) -> Option<Finding> {
    let inode = step.inode.as_ref().filter(|_| matches!(step.kind, Kind::Directory | Kind::File))?;
    let mode = inode.mode.0;
    if step.kind == Kind::Directory && mode & STICKY != 0 {
        return None;
    }
    let (writers, right) = if mode & OTHERS_WRITE != 0 {
        ("every user", "o-w")
    } else if mode & GROUP_WRITE != 0 {
        ("the group", "g-w")
    } else {
        return None;
    };
    let what = if step.kind == Kind::Directory { "replace what is in it" } else { "change it" };
    let problem = format!("{writers} can {what} ({})", rights(inode));
    let advice = format!("if that is not intended, take the right away with chmod {right}");
    Some(Finding::new(Severity::Hint, "writable_by_others", problem, advice).at(&*step.path))
}
