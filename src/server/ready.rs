//! Which connections have something to do, those with short work apart from bulk transfers.
//!
//! Does not know what the work is. Shown by the end-to-end tests of small requests beside bulk transfers.

use std::collections::VecDeque;

use super::connection::Connection;
use crate::config::limits;

/// The table's indices of connections that have something to do, each once, first come first served.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    pub(crate) brief: VecDeque<usize>,
    pub(crate) bulk: VecDeque<usize>,
}

/// What a connection's last run tells of its next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    /// A handshake, a small request, or not known yet.
    Brief,
    /// Many bytes.
    Bulk,
}

impl Load {
    /// Judges by the bytes that a run moved.
    pub(crate) fn of_run(moved_bytes: usize) -> Self {
        if moved_bytes < limits::BRIEF_RUN_BYTES { Self::Brief } else { Self::Bulk }
    }
}

impl Ready {
    /// Puts a connection on its list, unless it stands there.
    pub(crate) fn push(&mut self, connection: &mut Connection) {
        if connection.queued {
            return;
        }
        connection.queued = true;
        match connection.load {
            Load::Brief => self.brief.push_back(connection.slot.index),
            Load::Bulk => self.bulk.push_back(connection.slot.index),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.brief.len() + self.bulk.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.brief.is_empty() && self.bulk.is_empty()
    }
}
