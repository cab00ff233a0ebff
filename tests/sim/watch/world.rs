//! The simulated file system: inodes, names, links, mounts, and what each change tells the event queue.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;

use tlsidecar::watch::Arrival;

use super::change::Change;
use super::queue::{News, Queue};

/// An inode as reached through a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) mount: usize,
    pub(crate) inode: usize,
}

#[derive(Clone, Debug)]
pub(crate) enum Body {
    Directory(BTreeMap<Vec<u8>, usize>),
    File(Vec<u8>),
    Link(Vec<u8>),
    /// A link that leads to an inode, whatever its text says.
    MagicLink(Node),
    Fifo,
}

#[derive(Clone, Debug)]
pub(crate) struct Inode {
    pub(crate) body: Body,
    /// The directory that holds this one.
    parent: usize,
    pub(crate) names: u32,
    /// Number and birth as `stat` tells them.
    pub(crate) number: u64,
    pub(crate) born: i64,
    pub(crate) device: u64,
    pub(crate) readable: bool,
    pub(crate) searchable: bool,
    /// Counts writes, as a change time would.
    pub(crate) version: u64,
    /// When it was last written, touched or renamed, in milliseconds.
    pub(crate) changed_ms: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Mount {
    point: Option<Node>,
    pub(crate) root: usize,
}

/// Whether the device tells what others do on it.
pub(crate) const SILENT_DEVICE: u64 = 9;

pub(crate) struct World {
    pub(crate) inodes: Vec<Inode>,
    pub(crate) mounts: Vec<Mount>,
    pub(crate) queue: Queue,
    pub(crate) has_queue: bool,
    pub(crate) grants_queue: bool,
    /// Inodes that could not be watched when it was tried.
    pub(crate) refused: BTreeSet<usize>,
    pub(crate) mounts_changed: bool,
    /// No look-up succeeds, as when descriptors have run out.
    pub(crate) is_exhausted: bool,
    pub(crate) now_ms: u64,
    /// Somebody holds every inode open: it does not die with its last name.
    pub(crate) is_held: bool,
    /// Numbers are given out again, and no birth is told.
    pub(crate) is_forgetful: bool,
    /// What happens next, as soon as the watcher has made so many calls.
    pub(crate) script: Vec<Change>,
    pub(crate) calls_until_change: usize,
    /// A path that leads elsewhere when it is resolved as a whole.
    pub(crate) detour: Option<(Vec<u8>, Vec<u8>)>,
    /// Files open for writing: inode, and the directory and name by which it was opened.
    writers: BTreeMap<u32, (usize, usize, Vec<u8>)>,
}

/// Whether a link at the end of a path is meant itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Last {
    Follow,
    Keep,
}

/// Where a path leads: the directory and name of its last component, and what is there.
pub(crate) struct Located {
    pub(crate) directory: Node,
    pub(crate) name: Vec<u8>,
    pub(crate) node: Option<Node>,
}

impl World {
    pub(crate) fn new() -> Self {
        let mut world = Self {
            inodes: Vec::new(),
            mounts: vec![Mount { point: None, root: 0 }],
            queue: Queue::default(),
            has_queue: false,
            grants_queue: true,
            refused: BTreeSet::new(),
            mounts_changed: false,
            is_exhausted: false,
            now_ms: 1_000_000,
            is_held: false,
            is_forgetful: false,
            script: Vec::new(),
            calls_until_change: 0,
            detour: None,
            writers: BTreeMap::new(),
        };
        world.make(Body::Directory(BTreeMap::new()), 1);
        world
    }

    pub(crate) fn make(&mut self, body: Body, device: u64) -> usize {
        let inode = self.inodes.len();
        let (number, born) = if self.is_forgetful {
            (self.lowest_number(device), 0)
        } else {
            (inode as u64 + 1, self.now_ms.cast_signed())
        };
        self.inodes.push(Inode {
            body,
            parent: inode,
            names: 1,
            number,
            born,
            device,
            readable: true,
            searchable: true,
            version: 0,
            changed_ms: self.now_ms,
        });
        inode
    }

    fn lowest_number(&self, device: u64) -> u64 {
        let taken: BTreeSet<_> =
            self.inodes.iter().filter(|it| it.device == device && it.names > 0).map(|it| it.number).collect();
        (1..).find(|number| !taken.contains(number)).unwrap()
    }

    pub(crate) fn entries(&self, inode: usize) -> Result<&BTreeMap<Vec<u8>, usize>, ErrorKind> {
        match &self.inodes[inode].body {
            Body::Directory(entries) => Ok(entries),
            Body::File(_) | Body::Link(_) | Body::MagicLink(_) | Body::Fifo => Err(ErrorKind::NotADirectory),
        }
    }

    fn entries_mut(&mut self, inode: usize) -> &mut BTreeMap<Vec<u8>, usize> {
        match &mut self.inodes[inode].body {
            Body::Directory(entries) => entries,
            Body::File(_) | Body::Link(_) | Body::MagicLink(_) | Body::Fifo => panic!("not a directory"),
        }
    }

    /// What one name (or `..`) means in one directory.
    pub(crate) fn child(&self, directory: Node, name: &[u8]) -> Result<Node, ErrorKind> {
        let entries = self.entries(directory.inode)?;
        if name == b".." {
            let mut below = directory;
            while let Some(point) = self.mounts[below.mount].point.filter(|_| self.is_mount_root(below)) {
                below = point;
            }
            return Ok(self.covered(Node { mount: below.mount, inode: self.inodes[below.inode].parent }));
        }
        let inode = *entries.get(name).ok_or(ErrorKind::NotFound)?;
        Ok(self.covered(Node { mount: directory.mount, inode }))
    }

    pub(crate) fn is_mount_root(&self, node: Node) -> bool {
        node.mount != 0 && self.mounts[node.mount].root == node.inode
    }

    pub(crate) fn covered(&self, node: Node) -> Node {
        let on_top = self.mounts.iter().rposition(|mount| mount.point == Some(node));
        on_top.map_or(node, |mount| self.covered(Node { mount, inode: self.mounts[mount].root }))
    }

    pub(crate) fn root(&self) -> Node {
        self.covered(Node { mount: 0, inode: 0 })
    }

    pub(crate) fn locate(&self, path: &[u8], last: Last) -> Result<Located, ErrorKind> {
        let split = |path: &[u8]| -> Vec<Vec<u8>> {
            path.split(|byte| *byte == b'/').filter(|it| !it.is_empty()).rev().map(<[u8]>::to_vec).collect()
        };
        let mut todo = split(path);
        let mut directory = self.root();
        let mut links = 0;
        while let Some(name) = todo.pop() {
            let node = match self.child(directory, &name) {
                Ok(node) => node,
                Err(ErrorKind::NotFound) if todo.is_empty() => {
                    return Ok(Located { directory, name, node: None });
                }
                Err(error) => return Err(error),
            };
            match &self.inodes[node.inode].body {
                Body::Link(text) if !todo.is_empty() || last == Last::Follow => {
                    links += 1;
                    if links > 40 {
                        return Err(ErrorKind::InvalidInput);
                    }
                    if text.starts_with(b"/") {
                        directory = self.root();
                    }
                    todo.extend(split(text));
                }
                Body::MagicLink(to) if !todo.is_empty() || last == Last::Follow => {
                    if todo.is_empty() {
                        return Ok(Located { directory, name, node: Some(*to) });
                    }
                    directory = *to;
                }
                Body::Directory(_) | Body::File(_) | Body::Link(_) | Body::MagicLink(_) | Body::Fifo => {
                    if todo.is_empty() {
                        return Ok(Located { directory, name, node: Some(node) });
                    }
                    directory = node;
                }
            }
        }
        Err(ErrorKind::IsADirectory)
    }

    pub(crate) fn file(&self, path: &[u8]) -> Option<&[u8]> {
        match &self.inodes[self.locate(path, Last::Follow).ok()?.node?.inode].body {
            Body::File(bytes) => Some(bytes),
            Body::Directory(_) | Body::Link(_) | Body::MagicLink(_) | Body::Fifo => None,
        }
    }

    fn tell(&mut self, inode: usize, news: News, name: &[u8]) {
        if self.inodes[inode].device != SILENT_DEVICE {
            self.queue.tell(inode, news, name);
        }
    }

    /// News about an inode, for itself and for the directory it was reached through.
    fn tell_both(&mut self, directory: usize, name: &[u8], inode: usize, news: News) {
        self.tell(directory, news, name);
        self.tell(inode, news, b"");
    }

    pub(crate) fn add_name(&mut self, directory: usize, name: &[u8], inode: usize, arrival: Arrival) {
        self.entries_mut(directory).insert(name.to_vec(), inode);
        self.inodes[directory].changed_ms = self.now_ms;
        self.inodes[inode].changed_ms = self.now_ms;
        if matches!(self.inodes[inode].body, Body::Directory(_)) {
            self.inodes[inode].parent = directory;
        }
        self.tell(directory, News::Name(arrival), name);
    }

    /// One name less; with the last one the inode dies, unless somebody holds it.
    fn drop_name(&mut self, inode: usize) {
        let is_directory = matches!(self.inodes[inode].body, Body::Directory(_));
        self.inodes[inode].names -= 1;
        self.inodes[inode].changed_ms = self.now_ms;
        if !is_directory {
            self.tell(inode, News::Attribute, b"");
        }
        let is_open = self.writers.values().any(|(open, _, _)| *open == inode);
        if self.inodes[inode].names == 0 && !self.is_held && !is_open {
            self.tell(inode, News::Myself, b"");
            self.queue.end(inode);
        }
    }

    pub(crate) fn unlink(&mut self, directory: usize, name: &[u8]) {
        if let Some(inode) = self.entries_mut(directory).remove(name) {
            self.inodes[directory].changed_ms = self.now_ms;
            self.drop_name(inode);
            self.tell(directory, News::Name(Arrival::Other), name);
        }
    }

    pub(crate) fn remove_tree(&mut self, directory: usize, name: &[u8]) {
        let Some(inode) = self.entries_mut(directory).get(name).copied() else { return };
        if let Body::Directory(entries) = &self.inodes[inode].body {
            for child in entries.keys().cloned().collect::<Vec<_>>() {
                self.remove_tree(inode, &child);
            }
        }
        self.unlink(directory, name);
    }

    pub(crate) fn rename(&mut self, from: (usize, &[u8]), to: (usize, &[u8])) {
        let Some(inode) = self.entries_mut(from.0).get(from.1).copied() else { return };
        let replaced = self.entries_mut(to.0).get(to.1).copied();
        if replaced == Some(inode) {
            return;
        }
        if let Some(Body::Directory(entries)) = replaced.map(|it| &self.inodes[it].body)
            && !entries.is_empty()
        {
            return;
        }
        self.entries_mut(from.0).remove(from.1);
        self.inodes[from.0].changed_ms = self.now_ms;
        self.tell(from.0, News::Name(Arrival::Other), from.1);
        self.add_name(to.0, to.1, inode, Arrival::Moved);
        self.tell(inode, News::Myself, b"");
        if let Some(replaced) = replaced {
            self.drop_name(replaced);
        }
    }

    /// Swaps two names; reported as arriving first and leaving afterwards, although both exist.
    pub(crate) fn exchange(&mut self, left: (usize, &[u8]), right: (usize, &[u8])) {
        let (Some(one), Some(other)) =
            (self.entries_mut(left.0).get(left.1).copied(), self.entries_mut(right.0).get(right.1).copied())
        else {
            return;
        };
        self.add_name(left.0, left.1, other, Arrival::Moved);
        self.add_name(right.0, right.1, one, Arrival::Moved);
        self.tell(left.0, News::Name(Arrival::Other), left.1);
        self.tell(right.0, News::Name(Arrival::Other), right.1);
        self.tell(one, News::Myself, b"");
        self.tell(other, News::Myself, b"");
    }

    pub(crate) fn link(&mut self, inode: usize, directory: usize, name: &[u8]) {
        self.inodes[inode].names += 1;
        self.tell(inode, News::Attribute, b"");
        self.add_name(directory, name, inode, Arrival::Made);
    }

    pub(crate) fn touch(&mut self, directory: usize, name: &[u8], inode: usize) {
        self.inodes[inode].changed_ms = self.now_ms;
        self.tell_both(directory, name, inode, News::Attribute);
    }

    /// Opens for writing in place, making the file if it is not there and emptying it if it is.
    pub(crate) fn open(&mut self, writer: u32, path: &[u8]) {
        let Ok(Located { directory, name, node }) = self.locate(path, Last::Follow) else { return };
        let inode = match node {
            Some(node) if matches!(self.inodes[node.inode].body, Body::File(_)) => {
                self.put_bytes(node.inode, Vec::new());
                self.tell_both(directory.inode, &name, node.inode, News::Write);
                node.inode
            }
            Some(_) => return,
            None => {
                let device = self.inodes[directory.inode].device;
                let inode = self.make(Body::File(Vec::new()), device);
                self.add_name(directory.inode, &name, inode, Arrival::Made);
                inode
            }
        };
        self.writers.insert(writer, (inode, directory.inode, name));
    }

    /// A file without a name; events call it by its number for good.
    pub(crate) fn open_unnamed(&mut self, writer: u32, path: &[u8]) {
        let Ok(Located { node: Some(directory), .. }) = self.locate(path, Last::Follow) else { return };
        let inode = self.make(Body::File(Vec::new()), self.inodes[directory.inode].device);
        self.inodes[inode].names = 0;
        self.writers.insert(writer, (inode, directory.inode, format!("#{inode}").into_bytes()));
    }

    pub(crate) fn name_unnamed(&mut self, writer: u32, path: &[u8]) {
        let Ok(Located { directory, name, node: None }) = self.locate(path, Last::Keep) else { return };
        if let Some((inode, _, _)) = self.writers.get(&writer).cloned() {
            self.inodes[inode].names += 1;
            self.add_name(directory.inode, &name, inode, Arrival::Made);
        }
    }

    pub(crate) fn append(&mut self, writer: u32, bytes: &[u8]) {
        let Some((inode, directory, name)) = self.writers.get(&writer).cloned() else { return };
        let Body::File(old) = &self.inodes[inode].body else { return };
        let bytes = [old, bytes].concat();
        self.put_bytes(inode, bytes);
        self.tell_both(directory, &name, inode, News::Write);
    }

    pub(crate) fn close(&mut self, writer: u32) {
        let Some((inode, directory, name)) = self.writers.remove(&writer) else { return };
        self.tell_both(directory, &name, inode, News::Write);
        if self.inodes[inode].names == 0 && !self.is_held {
            self.tell(inode, News::Myself, b"");
            self.queue.end(inode);
        }
    }

    /// Changes bytes without a word, as a mapping does.
    pub(crate) fn put_bytes(&mut self, inode: usize, bytes: Vec<u8>) {
        let now_ms = self.now_ms;
        let inode = &mut self.inodes[inode];
        inode.body = Body::File(bytes);
        inode.version += 1;
        inode.changed_ms = now_ms;
    }

    pub(crate) fn mount(&mut self, point: Node, root: usize) {
        self.mounts.push(Mount { point: Some(point), root });
        self.mounts_changed = true;
    }

    pub(crate) fn unmount(&mut self, node: Node) {
        if self.is_mount_root(node) {
            self.mounts[node.mount].point = None;
            self.mounts_changed = true;
        }
    }
}
