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
    /// How often to look without being asked, a day at most; `None` and zero look on events only.
    pub interval: Option<Duration>,
    /// Spreads the timer by a tenth, so that replicas do not look in step.
    pub jitter_seed: u64,
}

impl Timing {
    /// The product's settling times with a given timer.
    #[must_use]
    pub fn new(interval: Option<Duration>, jitter_seed: u64) -> Self {
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

/// Passes that events may cause in immediate succession; after these, one every [`PACE`].
const BURST: u32 = 16;

/// Between passes when events never end: the last of a thousand swaps is served this late at most, and forty passes a
/// second are no load.
const PACE: Duration = Duration::from_millis(25);

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
    pub(super) fn new(mut timing: Timing, now: Instant) -> Self {
        timing.interval = timing.interval.filter(|it| !it.is_zero()).map(|it| it.min(MAX_INTERVAL));
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
        let allowance = PACE * (BURST - 1);
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
                self.spent_until = self.spent_until.max(now) + PACE;
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

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[expect(clippy::disallowed_methods, reason = "an instant can't be had otherwise")]
    fn start() -> Instant {
        Instant::now() + Duration::from_secs(1000)
    }

    /// Past the first look.
    fn schedule(interval: Option<Duration>) -> (Schedule, Instant) {
        let now = start();
        let mut schedule = Schedule::new(Timing::new(interval, 7), now);
        assert_eq!(schedule.begin(now).trigger, Trigger::Start);
        (schedule, now)
    }

    #[test]
    fn zero_is_no_interval_and_for_ever_is_a_day() {
        assert_eq!(schedule(Some(Duration::ZERO)).0.timing.interval, None);
        assert_eq!(schedule(Some(Duration::MAX)).0.timing.interval, Some(24 * 3600 * SECOND));
    }

    #[test]
    fn events_are_followed_at_once_until_they_are_too_many() {
        let (mut schedule, now) = schedule(None);
        for _ in 0..BURST {
            schedule.on_event(now);
            assert_eq!(schedule.deadline(), Some(now));
            schedule.begin(now);
        }
        schedule.on_event(now);
        assert_eq!(schedule.deadline(), Some(now + PACE));
        schedule.begin(now + PACE);
        let later = now + 10 * SECOND;
        schedule.on_event(later);
        assert_eq!(schedule.deadline(), Some(later));
    }

    #[test]
    fn a_look_answers_everything_before_it() {
        let (mut schedule, now) = schedule(Some(60 * SECOND));
        schedule.rearm(Health::Sound, now);
        schedule.again(now + SECOND);
        schedule.look_now(Trigger::Signal, now + SECOND);
        schedule.on_event(now + SECOND / 2);
        let cause = schedule.begin(now + SECOND);
        assert_eq!(cause, Cause { trigger: Trigger::Event, since: now + SECOND / 2 });
        schedule.rearm(Health::Sound, now + SECOND);
        assert!(schedule.deadline().is_some_and(|at| at > now + 50 * SECOND));
    }

    #[test]
    fn the_timer_depends_on_health_and_interval() {
        let minute = Some(60 * SECOND);
        let rows = [
            (minute, Health::Sound, Some(60)),
            (minute, Health::Failing, Some(5)),
            (minute, Health::Blind, Some(5)),
            (Some(2 * SECOND), Health::Blind, Some(2)),
            (None, Health::Sound, None),
            (None, Health::Failing, None),
            (None, Health::Blind, Some(5)),
        ];
        for (interval, health, seconds) in rows {
            let (mut schedule, now) = schedule(interval);
            for _ in 0..100 {
                schedule.rearm(health, now);
                let wait = schedule.deadline().map(|at| at - now);
                let Some(seconds) = seconds else {
                    assert_eq!(wait, None, "{interval:?} {health:?}");
                    continue;
                };
                let span = SECOND * seconds;
                let wait = wait.unwrap();
                assert!(wait >= span * 9 / 10 && wait <= span * 11 / 10, "{interval:?} {health:?} {wait:?}");
            }
        }
    }

    #[test]
    fn jitter_spreads_replicas() {
        let wait = |seed| {
            let now = start();
            let mut schedule = Schedule::new(Timing::new(Some(60 * SECOND), seed), now);
            schedule.begin(now);
            schedule.rearm(Health::Sound, now);
            schedule.deadline().unwrap().duration_since(now)
        };
        let waits: std::collections::BTreeSet<_> = (0..50).map(wait).collect();
        assert!(waits.len() > 30, "{waits:?}");
        assert_eq!(wait(3).as_millis(), wait(3).as_millis());
    }

    #[test]
    fn failures_are_tried_again_at_growing_pauses_and_events_start_over() {
        let (mut schedule, now) = schedule(Some(60 * SECOND));
        let mut pauses = Vec::new();
        for _ in 0..6 {
            schedule.fail(Health::Failing, Persistence::UntilAnEvent, now);
            pauses.push((schedule.deadline().unwrap() - now).as_millis());
        }
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1000]);
        schedule.fail(Health::Failing, Persistence::UntilAnEvent, now + 11 * SECOND);
        schedule.begin(now + 11 * SECOND);
        schedule.fail(Health::Failing, Persistence::UntilAnEvent, now + 11 * SECOND);
        assert_eq!(schedule.deadline(), None, "left to the timer");
        schedule.on_event(now + 12 * SECOND);
        schedule.begin(now + 12 * SECOND);
        schedule.fail(Health::Failing, Persistence::UntilAnEvent, now + 12 * SECOND);
        assert_eq!(schedule.deadline(), Some(now + 12 * SECOND + Duration::from_millis(50)));
    }

    #[test]
    fn without_a_timer_only_what_no_event_ends_is_tried_again() {
        let rows = [
            (Health::Failing, Persistence::UntilAnEvent, false),
            (Health::Failing, Persistence::Always, true),
            (Health::Blind, Persistence::UntilAnEvent, true),
        ];
        for (health, persistence, is_tried) in rows {
            let (mut schedule, now) = schedule(None);
            schedule.fail(health, persistence, now);
            assert_eq!(schedule.deadline().is_some(), is_tried, "{health:?} {persistence:?}");
        }
    }

    #[test]
    fn mounts_cause_one_look_a_second() {
        let (mut schedule, now) = schedule(None);
        schedule.on_mounts_changed(now);
        assert_eq!(schedule.deadline(), Some(now));
        schedule.begin(now);
        for _ in 0..100 {
            schedule.on_mounts_changed(now + SECOND / 10);
        }
        assert_eq!(schedule.deadline(), Some(now + SECOND));
        schedule.begin(now + SECOND);
        schedule.on_mounts_changed(now + 9 * SECOND);
        assert_eq!(schedule.deadline(), Some(now + 9 * SECOND));
    }
}
