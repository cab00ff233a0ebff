//! Every look-up behind a path, for people to read: what the walk of the serving path would find, one step after
//! another, with owner, rights and mount.
//!
//! It opens nothing but directories and links, and those only to look names up. It does not judge what it finds.
//! `tests/doctor.rs` shows it on real directories.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use super::accounts::Accounts;
use super::examination::{Follower, Inode, Kind, Mode, MountPoint, Step};
use super::mounts::Mount;
use crate::printable::printable;
use crate::sys::files;

/// As many links as the kernel follows.
const LINKS_MAX: usize = 40;

/// More than any path needs that the kernel accepts within that many links and that people can read.
const STEPS_MAX: usize = 512;

/// What numbers mean here.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) accounts: Accounts,
    pub(super) mounts: Vec<Mount>,
}

/// The look-ups behind an absolute path, as far as they lead.
pub(super) fn follow<'a>(path: &[u8], names: &'a Names) -> Trail<'a> {
    let mut trail = Trail { names, steps: Vec::new(), end: None };
    // What keeps the root from being looked at is the last step; the serving path tells of it too.
    let _ = trail.walk(path);
    trail
}

/// The steps of a path.
#[derive(Debug)]
pub(super) struct Trail<'a> {
    names: &'a Names,
    pub(super) steps: Vec<Step>,
    /// What the last step found.
    end: Option<files::Facts>,
}

impl Trail<'_> {
    /// Whether it ends at this very file, which has not gone meanwhile.
    pub(super) fn leads_to(&self, node: impl AsFd) -> bool {
        let same = |(one, other): (files::Facts, files::Facts)| {
            (one.device, one.inode, one.born) == (other.device, other.inode, other.born)
        };
        self.end.zip(files::facts(node.as_fd()).ok()).is_some_and(same)
    }

    fn walk(&mut self, path: &[u8]) -> io::Result<()> {
        let root = files::root()?;
        self.note(b"/", &root)?;
        let mut directory = root.try_clone()?;
        let mut place: Vec<Vec<u8>> = Vec::new();
        let mut todo = components(path);
        let mut links = 0;
        while let Some(name) = todo.pop()
            && self.steps.len() < STEPS_MAX
        {
            let mut here = place.clone();
            if name == b".." {
                here.pop();
            } else {
                here.push(name.clone());
            }
            let Some((node, kind, text)) = self.look_up(&directory, &name, &shown(&here))? else { break };
            match kind {
                Kind::Directory => (directory, place) = (node, here),
                Kind::Link if links < LINKS_MAX => {
                    links += 1;
                    if text.starts_with(b"/") {
                        (directory, place) = (root.try_clone()?, Vec::new());
                    }
                    todo.extend(components(&text));
                }
                Kind::Link | Kind::File | Kind::Fifo | Kind::Socket | Kind::Device | Kind::Nothing => break,
            }
        }
        Ok(())
    }

    /// What has a name, with its kind and the text of a link, and a step for it. Where only the kernel knows what a link
    /// leads to, what that is, with a step for each; nothing if that is a link again, which the kernel follows no further.
    fn look_up(
        &mut self,
        directory: &OwnedFd,
        name: &[u8],
        path: &[u8],
    ) -> io::Result<Option<(OwnedFd, Kind, Vec<u8>)>> {
        let node = self.found(path, files::look_up(directory.as_fd(), name))?;
        let (kind, text) = self.note(path, &node)?;
        if files::facts(node.as_fd())?.kind != files::Kind::MagicLink {
            return Ok(Some((node, kind, text)));
        }
        let node = self.found(path, files::look_through(directory.as_fd(), name))?;
        let (kind, text) = self.note(path, &node)?;
        Ok((kind != Kind::Link).then_some((node, kind, text)))
    }

    fn found(&mut self, path: &[u8], outcome: io::Result<OwnedFd>) -> io::Result<OwnedFd> {
        if outcome.is_err() {
            self.steps.push(nothing(path));
            self.end = None;
        }
        outcome
    }

    /// Adds a step for what a look-up found; its kind, and its text if it is a link.
    fn note(&mut self, path: &[u8], node: &OwnedFd) -> io::Result<(Kind, Vec<u8>)> {
        let metadata = File::from(node.try_clone()?).metadata()?;
        let facts = files::facts(node.as_fd())?;
        self.end = Some(facts);
        let kind = kind(metadata.file_type());
        let text = if kind == Kind::Link { files::link_text(node.as_fd())? } else { Vec::new() };
        let mount = facts.mount.and_then(|id| self.names.mounts.iter().find(|mount| mount.id == id));
        self.steps.push(Step {
            path: printable(path),
            kind,
            link_text: (kind == Kind::Link).then(|| printable(&text)),
            followed_by: (kind == Kind::Link).then_some(follower(facts.kind)),
            inode: Some(Inode {
                owner: self.names.accounts.owner(metadata.uid(), metadata.gid()),
                mode: Mode(metadata.mode() & 0o7777),
                hard_links: metadata.nlink(),
                size_bytes: metadata.size(),
                is_mount_root: facts.is_mount_root || mount.is_some_and(|mount| mount.point == path),
                mount: mount.map(mount_point),
            }),
        });
        Ok((kind, text))
    }
}

/// The components still to be looked up, the next one last.
fn components(path: &[u8]) -> Vec<Vec<u8>> {
    let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".");
    names.rev().map(<[u8]>::to_vec).collect()
}

fn shown(place: &[Vec<u8>]) -> Vec<u8> {
    if place.is_empty() {
        return b"/".to_vec();
    }
    place.iter().flat_map(|name| [&b"/"[..], name]).flatten().copied().collect()
}

fn nothing(path: &[u8]) -> Step {
    Step { path: printable(path), kind: Kind::Nothing, link_text: None, followed_by: None, inode: None }
}

fn follower(link: files::Kind) -> Follower {
    if link == files::Kind::MagicLink { Follower::Kernel } else { Follower::Text }
}

fn kind(of: std::fs::FileType) -> Kind {
    if of.is_dir() {
        Kind::Directory
    } else if of.is_file() {
        Kind::File
    } else if of.is_symlink() {
        Kind::Link
    } else if of.is_fifo() {
        Kind::Fifo
    } else if of.is_socket() {
        Kind::Socket
    } else {
        Kind::Device
    }
}

fn mount_point(mount: &Mount) -> MountPoint {
    MountPoint {
        point: printable(&mount.point),
        root: printable(&mount.root),
        filesystem: printable(&mount.filesystem),
    }
}
