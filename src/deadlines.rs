//! Which identifier expires next.
//!
//! A heap of (when, stamp, identifier), and for each identifier what it really waits for. Moving a deadline to later, which a
//! busy connection does with every byte, touches no heap: the entry that is queued comes up too early and is put back for the
//! real moment. An entry whose stamp is not its identifier's any more is stale and is skipped. Stale entries never
//! outnumber the rest by much, so the memory is that of the largest identifier and twice the number of deadlines.
//!
//! Knows no clock and not what expires. The model test below compares with a plain map.

use std::{cmp::Reverse, collections::BinaryHeap, time::Instant};

/// So many entries are never worth a compaction.
const SPARE_ENTRIES: usize = 64;

/// Deadlines by identifier. Identifiers are small and dense, like the keys of a slab: memory grows with the largest.
#[derive(Debug, Default)]
pub struct Deadlines {
    queue: BinaryHeap<Reverse<Entry>>,
    /// By identifier.
    slots: Vec<Slot>,
    /// How many slots have a deadline.
    len: usize,
    last_stamp: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    at: Instant,
    stamp: u64,
    id: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// The deadline, if there is one.
    due: Option<Instant>,
    /// The entry that stands for this slot: it comes up no later than `due`.
    queued: Option<Entry>,
}

impl Deadlines {
    /// No deadline at all.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives `id` the deadline `at` instead of the one it may have had.
    pub fn set(&mut self, id: usize, at: Instant) {
        if id >= self.slots.len() {
            self.slots.resize(id + 1, Slot::default());
        }
        let Some(slot) = self.slots.get_mut(id) else { return };
        self.len += usize::from(slot.due.is_none());
        slot.due = Some(at);
        if slot.queued.is_none_or(|entry| entry.at > at) {
            self.queue(id, at);
        }
    }

    /// Takes the deadline of `id` away, if it has one.
    pub fn clear(&mut self, id: usize) {
        if let Some(slot) = self.slots.get_mut(id) {
            // Its entry stays: the next deadline of this identifier can often use it.
            self.len -= usize::from(slot.due.take().is_some());
        }
    }

    /// The earliest deadline.
    pub fn earliest(&mut self) -> Option<Instant> {
        self.settle().map(|entry| entry.at)
    }

    /// Takes one identifier out whose deadline is not after `now`.
    pub fn expired(&mut self, now: Instant) -> Option<usize> {
        let entry = self.settle().filter(|entry| entry.at <= now)?;
        self.queue.pop();
        if let Some(slot) = self.slots.get_mut(entry.id) {
            *slot = Slot::default();
            self.len -= 1;
        }
        Some(entry.id)
    }

    /// Brings the first entry in line with what its identifier waits for, and returns it.
    fn settle(&mut self) -> Option<Entry> {
        while let Some(&Reverse(entry)) = self.queue.peek() {
            let slot = self.slots.get_mut(entry.id)?;
            if slot.queued != Some(entry) {
                self.queue.pop();
                continue;
            }
            match slot.due {
                Some(at) if at == entry.at => return Some(entry),
                Some(at) => {
                    self.queue.pop();
                    self.queue(entry.id, at);
                }
                None => {
                    slot.queued = None;
                    self.queue.pop();
                }
            }
        }
        None
    }

    fn queue(&mut self, id: usize, at: Instant) {
        self.last_stamp += 1;
        let entry = Entry { at, stamp: self.last_stamp, id };
        if let Some(slot) = self.slots.get_mut(id) {
            slot.queued = Some(entry);
        }
        self.queue.push(Reverse(entry));
        if self.queue.len() > 2 * self.len + SPARE_ENTRIES {
            self.compact();
        }
    }

    /// Drops stale entries and those of identifiers without a deadline.
    fn compact(&mut self) {
        let slots = &mut self.slots;
        self.queue.retain(|&Reverse(entry)| match slots.get_mut(entry.id) {
            Some(slot) if slot.queued == Some(entry) && slot.due.is_some() => true,
            Some(slot) if slot.queued == Some(entry) => {
                slot.queued = None;
                false
            }
            Some(_) | None => false,
        });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests stop at the first surprise")]

    use super::*;
    use proptest::prelude::*;
    use std::{collections::BTreeMap, time::Duration};

    fn after(start: Instant, milliseconds: u64) -> Instant {
        start + Duration::from_millis(milliseconds)
    }

    #[test]
    fn expires_in_the_order_of_time_and_not_before() {
        let (start, mut deadlines) = (Instant::now(), Deadlines::new());
        for (id, at) in [(7, 30), (0, 10), (3, 20)] {
            deadlines.set(id, after(start, at));
        }
        assert_eq!(deadlines.earliest(), Some(after(start, 10)));
        assert_eq!(deadlines.expired(after(start, 9)), None);
        assert_eq!(deadlines.expired(after(start, 20)), Some(0));
        assert_eq!(deadlines.expired(after(start, 20)), Some(3));
        assert_eq!(deadlines.expired(after(start, 20)), None);
        assert_eq!(deadlines.earliest(), Some(after(start, 30)));
    }

    #[test]
    fn the_last_deadline_set_counts_be_it_earlier_or_later() {
        let (start, mut deadlines) = (Instant::now(), Deadlines::new());
        for at in [50, 20, 80, 40] {
            deadlines.set(1, after(start, at));
        }
        assert_eq!(deadlines.earliest(), Some(after(start, 40)));
        assert_eq!(deadlines.expired(after(start, 39)), None);
        assert_eq!(deadlines.expired(after(start, 100)), Some(1));
        assert_eq!(deadlines.expired(after(start, 100)), None);
    }

    #[test]
    fn a_cleared_identifier_does_not_expire_and_can_be_used_again() {
        let (start, mut deadlines) = (Instant::now(), Deadlines::new());
        deadlines.clear(5);
        deadlines.set(5, after(start, 10));
        deadlines.clear(5);
        assert_eq!(deadlines.earliest(), None);
        deadlines.set(5, after(start, 30));
        assert_eq!(deadlines.expired(after(start, 29)), None);
        assert_eq!(deadlines.expired(after(start, 30)), Some(5));
    }

    #[test]
    fn moving_a_deadline_to_later_queues_nothing() {
        let (start, mut deadlines) = (Instant::now(), Deadlines::new());
        for at in 0..10_000 {
            deadlines.set(0, after(start, at));
        }
        assert_eq!(deadlines.queue.len(), 1);
    }

    #[test]
    fn stale_entries_are_dropped_and_not_put_back() {
        let (start, mut deadlines) = (Instant::now(), Deadlines::new());
        for at in (0..SPARE_ENTRIES as u64).rev() {
            deadlines.set(0, after(start, at));
        }
        deadlines.set(0, after(start, 5_000));
        assert_eq!(deadlines.earliest(), Some(after(start, 5_000)));
        assert_eq!(deadlines.queue.len(), 1);
    }

    #[test]
    fn memory_stays_bounded_when_deadlines_move_to_earlier_or_are_cleared() {
        let (start, mut deadlines) = (Instant::now(), Deadlines::new());
        for round in 0..10_000_u64 {
            deadlines.set((round % 4) as usize, after(start, 20_000 - round));
            if round % 3 == 0 {
                deadlines.clear((round % 4) as usize);
            }
            assert!(deadlines.queue.len() <= 2 * 4 + SPARE_ENTRIES + 1);
        }
    }

    #[derive(Clone, Debug)]
    enum Operation {
        Set(usize, u64),
        Clear(usize),
        Expire(u64),
    }

    fn operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            4 => (0..24_usize, 0..200_u64).prop_map(|(id, at)| Operation::Set(id, at)),
            1 => (0..24_usize).prop_map(Operation::Clear),
            1 => (0..200_u64).prop_map(Operation::Expire),
        ]
    }

    proptest! {
        #[test]
        fn agrees_with_a_plain_map(operations in prop::collection::vec(operation(), 0..400)) {
            let (start, mut deadlines) = (Instant::now(), Deadlines::new());
            let mut model = BTreeMap::new();
            for operation in operations {
                match operation {
                    Operation::Set(id, at) => {
                        deadlines.set(id, after(start, at));
                        model.insert(id, at);
                    }
                    Operation::Clear(id) => {
                        deadlines.clear(id);
                        model.remove(&id);
                    }
                    Operation::Expire(now) => {
                        let mut last = 0;
                        while let Some(id) = deadlines.expired(after(start, now)) {
                            let at = model.remove(&id);
                            prop_assert!(at.is_some_and(|at| (last..=now).contains(&at)), "{id} at {at:?}");
                            last = at.unwrap();
                        }
                        prop_assert!(model.values().all(|at| *at > now));
                    }
                }
                let earliest = model.values().min().map(|at| after(start, *at));
                prop_assert_eq!(deadlines.earliest(), earliest);
                prop_assert!(deadlines.queue.len() <= 2 * model.len() + SPARE_ENTRIES + 24);
            }
        }
    }
}
