//! Whether what changed did so by one swap, so that it can be taken at once: all files through one look-up, to files that
//! nobody can have been writing where we look.
//!
//! It knows neither what the files hold nor the time. The tables in `settle.rs` and `tests/sim/watch` show it.

use std::collections::BTreeSet;

use super::arrivals::Arrivals;
use super::chain::{Chain, Found, Identity, Kind, LookUp};
use super::walk::file_place;

/// Inodes remembered as seen between two commits; more of them and a change is no longer held to be atomic.
const MAX_SEEN: usize = 4096;

/// What was served and what there is now, by the walks that led there.
#[derive(Debug, Default)]
pub(super) struct Swap {
    /// The walk behind what is served.
    base: Vec<Chain>,
    /// The walk of the last pass.
    latest: Vec<Chain>,
    /// The files behind what is served, and every inode met since on the way to something that was not.
    seen: BTreeSet<Identity>,
    pub(super) arrivals: Arrivals,
}

impl Swap {
    /// A pass walked these chains.
    pub(super) fn on_walk(&mut self, chains: Vec<Chain>) {
        self.latest = chains;
        self.arrivals.on_walk();
    }

    /// What the last walk led to is what is served.
    pub(super) fn served(&mut self) {
        self.base = self.latest.clone();
        self.seen = self.base.iter().filter_map(file_place).map(|place| place.identity).collect();
        self.arrivals.forget_seen();
    }

    /// What was met on the way to something that could not be served at once was perhaps not finished then.
    pub(super) fn not_served(&mut self) {
        self.arrivals.forget_seen();
        if self.seen.len() < MAX_SEEN {
            let met = self.latest.iter().flatten().filter_map(|look_up| place_of(&look_up.found));
            self.seen.extend(met);
        }
    }

    /// Whether there is one look-up that it can have been; news that is still to come may speak against it.
    pub(super) fn may_be(&self) -> bool {
        self.turn().is_some()
    }

    /// The one look-up through which all files changed, if none of what lies behind it was seen unfinished or changed
    /// since. Unless it was made where we look, nobody can have been writing there.
    fn turn(&self) -> Option<&LookUp> {
        if self.base.len() != self.latest.len() || self.seen.len() >= MAX_SEEN {
            return None;
        }
        let mut turns = self.base.iter().zip(&self.latest).map(|(old, new)| first_difference(old, new));
        let turn = turns.next()??;
        let is_shared = turns.all(|other| other.is_some_and(|other| other.agrees(turn)));
        let leads_on = matches!(turn.found, Found::Node { kind: Kind::Link | Kind::Directory, .. });
        let is_unseen = |identity: Option<Identity>| identity.is_some_and(|it| !self.seen.contains(&it));
        let mut files = self.latest.iter().map(|chain| file_place(chain).map(|place| place.identity));
        let is_whole = is_unseen(place_of(&turn.found)) && files.all(is_unseen);
        let is_older = |file: &LookUp| file.changed <= turn.changed;
        let was_written_before = self.latest.iter().all(|chain| chain.last().is_some_and(is_older));
        (is_shared && leads_on && is_whole && was_written_before).then_some(turn)
    }

    /// Whether what all files changed through came to its name at once with all that it leads to: a link does, a
    /// directory only by rename. One that was made there, or came to light by a mount, may be in the middle of being
    /// filled.
    pub(super) fn is_certain(&self) -> bool {
        self.turn().is_some_and(|turn| match turn.found {
            Found::Node { kind: Kind::Link, .. } => true,
            Found::Node { .. } => self.arrivals.is_moved(turn.directory.identity, &turn.name),
            Found::Nothing(_) => false,
        })
    }
}

fn place_of(found: &Found) -> Option<Identity> {
    match found {
        Found::Node { place, .. } => Some(place.identity),
        Found::Nothing(_) => None,
    }
}

/// The first answer that is not what it was. All before it being equal, the question is the same.
fn first_difference<'a>(old: &Chain, new: &'a Chain) -> Option<&'a LookUp> {
    new.iter()
        .enumerate()
        .find(|(index, look_up)| !old.get(*index).is_some_and(|old| old.agrees(look_up)))
        .map(|(_, look_up)| look_up)
}
