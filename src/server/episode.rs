//! When a limit is reached and when no longer, told at most once a minute each.
//!
//! A limit that is reached many times a second is one episode: it begins when somebody is first kept out and ends once
//! nobody has been for a while. Does not know what a limit is, nor the words of the log. Shown by the tests below.

use std::time::{Duration, Instant};

use super::limit::Limit;

/// So long nobody was kept out: it is over.
const CALM: Duration = Duration::from_secs(10);

/// At least so long from the telling of one episode to that of the next.
const BETWEEN: Duration = Duration::from_secs(60);

/// Each limit's episodes.
#[derive(Debug, Default)]
pub(crate) struct Episodes([Chronicle; Limit::ALL.len()]);

/// What to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum News {
    /// The limit is reached.
    Reached(Limit),
    /// It is no longer: how often it was, and for how long.
    Over(Limit, u64, Duration),
}

#[derive(Debug, Default)]
struct Chronicle {
    open: Option<Episode>,
    told: Option<Instant>,
}

#[derive(Debug)]
struct Episode {
    begin: Instant,
    last: Instant,
    times: u64,
    /// Workers that the limit holds back now.
    held: usize,
    told: bool,
}

impl Episodes {
    /// A client was kept out. Returns whether an episode begins with it.
    pub(crate) fn touch(&mut self, limit: Limit, now: Instant) -> bool {
        let begins = self.of(limit).open.is_none();
        let episode = self.of(limit).open.get_or_insert(Episode {
            begin: now,
            last: now,
            times: 0,
            held: 0,
            told: false,
        });
        episode.last = now;
        episode.times += 1;
        begins
    }

    /// A worker is held back by the limit.
    pub(crate) fn hold(&mut self, limit: Limit, now: Instant) {
        self.touch(limit, now);
        if let Some(episode) = &mut self.of(limit).open {
            episode.held += 1;
        }
    }

    /// A worker that was held back no longer is.
    pub(crate) fn release(&mut self, limit: Limit, now: Instant) {
        if let Some(episode) = &mut self.of(limit).open {
            episode.held = episode.held.saturating_sub(1);
            episode.last = now;
        }
    }

    /// Whether any limit's episode lasts.
    pub(crate) fn any(&self) -> bool {
        self.0.iter().any(|chronicle| chronicle.open.is_some())
    }

    /// When [`Self::due`] may have something.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.0.iter().filter_map(Chronicle::deadline).min()
    }

    /// Something to tell now; ask again until there is nothing.
    pub(crate) fn due(&mut self, now: Instant) -> Option<News> {
        Limit::ALL.into_iter().find_map(|limit| self.of(limit).due(limit, now))
    }

    fn of(&mut self, limit: Limit) -> &mut Chronicle {
        let [connections, handshakes, accept_rate, descriptors, client_connections] = &mut self.0;
        match limit {
            Limit::Connections => connections,
            Limit::Handshakes => handshakes,
            Limit::AcceptRate => accept_rate,
            Limit::Descriptors => descriptors,
            Limit::ClientConnections => client_connections,
        }
    }
}

impl Chronicle {
    fn deadline(&self) -> Option<Instant> {
        let episode = self.open.as_ref()?;
        let end = (episode.held == 0).then(|| episode.last + CALM);
        let telling = (!episode.told).then(|| self.told.map_or(episode.begin, |told| told + BETWEEN));
        [end, telling].into_iter().flatten().min()
    }

    fn due(&mut self, limit: Limit, now: Instant) -> Option<News> {
        let episode = self.open.as_mut()?;
        if episode.held == 0 && episode.last + CALM <= now {
            let Episode { begin, last, times, told, .. } = self.open.take()?;
            return told.then(|| News::Over(limit, times, last.saturating_duration_since(begin)));
        }
        if !episode.told && self.told.is_none_or(|told| told + BETWEEN <= now) {
            episode.told = true;
            self.told = Some(now);
            return Some(News::Reached(limit));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const LIMIT: Limit = Limit::ClientConnections;

    fn all(episodes: &mut Episodes, now: Instant) -> Vec<News> {
        std::iter::from_fn(|| episodes.due(now)).collect()
    }

    #[test]
    fn many_times_are_one_episode_that_is_told_at_its_begin_and_at_its_end() {
        let start = super::super::clock::now();
        let mut episodes = Episodes::default();
        assert!(episodes.touch(LIMIT, start));
        assert_eq!(all(&mut episodes, start), [News::Reached(LIMIT)]);
        for second in 1..=20 {
            assert!(!episodes.touch(LIMIT, start + second * SECOND));
            assert_eq!(all(&mut episodes, start + second * SECOND), []);
        }
        assert_eq!(episodes.deadline(), Some(start + 20 * SECOND + CALM));
        let over = News::Over(LIMIT, 21, 20 * SECOND);
        assert_eq!(all(&mut episodes, start + 20 * SECOND + CALM), [over]);
        assert!(!episodes.any());
        assert_eq!(episodes.deadline(), None);
    }

    #[test]
    fn it_lasts_while_a_worker_is_held_back() {
        let start = super::super::clock::now();
        let mut episodes = Episodes::default();
        episodes.hold(LIMIT, start);
        episodes.hold(LIMIT, start);
        assert_eq!(all(&mut episodes, start), [News::Reached(LIMIT)]);
        episodes.release(LIMIT, start + SECOND);
        assert_eq!(episodes.deadline(), None);
        assert_eq!(all(&mut episodes, start + 100 * SECOND), []);
        episodes.release(LIMIT, start + 200 * SECOND);
        assert_eq!(all(&mut episodes, start + 209 * SECOND), []);
        assert_eq!(all(&mut episodes, start + 210 * SECOND), [News::Over(LIMIT, 2, 200 * SECOND)]);
    }

    #[test]
    fn at_most_one_a_minute_is_told_and_one_that_lasts_is_not_forgotten() {
        let start = super::super::clock::now();
        let mut episodes = Episodes::default();
        let mut told = Vec::new();
        for step in 0..30 {
            episodes.touch(LIMIT, start + step * 11 * SECOND);
            told.extend(all(&mut episodes, start + step * 11 * SECOND));
            told.extend(all(&mut episodes, start + step * 11 * SECOND + CALM));
        }
        let reached = told.iter().filter(|news| matches!(news, News::Reached(_))).count();
        assert_eq!((reached, told.len()), (5, 10), "in 330 seconds: {told:?}");
        let late = start + 330 * SECOND;
        episodes.hold(LIMIT, late);
        assert_eq!(all(&mut episodes, late), [News::Reached(LIMIT)]);
        episodes.release(LIMIT, late);
        assert_eq!(all(&mut episodes, late + CALM).len(), 1);
        episodes.hold(LIMIT, late + 2 * CALM);
        assert_eq!(all(&mut episodes, late + 2 * CALM), []);
        assert_eq!(episodes.deadline(), Some(late + BETWEEN));
        assert_eq!(all(&mut episodes, late + BETWEEN), [News::Reached(LIMIT)]);
    }

    #[test]
    fn limits_do_not_mix() {
        let start = super::super::clock::now();
        let mut episodes = Episodes::default();
        for limit in Limit::ALL {
            episodes.hold(limit, start);
        }
        assert_eq!(all(&mut episodes, start), Limit::ALL.map(News::Reached));
    }
}
