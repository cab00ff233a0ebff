//! How names came to mean what they do, as far as events tell.
//!
//! The one thing that is believed of an event: what a directory held when it was renamed into place was made elsewhere,
//! what one holds that was made in its place may be half done. Where nothing was told, or something was lost, nothing
//! is believed, which costs the time to settle and no more. It does not know what lies behind a name. The tables below
//! and `tests/sim/watch` show it.

use std::collections::BTreeMap;

use super::chain::Identity;

/// How a name came into a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Arrival {
    /// It did not come: something else happened.
    Other,
    /// By rename or exchange.
    Moved,
    /// Something new was made, or an older file was given another name.
    Made,
}

/// What was told of the names that may matter.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// Before the last walk, which saw what came of it.
    seen: News,
    /// Since.
    fresh: News,
}

#[derive(Debug, Default)]
struct News {
    names: BTreeMap<(Identity, Vec<u8>), Arrival>,
    is_incomplete: bool,
}

impl Arrivals {
    /// An event told of a name. Of several, in whatever order, the least trustworthy counts.
    pub(super) fn on_arrival(&mut self, directory: Identity, name: &[u8], arrival: Arrival) {
        if arrival != Arrival::Other {
            self.fresh.add((directory, name.to_vec()), arrival);
        }
    }

    /// Events were lost.
    pub(super) fn on_loss(&mut self) {
        self.fresh.is_incomplete = true;
    }

    /// A walk begins.
    pub(super) fn on_walk(&mut self) {
        let fresh = std::mem::take(&mut self.fresh);
        self.seen.is_incomplete |= fresh.is_incomplete;
        for (key, arrival) in fresh.names {
            self.seen.add(key, arrival);
        }
    }

    /// What the last walk found needs no more telling.
    pub(super) fn forget_seen(&mut self) {
        self.seen = News::default();
    }

    /// Whether what a name means now was certainly renamed to it.
    pub(super) fn is_moved(&self, directory: Identity, name: &[u8]) -> bool {
        let key = (directory, name.to_vec());
        let told = self.seen.names.get(&key).max(self.fresh.names.get(&key));
        told == Some(&Arrival::Moved) && !self.seen.is_incomplete && !self.fresh.is_incomplete
    }
}

impl News {
    fn add(&mut self, key: (Identity, Vec<u8>), arrival: Arrival) {
        let known = self.names.entry(key).or_insert(arrival);
        *known = arrival.max(*known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIRECTORY: Identity = Identity { device: 1, inode: 1, born: (0, 0) };

    #[test]
    fn only_a_name_that_was_renamed_and_never_made_is_believed() {
        use Arrival::{Made, Moved, Other};
        let rows: [(&[Arrival], bool); 6] = [
            (&[], false),
            (&[Other], false),
            (&[Other, Moved, Other], true),
            (&[Made], false),
            (&[Moved, Made], false),
            (&[Made, Moved], false),
        ];
        for (told, expected) in rows {
            for walked_after in 0..=told.len() {
                let mut arrivals = Arrivals::default();
                for (index, arrival) in told.iter().enumerate() {
                    if index == walked_after {
                        arrivals.on_walk();
                    }
                    arrivals.on_arrival(DIRECTORY, b"c", *arrival);
                }
                assert_eq!(arrivals.is_moved(DIRECTORY, b"c"), expected, "{told:?} {walked_after}");
                assert!(!arrivals.is_moved(DIRECTORY, b"d"));
            }
        }
    }

    #[test]
    fn after_a_loss_nothing_is_believed_until_it_was_seen() {
        let mut arrivals = Arrivals::default();
        arrivals.on_arrival(DIRECTORY, b"c", Arrival::Moved);
        arrivals.on_loss();
        assert!(!arrivals.is_moved(DIRECTORY, b"c"));
        arrivals.on_walk();
        assert!(!arrivals.is_moved(DIRECTORY, b"c"));
        arrivals.on_arrival(DIRECTORY, b"c", Arrival::Moved);
        assert!(!arrivals.is_moved(DIRECTORY, b"c"));
        arrivals.forget_seen();
        assert!(arrivals.is_moved(DIRECTORY, b"c"));
    }
}
