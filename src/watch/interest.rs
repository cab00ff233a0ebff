//! Which inodes are watched, and which records about them matter.
//!
//! A record matters or it does not; whether it does is read from watch and name alone, not from the kind of event.
//! The tables below show the rule, `tests/sim/watch` that it loses nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::arrivals::Arrival;
use super::chain::{Identity, Role, WatchId};

/// One entry of the event queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// Entries were lost.
    Overflow,
    /// Something happened to the watched inode, or to this name in it (empty: to the inode itself).
    Event {
        /// Whose watch it was.
        watch: WatchId,
        /// The name in the watched directory, without padding.
        name: &'a [u8],
        /// How the name came there.
        arrival: Arrival,
    },
}

/// Whether a record can have anything to do with a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relevance {
    /// It woke the watcher.
    Wakes,
    /// It is about something else.
    Ignored,
}

/// The watches of one walk; made anew by each.
#[derive(Debug, Default)]
pub(super) struct Live {
    watches: BTreeMap<WatchId, Watched>,
}

#[derive(Debug, Default)]
struct Watched {
    roles: BTreeSet<Role>,
    names: BTreeSet<Vec<u8>>,
    /// The directory in which they are looked up.
    directory: Option<Identity>,
    path: Vec<u8>,
}

impl Live {
    /// A watch in one of its roles; an inode may have several at once.
    pub(super) fn add(&mut self, watch: WatchId, role: Role, path: &[u8]) {
        let watched = self.watches.entry(watch).or_default();
        if watched.roles.is_empty() {
            watched.path = path.to_vec();
        }
        watched.roles.insert(role);
    }

    /// A name was looked up in a watched directory.
    pub(super) fn expect(&mut self, watch: WatchId, directory: Identity, name: &[u8]) {
        let watched = self.watches.entry(watch).or_default();
        watched.directory = Some(directory);
        if !watched.names.contains(name) {
            watched.names.insert(name.to_vec());
        }
    }

    pub(super) fn len(&self) -> usize {
        self.watches.len()
    }

    pub(super) fn contains(&self, watch: WatchId) -> bool {
        self.watches.contains_key(&watch)
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = WatchId> {
        self.watches.keys().copied()
    }

    /// The directory behind a watch.
    pub(super) fn directory(&self, watch: WatchId) -> Option<Identity> {
        self.watches.get(&watch)?.directory
    }

    /// Whether a watch is on a file at the end of a path.
    pub(super) fn is_file(&self, watch: WatchId) -> bool {
        self.watches.get(&watch).is_some_and(|watched| watched.roles.contains(&Role::File))
    }

    /// Paths of the watched directories, sorted.
    pub(super) fn directories(&self) -> Vec<&[u8]> {
        let is_directory = |watched: &&Watched| {
            watched.roles.contains(&Role::Directory) || watched.roles.contains(&Role::Leaf)
        };
        let mut paths: Vec<_> =
            self.watches.values().filter(is_directory).map(|watched| watched.path.as_slice()).collect();
        paths.sort_unstable();
        paths
    }

    /// A record about a watch that is not ours is an echo of one that was: its removal, or older news.
    pub(super) fn relevance(&self, record: Record<'_>) -> Relevance {
        let is_relevant = match record {
            Record::Overflow => true,
            Record::Event { watch, name, .. } => {
                self.watches.get(&watch).is_some_and(|watched| watched.matters(name))
            }
        };
        if is_relevant { Relevance::Wakes } else { Relevance::Ignored }
    }
}

impl Watched {
    fn matters(&self, name: &[u8]) -> bool {
        // A file made without a name keeps being called by its inode's number even after it was given one.
        let is_unnamed_file = name.first() == Some(&b'#') && self.roles.contains(&Role::Leaf);
        name.is_empty() || is_unnamed_file || self.names.contains(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(inode: u64) -> Identity {
        Identity { device: 1, inode, born: (0, 0) }
    }

    fn volume() -> Live {
        let mut live = Live::default();
        live.add(WatchId(1), Role::Directory, b"/etc");
        live.expect(WatchId(1), directory(1), b"tls");
        live.add(WatchId(2), Role::Leaf, b"/etc/tls");
        live.expect(WatchId(2), directory(2), b"tls.\xff");
        live.add(WatchId(3), Role::File, b"/etc/tls/tls.\xff");
        live
    }

    #[test]
    fn a_record_matters_by_watch_and_name_alone() {
        let rows: [(&str, i32, &[u8], Relevance); 9] = [
            ("a looked-up name", 1, b"tls", Relevance::Wakes),
            ("another name", 1, b"hosts", Relevance::Ignored),
            ("a longer name", 1, b"tls.bak", Relevance::Ignored),
            ("the directory itself", 1, b"", Relevance::Wakes),
            ("a name that is no text", 2, b"tls.\xff", Relevance::Wakes),
            ("a file without a name, where files are looked up", 2, b"#123", Relevance::Wakes),
            ("the same elsewhere", 1, b"#123", Relevance::Ignored),
            ("the file", 3, b"", Relevance::Wakes),
            ("a watch that is gone", 4, b"tls", Relevance::Ignored),
        ];
        let live = volume();
        for (case, watch, name, relevance) in rows {
            for arrival in [Arrival::Moved, Arrival::Made, Arrival::Other] {
                let record = Record::Event { watch: WatchId(watch), name, arrival };
                assert_eq!(live.relevance(record), relevance, "{case}");
            }
        }
        assert_eq!(Live::default().relevance(Record::Overflow), Relevance::Wakes);
    }

    #[test]
    fn only_directories_are_listed() {
        assert_eq!(volume().directories(), [b"/etc".as_slice(), b"/etc/tls"]);
    }
}
