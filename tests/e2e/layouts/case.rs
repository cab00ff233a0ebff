//! The vocabulary of the layout tables: a case is a name, two paths and the operations that happen around them.
//! Paths are relative to a folder of the case's own. `play.rs` performs them.

use tlsidecar::demo::volume::Order;

/// One row: what happens on disk, and what must be served meanwhile.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) certificate: &'static str,
    pub(super) key: &'static str,
    pub(super) needs: Needs,
    pub(super) steps: Vec<Op>,
}

/// What a machine must offer for a row to apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    Nothing,
    /// A mount namespace of one's own, so root.
    Mounts,
    /// To start the sidecar as a user who may read but little, so root.
    Nobody,
    /// A program that is not everywhere.
    Tool(&'static str),
}

/// One operation. Numbers are generations, which are serials as well.
#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    /// A line for the shell, in the case's folder.
    Run(&'static str),
    /// Both files of a pair, into a folder.
    Put(Manner, &'static str, u64),
    /// One file in place.
    Chain(&'static str, u64),
    Key(&'static str, u64),
    /// The kubelet's write, into a volume.
    Swap(Order, Extent, &'static str, u64),
    /// Two names change places at once.
    Exchange(&'static str, &'static str),
    /// This many other names come and go in a folder.
    Churn(&'static str, u32),
    /// Other names come and go in a folder as fast as they can, until the case ends.
    Flood(&'static str),
    /// A pause in milliseconds.
    Wait(u64),
    /// The sidecar starts.
    Start,
    /// The sidecar is stopped, so that events queue up, and goes on.
    Freeze,
    Thaw,
    /// Something is seen from outside.
    See(Sight),
}

/// How both files are written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Manner {
    /// In place, one after the other.
    InPlace,
    /// The same, filled up with blank lines to a length that is the same for every generation.
    Padded,
    /// In place in halves, with pauses of 100 ms.
    Slowly,
    /// In place, and the descriptors stay open until the case ends.
    Holding,
    /// Stored through mappings that are closed afterwards.
    Mapped,
    /// As unnamed files, linked into place empty and written 100 ms later.
    Unnamed,
    /// The key, then the leaf, then after 10 ms the rest of the chain by another open.
    InParts,
}

/// What a write to a volume comprises.
#[derive(Clone, Copy, Debug)]
pub(super) enum Extent {
    Whole,
    /// It ends before the old directory is removed.
    KeepingOld,
    /// Its files are for their owner alone.
    Closed,
    /// It ends right after it made its directory and files.
    Crashed,
    /// Its payload has both files in a folder.
    Nested,
    ChainAlone,
    KeyAlone,
}

/// What must be seen.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sight {
    /// This generation is served soon, and nothing but the one before until then.
    Serves(u64),
    /// This generation is served all the time for a while.
    Keeps(u64),
    /// Nobody can connect yet.
    Refuses,
    /// From the second time on: as many kernel watches as the time before.
    SameWatches,
    /// Since the start, between one and this many warnings.
    Warnings(usize),
}

pub(super) const fn put(folder: &'static str, number: u64) -> Op {
    Op::Put(Manner::InPlace, folder, number)
}

pub(super) const fn serves(number: u64) -> Op {
    Op::See(Sight::Serves(number))
}

pub(super) const fn keeps(number: u64) -> Op {
    Op::See(Sight::Keeps(number))
}

/// A row about `c/tls.crt` and `c/tls.key` that applies everywhere.
pub(super) fn case(name: impl Into<String>, steps: impl Into<Vec<Op>>) -> Case {
    Case {
        name: name.into(),
        certificate: "c/tls.crt",
        key: "c/tls.key",
        needs: Needs::Nothing,
        steps: steps.into(),
    }
}

impl Case {
    pub(super) fn at(self, certificate: &'static str, key: &'static str) -> Self {
        Self { certificate, key, ..self }
    }

    pub(super) fn needing(self, needs: Needs) -> Self {
        Self { needs, ..self }
    }
}
