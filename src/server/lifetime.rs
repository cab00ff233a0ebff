//! How the certificate in force stands by the calendar: told if its time has not come, when what it has left grows short,
//! and when that is over.
//!
//! Knows nothing of files. Shown by the tests below.

use std::time::{Duration, Instant, SystemTime};

use super::history::Moment;

/// Whoever renews has done so long before the last fifth of a certificate's life, or the last week of a long one.
const SHORT_FRACTION: u32 = 5;
const SHORT_MAXIMUM: Duration = Duration::from_secs(7 * 24 * 3600);

/// The calendar may be set while we wait, so no wait is longer than this.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// The first and the last moment of a certificate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Life {
    pub(crate) not_before: SystemTime,
    pub(crate) not_after: SystemTime,
}

/// How the certificate in force stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    #[default]
    Fine,
    NotYetValid,
    EndsSoon,
    Over,
}

/// What has been told of the certificate in force, and when to look at the calendar again.
#[derive(Debug, Default)]
pub(crate) struct Lifetime {
    told: Standing,
    look_at: Option<Instant>,
}

impl Lifetime {
    /// Another certificate is in force: nothing has been told of it.
    pub(crate) fn begin(&mut self, now: Instant) {
        *self = Self { told: Standing::Fine, look_at: Some(now) };
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.look_at
    }

    /// What is to be told now of a certificate with this life.
    pub(crate) fn due(&mut self, life: Life, moment: Moment) -> Option<Standing> {
        if self.look_at? > moment.at {
            return None;
        }
        let (standing, next) = standing(life, moment.wall);
        self.look_at = next.map(|wait| moment.at + wait.min(LONGEST_WAIT));
        let worse = standing > self.told;
        self.told = standing;
        worse.then_some(standing)
    }
}

/// How the certificate stands, and how long until that changes.
fn standing(life: Life, wall: SystemTime) -> (Standing, Option<Duration>) {
    let Ok(left) = life.not_after.duration_since(wall) else { return (Standing::Over, None) };
    if let Ok(early) = life.not_before.duration_since(wall)
        && !early.is_zero()
    {
        return (Standing::NotYetValid, Some(early));
    }
    let whole = life.not_after.duration_since(life.not_before).unwrap_or_default();
    let short = (whole / SHORT_FRACTION).min(SHORT_MAXIMUM);
    match left.checked_sub(short) {
        Some(wait) if !wait.is_zero() => (Standing::Fine, Some(wait)),
        // A second more, for the calendar counts those.
        _ => (Standing::EndsSoon, Some(left + Duration::from_secs(1))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn life(days: u32) -> Life {
        let not_before = SystemTime::UNIX_EPOCH;
        Life { not_before, not_after: not_before + DAY * days }
    }

    #[test]
    fn each_stage_is_told_once() {
        let start = super::super::clock::now();
        let life = life(90);
        let mut lifetime = Lifetime::default();
        lifetime.begin(start);
        let mut told = Vec::new();
        let mut moment = Moment { at: start, wall: SystemTime::UNIX_EPOCH };
        while let Some(at) = lifetime.deadline() {
            moment = Moment { at, wall: SystemTime::UNIX_EPOCH + (at - start) };
            if let Some(standing) = lifetime.due(life, moment) {
                told.push((standing, (at - start).as_secs() / DAY.as_secs()));
            }
        }
        assert_eq!(told, [(Standing::EndsSoon, 83), (Standing::Over, 90)]);
        assert!(moment.at - start < DAY * 91);
    }

    #[test]
    fn one_whose_time_has_not_come_is_told_once_and_then_like_any_other() {
        let start = super::super::clock::now();
        let life = life(10);
        let mut lifetime = Lifetime::default();
        lifetime.begin(start);
        let mut told = Vec::new();
        while let Some(at) = lifetime.deadline() {
            let wall = SystemTime::UNIX_EPOCH - DAY + (at - start);
            if let Some(standing) = lifetime.due(life, Moment { at, wall }) {
                told.push((standing, (at - start).as_secs() / DAY.as_secs()));
            }
        }
        assert_eq!(told, [(Standing::NotYetValid, 0), (Standing::EndsSoon, 9), (Standing::Over, 11)]);
    }

    #[test]
    fn a_short_life_is_short_in_its_last_fifth() {
        let life = life(1);
        let at = |hours: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(hours * 3600);
        assert_eq!(standing(life, at(19)).0, Standing::Fine);
        assert_eq!(standing(life, at(20)).0, Standing::EndsSoon);
        assert_eq!(standing(life, at(25)).0, Standing::Over);
    }
}
