//! What the watcher sees of the world. Writers may act at any of its calls, and each look-up is checked to
//! come after the watch on its directory.

use std::io::{self, ErrorKind};

use tlsidecar::watch::{Anchor, Facts, Filesystem, Identity, Kind, Place, Role, Unwatchable, WatchId};

use super::world::{Body, Last, Node, SILENT_DEVICE, World};

impl World {
    /// One call of the watcher: time for a writer to act, if it is its turn.
    pub(crate) fn on_call(&mut self) {
        if self.calls_until_change > 0 {
            self.calls_until_change -= 1;
        } else if !self.script.is_empty() {
            let change = self.script.remove(0);
            self.apply(&change);
            self.calls_until_change = self.inodes.len() % 5;
        }
    }

    fn assert_watched(&self, node: Node, is_last: bool) {
        let inode = &self.inodes[node.inode];
        let can_be_watched =
            self.has_queue && !self.refused.contains(&node.inode) && inode.names > 0 && !self.queue.is_full();
        let role = if is_last { Role::Leaf } else { Role::Directory };
        if can_be_watched {
            assert!(self.queue.is_watched(node.inode, role), "looked up in a directory that is not watched");
        }
    }
}

impl Filesystem for World {
    type Node = Node;

    fn root(&mut self) -> io::Result<Node> {
        self.on_call();
        Ok(World::root(self))
    }

    fn look_up(&mut self, directory: &Node, name: &[u8]) -> io::Result<Node> {
        self.assert_watched(*directory, name.ends_with(b".crt") || name.ends_with(b".key"));
        self.on_call();
        if self.is_exhausted {
            return Err(ErrorKind::OutOfMemory.into());
        }
        if !self.inodes[directory.inode].searchable {
            return Err(ErrorKind::PermissionDenied.into());
        }
        Ok(self.child(*directory, name)?)
    }

    fn look_through(&mut self, directory: &Node, name: &[u8]) -> io::Result<Node> {
        let node = Filesystem::look_up(self, directory, name)?;
        match self.inodes[node.inode].body {
            Body::MagicLink(to) => Ok(to),
            Body::Directory(_) | Body::File(_) | Body::Link(_) | Body::Fifo => Ok(node),
        }
    }

    fn facts(&mut self, node: &Node) -> io::Result<Facts> {
        self.on_call();
        let inode = &self.inodes[node.inode];
        let kind = match inode.body {
            Body::Directory(_) => Kind::Directory,
            Body::File(_) => Kind::File,
            Body::Link(_) => Kind::Link,
            Body::MagicLink(_) => Kind::MagicLink,
            Body::Fifo => Kind::Other,
        };
        let identity = Identity { device: inode.device, inode: inode.number, born: (inode.born, 0) };
        let is_pinned = kind == Kind::File && self.is_mount_root(*node);
        Ok(Facts {
            place: Place { mount: node.mount as u64, identity },
            kind,
            changed: (inode.changed_ms.cast_signed(), 0),
            anchor: if is_pinned { Anchor::Pinned } else { Anchor::Named },
        })
    }

    fn link_text(&mut self, link: &Node) -> io::Result<Vec<u8>> {
        self.on_call();
        match &self.inodes[link.inode].body {
            Body::Link(text) => Ok(text.clone()),
            // As the kernel has it, a path that means something else here.
            Body::MagicLink(_) => Ok(b"/".to_vec()),
            Body::Directory(_) | Body::File(_) | Body::Fifo => Err(ErrorKind::InvalidInput.into()),
        }
    }

    fn remote(&mut self, node: &Node) -> Option<&'static str> {
        (self.inodes[node.inode].device == SILENT_DEVICE).then_some("nfs")
    }

    fn resolve(&mut self, path: &[u8]) -> io::Result<Node> {
        self.on_call();
        if self.is_exhausted {
            return Err(ErrorKind::OutOfMemory.into());
        }
        let path = match &self.detour {
            Some((from, to)) if from == path => to,
            Some(_) | None => path,
        };
        Ok(self.locate(path, Last::Follow)?.node.ok_or(ErrorKind::NotFound)?)
    }

    fn open_queue(&mut self) -> Result<(), Unwatchable> {
        self.has_queue = self.grants_queue;
        if self.grants_queue { Ok(()) } else { Err(Unwatchable::NoQueue) }
    }

    fn watch(&mut self, node: &Node, role: Role) -> Result<WatchId, Unwatchable> {
        self.on_call();
        let inode = &self.inodes[node.inode];
        if !self.has_queue {
            return Err(Unwatchable::NoQueue);
        }
        if !inode.readable && !matches!(inode.body, Body::Link(_)) {
            self.refused.insert(node.inode);
            return Err(Unwatchable::Forbidden);
        }
        self.queue.add(node.inode, role).ok_or(Unwatchable::NoRoom)
    }

    fn unwatch(&mut self, watch: WatchId) {
        self.queue.remove(watch);
    }
}
