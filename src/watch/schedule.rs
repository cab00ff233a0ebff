//! When to look: at once after an event, later again, and from time to time without being asked.
//!
//! It does not know what looking finds. Reading the clock and drawing lots is left to others: the time and a
//! seed are arguments. The tables below show it.

use std::time::{Duration, Instant};

/// How long to wait for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Quiet time before files that were changed one by one are believed to be complete.
    pub settle: Duration,
    /// Half the time after which an unending stream of events no longer delays a commit.
    pub storm: Duration,
    /// How often to look without being asked; `None` looks on events only.
    pub interval: Option<Duration>,
    /// Spreads the timer by a tenth, so that replicas do not look in step.
    pub jitter_seed: u64,
}

impl Timing {
    /// The product's settling times with a given timer. An interval of zero is none; a day is the longest.
    #[must_use]
    pub fn new(interval: Option<Duration>, jitter_seed: u64) -> Self {
        let interval =
            interval.filter(|interval| !interval.is_zero()).map(|interval| interval.min(MAX_INTERVAL));
        Self { settle: Duration::from_millis(50), storm: Duration::from_millis(500), interval, jitter_seed }
    }
}

/// What made the watcher look. Of several at once the first in this order counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trigger {
    /// It had never looked.
    Start,
    /// An event in a watched inode, a lost event, or a change of the mounts.
    Event,
    /// A person asked.
    Signal,
    /// Something was due to be looked at again: after a failure, or to see whether it has settled.
    Retry,
    /// The safety net.
    Timer,
}

impl Trigger {
    /// A stable word in snake_case.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Event => "event",
            Self::Signal => "signal",
            Self::Retry => "retry",
            Self::Timer => "timer",
        }
    }
}

/// What made the watcher look, and when that was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cause {
    pub(super) trigger: Trigger,
    pub(super) since: Instant,
}

/// How the files stand, as far as the timer is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    /// Events tell everything, and what they tell is served.
    Sound,
    /// Events tell everything, but what is there can't be served.
    Failing,
    /// Events may not tell everything.
    Blind,
}

/// Whether a failure is tried again even where only events count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Persistence {
    /// Its repair is an event.
    UntilAnEvent,
    /// Its end may be no event.
    Always,
}

/// Passes that events may cause in immediate succession; after these, one for each settling time.
const BURST: u32 = 16;

/// The timer's interval while events may not tell everything, or what is there can't be served.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// The longest interval of the timer.
const MAX_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// A changed mount table causes no more than one look in this time.
const MOUNTS_INTERVAL: Duration = Duration::from_secs(1);

/// The longest pause between tries.
const MAX_BACKOFF: Duration = Duration::from_secs(1);

/// For how long a failure is tried again before it is left to the timer.
const BACKOFF_SPAN: Duration = Duration::from_secs(10);

/// When to look next, and why.
#[derive(Debug)]
pub(super) struct Schedule {
    timing: Timing,
    wake: Option<Wake>,
    again_at: Option<Instant>,
    timer_at: Option<Instant>,
    /// Up to here the share of looks that events may cause is used up.
    spent_until: Instant,
    /// The last look that a changed mount table caused, or the next.
    mounts_at: Option<Instant>,
    failing_since: Option<Instant>,
    failures: u32,
    jitter: u64,
}

#[derive(Clone, Copy, Debug)]
struct Wake {
    cause: Cause,
    at: Instant,
}

impl Schedule {
    pub(super) fn new(timing: Timing, now: Instant) -> Self {
        let mut schedule = Self {
            timing,
            wake: None,
            again_at: None,
            timer_at: None,
            spent_until: now,
            mounts_at: None,
            failing_since: None,
            failures: 0,
            jitter: timing.jitter_seed,
        };
        schedule.wake(Trigger::Start, now, now);
        schedule
    }

    /// Something happened that looking must follow, at once unless there was too much of it.
    pub(super) fn on_event(&mut self, now: Instant) {
        self.failing_since = None;
        self.failures = 0;
        let earliest = self.earliest(now);
        self.wake(Trigger::Event, now, earliest);
    }

    fn earliest(&self, now: Instant) -> Instant {
        let allowance = self.timing.settle * (BURST - 1);
        self.spent_until.checked_sub(allowance).map_or(now, |at| at.max(now))
    }

    pub(super) fn on_mounts_changed(&mut self, now: Instant) {
        let at = match self.mounts_at {
            None => now,
            Some(at) if at > now => at,
            Some(at) => now.max(at + MOUNTS_INTERVAL),
        };
        self.mounts_at = Some(at);
        self.wake(Trigger::Event, now, at);
    }

    /// What was found may be wrong: a look at the next occasion, on the account of events.
    pub(super) fn on_disagreement(&mut self, now: Instant) {
        let earliest = self.earliest(now);
        self.wake(Trigger::Event, now, earliest);
    }

    pub(super) fn look_now(&mut self, trigger: Trigger, now: Instant) {
        self.wake(trigger, now, now);
    }

    fn wake(&mut self, trigger: Trigger, now: Instant, at: Instant) {
        let new = Wake { cause: Cause { trigger, since: now }, at };
        self.wake = Some(match self.wake {
            None => new,
            Some(old) => Wake {
                cause: Cause { trigger: old.cause.trigger.min(trigger), since: old.cause.since.min(now) },
                at: old.at.min(at),
            },
        });
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let wake_at = self.wake.map(|wake| wake.at);
        [wake_at, self.again_at, self.timer_at].into_iter().flatten().min()
    }

    /// A look begins. It sees everything that has happened so far, whichever of its causes was due.
    pub(super) fn begin(&mut self, now: Instant) -> Cause {
        let wake = self.wake.take();
        let again_at = self.again_at.take();
        if let Some(wake) = wake {
            if wake.cause.trigger == Trigger::Event {
                self.spent_until = self.spent_until.max(now) + self.timing.settle;
            }
            return wake.cause;
        }
        let is_again = again_at.is_some_and(|at| at <= now);
        Cause { trigger: if is_again { Trigger::Retry } else { Trigger::Timer }, since: now }
    }

    /// Look again at this time, if nothing happens before.
    pub(super) fn again(&mut self, at: Instant) {
        self.again_at = Some(at);
    }

    /// What was asked for by [`Schedule::again`] is no longer needed.
    pub(super) fn never_again(&mut self) {
        self.again_at = None;
    }

    /// What is there can be served, or will be soon.
    pub(super) fn recover(&mut self) {
        self.failing_since = None;
        self.failures = 0;
    }

    /// What is there can't be served: try again after a pause that grows, for a while.
    pub(super) fn fail(&mut self, health: Health, persistence: Persistence, now: Instant) {
        let since = *self.failing_since.get_or_insert(now);
        let is_retried = self.timing.interval.is_some() || health == Health::Blind;
        let is_retried = is_retried || persistence == Persistence::Always;
        if !is_retried {
            return;
        }
        if now.saturating_duration_since(since) < BACKOFF_SPAN {
            let pause = self.timing.settle * (1 << self.failures.min(16));
            self.failures += 1;
            self.again_at = Some(now + pause.min(MAX_BACKOFF));
        } else if persistence == Persistence::Always {
            self.again_at = Some(now + POLL_INTERVAL);
        }
    }

    /// A look ended: the timer starts anew.
    pub(super) fn rearm(&mut self, health: Health, now: Instant) {
        let is_hasty = match health {
            Health::Sound => false,
            Health::Failing => self.timing.interval.is_some(),
            Health::Blind => true,
        };
        let interval = match self.timing.interval {
            Some(interval) if is_hasty => Some(interval.min(POLL_INTERVAL)),
            None if is_hasty => Some(POLL_INTERVAL),
            interval => interval,
        };
        self.timer_at = interval.map(|interval| now + self.spread(interval));
    }

    /// Between nine and eleven tenths of an interval.
    fn spread(&mut self, interval: Duration) -> Duration {
        self.jitter = self.jitter.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut lot = self.jitter;
        lot = (lot ^ (lot >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        lot = (lot ^ (lot >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let thousandths = 900 + u32::try_from((lot ^ (lot >> 31)) % 201).unwrap_or(0);
        interval / 1000 * thousandths
    }
}
