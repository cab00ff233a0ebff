//! The only clock and the only sleep of these tests: everything else waits for a condition until a deadline.

use std::io;
use std::time::{Duration, Instant, SystemTime};

/// How long a test waits for what should come at once, on a machine that is busy with other things.
pub(crate) const SOON: Duration = Duration::from_secs(10);
/// How long a test lets what it expects *not* to happen, happen.
pub(crate) const QUIET: Duration = Duration::from_millis(400);

const STEP: Duration = Duration::from_millis(2);

#[expect(clippy::disallowed_methods, reason = "the clock of the tests is read here alone")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// What certificates count their lives from.
#[expect(clippy::disallowed_methods, reason = "the clock of the tests is read here alone")]
pub(crate) fn wall_clock() -> SystemTime {
    SystemTime::now()
}

/// Asks `condition` again and again until it holds or `limit` is over; says whether it held.
#[expect(clippy::disallowed_methods, reason = "the one bounded poll that all waits go through")]
pub(crate) fn until(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = now() + limit;
    loop {
        if condition() {
            return true;
        }
        let left = end.saturating_duration_since(now());
        if left.is_zero() {
            return false;
        }
        std::thread::sleep(left.min(STEP));
    }
}

/// A pause that is itself part of a scenario: a slow writer, an interval between swaps.
pub(crate) fn pause(length: Duration) {
    until(length, || false);
}

/// Calls again what a signal interrupted: a read with a time limit is, even by a mere stop and continuation.
pub(crate) fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}
