//! What writers do: single changes, and the sequences that publishing tools make of them.

use std::collections::BTreeMap;

use tlsidecar::watch::Arrival;

use super::world::{Body, Last, Located, World};

pub(crate) type Path = Vec<u8>;

/// One system call of a writer. One that can't be done is passed over, as a script without `set -e` would.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    MakeDirectory(Path),
    MakeFifo(Path),
    Symlink {
        text: Path,
        path: Path,
    },
    /// A link to whatever is at `to` now, over one that is there.
    MagicLink {
        to: Path,
        path: Path,
    },
    HardLink {
        from: Path,
        to: Path,
    },
    Rename {
        from: Path,
        to: Path,
    },
    Exchange {
        left: Path,
        right: Path,
    },
    Remove(Path),
    Touch(Path),
    Allow {
        path: Path,
        read: bool,
        search: bool,
    },
    Open {
        writer: u32,
        path: Path,
    },
    OpenUnnamed {
        writer: u32,
        directory: Path,
    },
    NameUnnamed {
        writer: u32,
        path: Path,
    },
    Append {
        writer: u32,
        bytes: Vec<u8>,
    },
    Close {
        writer: u32,
    },
    /// A store through a mapping that stays.
    Store {
        path: Path,
        bytes: Vec<u8>,
    },
    /// A new empty file system over a directory; on this device.
    Mount {
        path: Path,
        device: u64,
    },
    /// The same directory or file at another place.
    Bind {
        from: Path,
        to: Path,
    },
    Unmount(Path),
    /// Only for scripts: nothing for this long.
    Pause {
        ms: u64,
    },
}

impl World {
    pub(crate) fn apply(&mut self, change: &Change) {
        match change {
            Change::MakeDirectory(path) => self.make_at(path, Body::Directory(BTreeMap::new())),
            Change::MakeFifo(path) => self.make_at(path, Body::Fifo),
            Change::Symlink { text, path } => self.make_at(path, Body::Link(text.clone())),
            Change::MagicLink { to, path } => self.make_magic_link(to, path),
            Change::Open { writer, path } => self.open(*writer, path),
            Change::OpenUnnamed { writer, directory } => self.open_unnamed(*writer, directory),
            Change::NameUnnamed { writer, path } => self.name_unnamed(*writer, path),
            Change::Append { writer, bytes } => self.append(*writer, bytes),
            Change::Close { writer } => self.close(*writer),
            Change::HardLink { from, to } => self.apply_to_two(from, to, |world, from, to| {
                if let (Some(node), None) = (from.node, to.node) {
                    world.link(node.inode, to.directory.inode, &to.name);
                }
            }),
            Change::Rename { from, to } => self.apply_to_two(from, to, |world, from, to| {
                world.rename((from.directory.inode, &from.name), (to.directory.inode, &to.name));
            }),
            Change::Exchange { left, right } => self.apply_to_two(left, right, |world, left, right| {
                world.exchange((left.directory.inode, &left.name), (right.directory.inode, &right.name));
            }),
            Change::Bind { from, to } => self.apply_to_two(from, to, |world, from, to| {
                if let (Some(from), Some(to)) = (from.node, to.node) {
                    world.mount(to, from.inode);
                }
            }),
            Change::Remove(path) => self.apply_to(path, Last::Keep, |world, at| {
                world.remove_tree(at.directory.inode, &at.name);
            }),
            Change::Touch(path) => self.apply_to(path, Last::Follow, |world, at| {
                if let Some(node) = at.node {
                    world.touch(at.directory.inode, &at.name, node.inode);
                }
            }),
            Change::Allow { path, read, search } => self.apply_to(path, Last::Follow, |world, at| {
                if let Some(node) = at.node {
                    (world.inodes[node.inode].readable, world.inodes[node.inode].searchable) =
                        (*read, *search);
                    world.touch(at.directory.inode, &at.name, node.inode);
                }
            }),
            Change::Store { path, bytes } => self.apply_to(path, Last::Follow, |world, at| {
                if let Some(node) = at.node {
                    world.put_bytes(node.inode, bytes.clone());
                }
            }),
            Change::Mount { path, device } => self.apply_to(path, Last::Follow, |world, at| {
                if let Some(node) = at.node {
                    let root = world.make(Body::Directory(BTreeMap::new()), *device);
                    world.mount(node, root);
                }
            }),
            Change::Unmount(path) => self.apply_to(path, Last::Follow, |world, at| {
                if let Some(node) = at.node {
                    world.unmount(node);
                }
            }),
            Change::Pause { .. } => {}
        }
    }

    fn make_at(&mut self, path: &[u8], body: Body) {
        self.apply_to(path, Last::Keep, |world, at| {
            if at.node.is_none() {
                let inode = world.make(body, world.inodes[at.directory.inode].device);
                world.add_name(at.directory.inode, &at.name, inode, Arrival::Made);
            }
        });
    }

    fn make_magic_link(&mut self, to: &[u8], path: &[u8]) {
        if let Ok(Located { node: Some(to), .. }) = self.locate(to, Last::Follow) {
            self.apply(&Change::Remove(path.to_vec()));
            self.make_at(path, Body::MagicLink(to));
        }
    }

    fn apply_to(&mut self, path: &[u8], last: Last, act: impl FnOnce(&mut Self, Located)) {
        if let Ok(located) = self.locate(path, last) {
            act(self, located);
        }
    }

    fn apply_to_two(&mut self, one: &[u8], other: &[u8], act: impl FnOnce(&mut Self, Located, Located)) {
        if let (Ok(one), Ok(other)) = (self.locate(one, Last::Keep), self.locate(other, Last::Keep)) {
            act(self, one, other);
        }
    }
}

/// The certificate file of a generation: a leaf and the authority above it, one line each. A file that ends
/// after a line is a valid shorter chain, as with PEM.
pub(crate) fn certificate(generation: u32) -> Vec<u8> {
    format!("leaf {generation}\nauthority {generation}\n").into_bytes()
}

pub(crate) fn key(generation: u32) -> Vec<u8> {
    format!("key {generation}\n").into_bytes()
}

pub(crate) fn join(directory: &[u8], name: &str) -> Path {
    [directory, b"/", name.as_bytes()].concat()
}

pub(crate) fn path(text: &str) -> Path {
    text.as_bytes().to_vec()
}

/// How long a writer rests between two parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) ms: u64,
}

impl Pace {
    fn rest(self) -> Option<Change> {
        (self.ms > 0).then_some(Change::Pause { ms: self.ms })
    }
}

/// Writes a file in place, in as many parts as it has lines.
pub(crate) fn write(path: &[u8], bytes: &[u8], pace: Pace) -> Vec<Change> {
    let writer = 1;
    let mut changes = vec![Change::Open { writer, path: path.to_vec() }];
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        changes.extend(pace.rest());
        let (head, tail) = line.split_at(line.len() / 2);
        changes.push(Change::Append { writer, bytes: head.to_vec() });
        changes.push(Change::Append { writer, bytes: tail.to_vec() });
    }
    changes.push(Change::Close { writer });
    changes
}

pub(crate) fn put(directory: &[u8], generation: u32, pace: Pace) -> Vec<Change> {
    let mut changes = write(&join(directory, "tls.crt"), &certificate(generation), pace);
    changes.extend(pace.rest());
    changes.extend(write(&join(directory, "tls.key"), &key(generation), pace));
    changes
}

/// The same, with the certificate last: its leaf alone would already be a pair.
pub(crate) fn put_key_first(directory: &[u8], generation: u32, pace: Pace) -> Vec<Change> {
    let mut changes = write(&join(directory, "tls.key"), &key(generation), pace);
    changes.extend(pace.rest());
    changes.extend(write(&join(directory, "tls.crt"), &certificate(generation), pace));
    changes
}

/// Each file made aside and renamed over the old one.
pub(crate) fn put_by_rename(directory: &[u8], generation: u32, pace: Pace) -> Vec<Change> {
    let mut changes = Vec::new();
    for (name, bytes) in [("tls.key", key(generation)), ("tls.crt", certificate(generation))] {
        let aside = join(directory, ".aside");
        changes.extend(write(&aside, &bytes, Pace { ms: 0 }));
        changes.extend(pace.rest());
        changes.push(Change::Rename { from: aside, to: join(directory, name) });
    }
    changes
}

/// In which order the kubelet makes the links that users see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkOrder {
    After,
    Before,
}

/// A secret volume's swap, with relative links, as the kubelet and the drivers that copied it do.
pub(crate) fn swap(directory: &[u8], generation: u32, order: LinkOrder) -> Vec<Change> {
    let dated = format!("..dated_{generation}");
    let made = join(directory, &dated);
    let mut changes = vec![Change::MakeDirectory(made.clone()), Change::Touch(made.clone())];
    for (name, bytes) in [("tls.crt", certificate(generation)), ("tls.key", key(generation))] {
        changes.extend(write(&join(&made, name), &bytes, Pace { ms: 0 }));
        changes.push(Change::Touch(join(&made, name)));
    }
    let link =
        |name: &str| Change::Symlink { text: path(&format!("..data/{name}")), path: join(directory, name) };
    let links = [link("tls.crt"), link("tls.key")];
    if order == LinkOrder::Before {
        changes.extend(links.clone());
    }
    let next = join(directory, "..data_tmp");
    changes.push(Change::Symlink { text: path(&dated), path: next.clone() });
    changes.push(Change::Rename { from: next, to: join(directory, "..data") });
    if order == LinkOrder::After {
        changes.extend(links);
    }
    changes
}

/// Makes a directory and what is missing above it.
pub(crate) fn make_path(directory: &[u8]) -> Vec<Change> {
    let ends = (1..directory.len()).filter(|at| directory[*at] == b'/').chain([directory.len()]);
    ends.map(|end| Change::MakeDirectory(directory[..end].to_vec())).collect()
}

/// A link made aside and renamed over the old one.
pub(crate) fn link_over(text: &[u8], at: &[u8]) -> Vec<Change> {
    let aside = [at, b".aside"].concat();
    vec![
        Change::Symlink { text: text.to_vec(), path: aside.clone() },
        Change::Rename { from: aside, to: at.to_vec() },
    ]
}

/// Files made without a name, given one before or after they are written.
pub(crate) fn put_unnamed(directory: &[u8], generation: u32, order: LinkOrder) -> Vec<Change> {
    let mut changes = Vec::new();
    for (writer, name, bytes) in [(7, "tls.crt", certificate(generation)), (8, "tls.key", key(generation))] {
        let given = Change::NameUnnamed { writer, path: join(directory, name) };
        changes.push(Change::OpenUnnamed { writer, directory: directory.to_vec() });
        if order == LinkOrder::Before {
            changes.extend([given.clone(), Change::Pause { ms: 20 }]);
        }
        changes.push(Change::Append { writer, bytes });
        if order == LinkOrder::After {
            changes.push(given);
        }
        changes.push(Change::Close { writer });
    }
    changes
}

/// Written, and never closed.
pub(crate) fn put_and_hold(directory: &[u8], generation: u32) -> Vec<Change> {
    let mut changes = Vec::new();
    for (writer, name, bytes) in [(7, "tls.crt", certificate(generation)), (8, "tls.key", key(generation))] {
        changes.push(Change::Open { writer, path: join(directory, name) });
        changes.push(Change::Append { writer, bytes });
    }
    changes
}

/// Names that come and go and are nobody's.
pub(crate) fn noise(directory: &[u8], count: u32) -> Vec<Change> {
    let other = join(directory, "other");
    (0..count).flat_map(|_| [Change::MakeDirectory(other.clone()), Change::Remove(other.clone())]).collect()
}
