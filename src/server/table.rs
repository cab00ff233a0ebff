//! A worker's connections by slot, each slot with a stamp of its owner.
//!
//! Does not know what a connection does. Shown by the tests of tokens and by the end-to-end tests of churn.

use std::io;

use slab::Slab;

use super::connection::Connection;
use super::seat::Seat;
use super::token::{MAXIMUM_SLOTS, Slot};
use crate::sys::process;

/// From this many connections on, the memory they leave behind is worth the time to give it back.
const CROWD: usize = 512;

/// A worker's connections.
#[derive(Debug)]
pub(crate) struct Table {
    connections: Slab<Connection>,
    /// Where the room that each has is given back.
    seat: Seat,
    /// The stamp of the next owner of any slot; wraps after four billion, when no event of that age is left.
    next_stamp: u32,
}

impl Table {
    pub(crate) fn new(seat: Seat) -> Self {
        Self { connections: Slab::new(), seat, next_stamp: 0 }
    }

    /// Puts in what `make` makes for a free slot.
    ///
    /// # Errors
    /// What `make` says.
    pub(crate) fn insert(
        &mut self,
        make: impl FnOnce(Slot) -> io::Result<Connection>,
    ) -> io::Result<&mut Connection> {
        let entry = self.connections.vacant_entry();
        if entry.key() >= MAXIMUM_SLOTS {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let connection = make(Slot { index: entry.key(), stamp: self.next_stamp })?;
        self.next_stamp = self.next_stamp.wrapping_add(1);
        Ok(entry.insert(connection))
    }

    /// The connection in `slot`, if it is still the one with that stamp.
    pub(crate) fn find(&mut self, slot: Slot) -> Option<&mut Connection> {
        self.at(slot.index).filter(|connection| connection.slot == slot)
    }

    /// The connection in the slot with this index.
    pub(crate) fn at(&mut self, index: usize) -> Option<&mut Connection> {
        self.connections.get_mut(index)
    }

    pub(crate) fn remove(&mut self, index: usize) -> Option<Connection> {
        let connection = self.connections.try_remove(index)?;
        self.seat.left(connection.peer.ip(), connection.greeted);
        Some(connection)
    }

    /// One of them has ended its handshake.
    pub(crate) fn greeted(&self) {
        self.seat.greeted();
    }

    /// Gives memory back after a crowd has left.
    pub(crate) fn trim(&mut self) {
        if self.connections.is_empty() && self.connections.capacity() > CROWD {
            self.connections.shrink_to_fit();
            process::release_memory();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// The indices of all connections, as they are now.
    pub(crate) fn indices(&self) -> Vec<usize> {
        self.connections.iter().map(|(index, _)| index).collect()
    }
}
