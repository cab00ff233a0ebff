//! So many of something for all workers together, so that none is starved by the others.
//!
//! Where there is room, a worker takes it whatever the others have. Where there is not, the one that has less than its
//! part of the whole and has clients waiting goes first. Does not know what is counted, nor how a worker is woken.
//! Shown by the tests below and by the end-to-end tests of limits.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// A number that all workers together do not go beyond.
#[derive(Debug)]
pub(crate) struct Quota {
    most: usize,
    taken: AtomicUsize,
    seats: Vec<Seat>,
}

/// A worker's.
#[derive(Debug, Default)]
struct Seat {
    taken: AtomicUsize,
    /// Whether it has clients that it had no room for. Set before it looks for room a last time and goes to sleep, and
    /// read after something was given back, so that one of both sees the other.
    waits: AtomicBool,
}

impl Quota {
    pub(crate) fn new(most: usize, workers: usize) -> Self {
        let seats = (0..workers).map(|_| Seat::default()).collect();
        Self { most, taken: AtomicUsize::new(0), seats }
    }

    /// Whether `worker` may take one.
    pub(crate) fn has_room(&self, worker: usize) -> bool {
        self.taken.load(SeqCst) < self.most && !self.gives_way(worker)
    }

    /// Takes one for `worker`, if there is room for it.
    pub(crate) fn take(&self, worker: usize) -> bool {
        // Looked at first: one that is taken and given back at once might be missed by the one it is meant for, which
        // then goes to sleep.
        if self.gives_way(worker) {
            return false;
        }
        let next = |taken| (taken < self.most).then_some(taken + 1);
        let taken = self.taken.fetch_update(SeqCst, SeqCst, next).is_ok();
        if taken {
            self.seat(worker, |seat| seat.taken.fetch_add(1, SeqCst));
        }
        taken
    }

    /// Gives one of `worker` back.
    pub(crate) fn give_back(&self, worker: usize) {
        self.seat(worker, |seat| seat.taken.fetch_sub(1, SeqCst));
        self.taken.fetch_sub(1, SeqCst);
    }

    /// Notes whether clients of `worker` wait for room. Returns whether that has changed.
    pub(crate) fn set_waiting(&self, worker: usize, waits: bool) -> bool {
        self.seat(worker, |seat| usize::from(seat.waits.swap(waits, SeqCst) != waits)) == 1
    }

    /// The workers that wait for room.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = usize> {
        self.seats.iter().enumerate().filter(|(_, seat)| seat.waits.load(SeqCst)).map(|(worker, _)| worker)
    }

    /// Whether `worker` has its part, and another that may not have waits.
    fn gives_way(&self, worker: usize) -> bool {
        let part = self.most.div_ceil(self.seats.len().max(1));
        self.seat(worker, |seat| seat.taken.load(SeqCst)) >= part
            && self
                .waiting()
                .any(|waiting| waiting != worker && self.seat(waiting, |seat| seat.taken.load(SeqCst)) < part)
    }

    fn seat(&self, worker: usize, look: impl FnOnce(&Seat) -> usize) -> usize {
        self.seats.get(worker).map_or(0, look)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(quota: &Quota, worker: usize, wanted: usize) -> usize {
        (0..wanted).filter(|_| quota.take(worker)).count()
    }

    #[test]
    fn one_worker_may_have_all_of_it_and_no_more() {
        let quota = Quota::new(5, 3);
        assert_eq!(taken(&quota, 1, 9), 5);
        assert!(!quota.has_room(1) && !quota.has_room(0));
        quota.give_back(1);
        assert!(quota.take(0));
        assert!(!quota.take(1));
    }

    #[test]
    fn who_has_its_part_gives_way_to_who_waits_without() {
        let quota = Quota::new(4, 2);
        assert_eq!(taken(&quota, 0, 4), 4);
        assert!(quota.set_waiting(1, true) && !quota.set_waiting(1, true));
        assert_eq!(quota.waiting().collect::<Vec<_>>(), [1]);
        quota.give_back(0);
        assert!(!quota.has_room(0) && !quota.take(0), "it has three of four");
        assert!(quota.has_room(1) && quota.take(1));
        quota.give_back(0);
        assert!(!quota.take(0) && quota.take(1), "it has two, and the other one");
        quota.give_back(1);
        assert!(quota.set_waiting(1, false));
        assert!(quota.take(0), "nobody waits any more");
    }

    #[test]
    fn threads_never_go_beyond_it_together() {
        let (quota, most_seen) = (Quota::new(10, 4), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let (quota, most_seen) = (&quota, &most_seen);
                scope.spawn(move || {
                    for _ in 0..2000 {
                        let mine = taken(quota, worker, 5);
                        let all: usize = quota.seats.iter().map(|seat| seat.taken.load(SeqCst)).sum();
                        most_seen.fetch_max(all, SeqCst);
                        (0..mine).for_each(|_| quota.give_back(worker));
                    }
                });
            }
        });
        assert!(most_seen.load(SeqCst) <= 10);
        assert_eq!(quota.taken.load(SeqCst), 0);
    }
}
