//! Whether events can be relied on, and what speaks against it.
//!
//! It does not know how often polling looks (that is `schedule.rs`) or how the reasons are found (`walk.rs`).

use std::fmt;

use super::walk::{MAX_LOOK_UPS, MAX_WATCHES};
use crate::printable::Printable;

/// Whether events alone can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Every change is an event.
    Events,
    /// Some changes may not be: the files are also looked at every few seconds.
    Polling,
}

/// What stands between a change and an event about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The system grants no event queue.
    NoQueue,
    /// The limit of watches is reached.
    NoRoom,
    /// This directory or file may not be watched.
    Unwatchable(Vec<u8>),
    /// This path lies on a file system of this name, where others change things without an event.
    Remote(Vec<u8>, &'static str),
    /// This path fails in a way whose end is no event.
    Failing(Vec<u8>),
    /// This path takes more look-ups than are made.
    TooDeep(Vec<u8>),
    /// All paths together take more watches than are held.
    TooMany,
    /// The kernel resolves this path to another file than the walk does.
    ResolvesElsewhere(Vec<u8>),
    /// Within the last hour a change was found that no event had announced.
    Missed,
    /// This file is itself a mount: it can be written, but no new file can take its place. Looking more often
    /// does not help, so it does not make the watcher poll.
    Pinned(Vec<u8>),
}

impl Reason {
    /// Whether it is answered by looking every few seconds.
    #[must_use]
    pub fn calls_for_polling(&self) -> bool {
        !matches!(self, Self::Pinned(_))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoQueue => {
                write!(formatter, "no inotify instance to be had (see fs.inotify.max_user_instances)")
            }
            Self::NoRoom => {
                write!(formatter, "no more inotify watches to be had (see fs.inotify.max_user_watches)")
            }
            Self::Unwatchable(path) => write!(formatter, "{} may not be watched", Printable(path)),
            Self::Remote(path, name) => {
                write!(formatter, "{} is on {name}, where changes may come without an event", Printable(path))
            }
            Self::Failing(path) => write!(formatter, "{} can't be looked up at present", Printable(path)),
            Self::TooDeep(path) => write!(
                formatter,
                "{} takes more than {MAX_LOOK_UPS} look-ups, and what lies beyond them is not watched",
                Printable(path)
            ),
            Self::TooMany => {
                write!(formatter, "the paths take more than the {MAX_WATCHES} watches that are held")
            }
            Self::ResolvesElsewhere(path) => {
                write!(
                    formatter,
                    "{} is resolved by the kernel in a way that can't be watched",
                    Printable(path)
                )
            }
            Self::Missed => write!(formatter, "a change within the last hour came without an event"),
            Self::Pinned(path) => {
                let path = Printable(path);
                write!(
                    formatter,
                    "{path} is mounted as a single file: one that replaces it outside is never seen"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_names_the_path_or_the_limit() {
        assert!(Reason::NoQueue.to_string().contains("max_user_instances"));
        assert!(Reason::NoRoom.to_string().contains("max_user_watches"));
        assert_eq!(Reason::Unwatchable(b"/a b".to_vec()).to_string(), "/a b may not be watched");
        assert!(Reason::TooDeep(b"/d".to_vec()).to_string().starts_with("/d takes more than 256 look-ups"));
        assert!(Reason::Remote(b"/n".to_vec(), "nfs").to_string().starts_with("/n is on nfs"));
    }

    #[test]
    fn a_pinned_file_is_reported_but_not_polled() {
        assert!(!Reason::Pinned(Vec::new()).calls_for_polling());
        assert!(Reason::Missed.calls_for_polling());
    }
}
