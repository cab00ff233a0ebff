//! The event queue of the simulated kernel: who is told what.

use std::collections::{BTreeMap, VecDeque};

use tlsidecar::watch::{Arrival, Role, WatchId};

/// What happened, as far as masks tell it apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// A name came or went in a directory.
    Name(Arrival),
    /// A file was written or closed after writing.
    Write,
    /// Rights, times or link count changed.
    Attribute,
    /// The inode itself was moved or died.
    Myself,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Overflow,
    Event { watch: WatchId, name: Vec<u8>, arrival: Arrival },
}

#[derive(Debug)]
struct Watch {
    inode: usize,
    roles: Vec<Role>,
}

#[derive(Debug)]
pub(crate) struct Queue {
    watches: BTreeMap<WatchId, Watch>,
    entries: VecDeque<Entry>,
    next_watch: i32,
    /// Entries held at most; one more, and the rest is lost behind a marker.
    pub(crate) max_entries: usize,
    pub(crate) max_watches: usize,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            watches: BTreeMap::new(),
            entries: VecDeque::new(),
            next_watch: 1,
            max_entries: 16_384,
            max_watches: usize::MAX,
        }
    }
}

impl Queue {
    pub(crate) fn add(&mut self, inode: usize, role: Role) -> Option<WatchId> {
        if let Some((id, watch)) = self.watches.iter_mut().find(|(_, watch)| watch.inode == inode) {
            watch.roles.push(role);
            return Some(*id);
        }
        if self.watches.len() >= self.max_watches {
            return None;
        }
        let id = WatchId(self.next_watch);
        self.next_watch += 1;
        self.watches.insert(id, Watch { inode, roles: vec![role] });
        Some(id)
    }

    pub(crate) fn remove(&mut self, id: WatchId) {
        if self.watches.remove(&id).is_some() {
            self.push(Entry::Event { watch: id, name: Vec::new(), arrival: Arrival::Other });
        }
    }

    /// The inode is gone for good: its watch ends with a last entry.
    pub(crate) fn end(&mut self, inode: usize) {
        let ended: Vec<_> =
            self.watches.iter().filter(|(_, watch)| watch.inode == inode).map(|(id, _)| *id).collect();
        for id in ended {
            self.remove(id);
        }
    }

    pub(crate) fn tell(&mut self, inode: usize, news: News, name: &[u8]) {
        let hears = |role: &Role| match (role, news) {
            (Role::Directory, News::Write)
            | (Role::Link, News::Write | News::Name(_))
            | (Role::File, News::Name(_)) => false,
            (Role::Directory | Role::Leaf | Role::File | Role::Link, _) => true,
        };
        let found = self.watches.iter().find(|(_, watch)| watch.inode == inode);
        if let Some((id, watch)) = found
            && watch.roles.iter().any(hears)
        {
            let arrival = match news {
                News::Name(arrival) => arrival,
                News::Write | News::Attribute | News::Myself => Arrival::Other,
            };
            self.push(Entry::Event { watch: *id, name: name.to_vec(), arrival });
        }
    }

    fn push(&mut self, entry: Entry) {
        if self.entries.len() < self.max_entries {
            self.entries.push_back(entry);
        } else if self.entries.back() != Some(&Entry::Overflow) {
            self.entries.push_back(Entry::Overflow);
        }
    }

    pub(crate) fn is_watched(&self, inode: usize, role: Role) -> bool {
        self.watches
            .values()
            .any(|watch| watch.inode == inode && watch.roles.iter().any(|held| *held >= role))
    }

    pub(crate) fn watch_count(&self) -> usize {
        self.watches.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.watches.len() >= self.max_watches
    }

    pub(crate) fn take_all(&mut self) -> Vec<Entry> {
        self.entries.drain(..).collect()
    }

    /// As after closing the descriptor.
    pub(crate) fn forget_all(&mut self) {
        self.watches.clear();
        self.entries.clear();
    }
}
