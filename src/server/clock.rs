//! The only place of the serving path where the clocks are read: once a turn, and when a generation is published.

use std::time::{Instant, SystemTime};

/// The monotonic clock.
#[expect(clippy::disallowed_methods, reason = "this is where the loop reads its clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The calendar: certificates speak of dates.
#[expect(clippy::disallowed_methods, reason = "this is where the loop reads the calendar")]
pub(crate) fn wall() -> SystemTime {
    SystemTime::now()
}
