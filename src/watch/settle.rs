//! Whether what was read is to be served now, later or never. One of these for each set of files.
//!
//! Writers come in two sorts. Some prepare everything aside and publish it with one swap of a link, or one rename of a
//! directory; their work can be taken at once. Others change file after file, or write in place; nothing tells that
//! they are done but quiet and reading the same bytes again. It does not know what the bytes are, how paths are walked,
//! or the clock. The tables below and `tests/sim/watch` show it.

use std::time::{Duration, Instant};

use super::arrivals::Arrival;
use super::chain::{Chain, Identity};
use super::schedule::{Cause, Trigger};
use super::swap::Swap;

/// SHA-256 over the files of the set, as the shell computes it.
pub type Digest = [u8; 32];

/// Files found at start are taken at once if nobody has touched them for this long.
const OLD_ENOUGH: Duration = Duration::from_secs(1);

/// What the shell found when it read the files of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// At least one path leads nowhere.
    Unresolved,
    /// A file is refused for what it is: no permission, too large. Its repair shows as an event.
    Unreadable,
    /// Reading failed for a reason whose end no event announces (no descriptors, an input error).
    Failed,
    /// A file changed while it was read.
    Moving,
    /// All files were read.
    Content {
        /// The digest of all of them.
        digest: Digest,
        /// Whether they may be served.
        verdict: Verdict,
        /// Time since the newest of them was last written or touched.
        age: Duration,
    },
}

/// Whether a content may be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may.
    Valid,
    /// It may, but looks like the beginning of something longer (fewer certificates than before): settle longer.
    Doubtful,
    /// It may not.
    Invalid,
}

/// What is to become of a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is what is served.
    Unchanged,
    /// It is new and valid, and may not be complete yet: the watcher will look again.
    Wait,
    /// It can't be served: go on with what is.
    Keep,
    /// It is to be served. Read the event queue to its end, feed the records, then ask
    /// [`Watcher::confirm`](super::Watcher::confirm).
    Commit,
}

/// Why a content needs no more waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publication {
    /// Nothing was served, and it is old enough to be complete.
    Found,
    /// All files changed through one look-up that was swapped, to files never seen before.
    Atomic,
    /// Read twice with quiet time in between.
    Settled,
    /// Read twice, and the events would not end.
    Storm,
}

impl Publication {
    /// A stable word in snake_case.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Atomic => "atomic",
            Self::Settled => "settled",
            Self::Storm => "storm",
        }
    }
}

/// Whether events had announced a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announcement {
    /// They had, or could not be expected to.
    Announced,
    /// Only the timer or a retry found it although events should have told: a rotation that was nearly missed.
    Missed,
}

/// A change that is to be published now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The digest that was read.
    pub digest: Digest,
    /// What made the watcher notice.
    pub trigger: Trigger,
    /// When.
    pub noticed: Instant,
    /// Why it needs no more waiting.
    pub publication: Publication,
    /// Whether events had announced it.
    pub announcement: Announcement,
}

/// Whether events could be relied on up to a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    /// A change would have been an event.
    Clear,
    /// It might not have been.
    Blind,
}

/// When a decision is to be looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// Not by itself.
    Never,
    /// At this time.
    At(Instant),
    /// As failures are; their repair is an event.
    Backoff,
    /// As failures are, whether or not events come.
    BackoffAlways,
}

/// What is known of the set between passes.
#[derive(Debug)]
pub(super) struct Settling {
    settle: Duration,
    storm: Duration,
    served: Option<Digest>,
    swap: Swap,
    candidate: Option<Candidate>,
    /// Since when there is something valid that is not served.
    unsettled_since: Option<Instant>,
    last_event: Option<Instant>,
    quiet: Quiet,
    /// The same of the files that the last pass found.
    quiet_files: Quiet,
    last_reading: Option<Reading>,
    /// What the last pass read: nothing, or this.
    last_digest: Option<Digest>,
    cause: (Cause, Sight),
    origin: Option<(Cause, Sight)>,
    pending: Option<Pending>,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    digest: Digest,
    first_seen: Instant,
}

/// What is to be published if the queue brings nothing against it.
#[derive(Clone, Copy, Debug)]
struct Pending {
    digest: Digest,
    verdict: Verdict,
    publication: Publication,
}

/// Whether something happened since the last pass began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quiet {
    Undisturbed,
    Disturbed,
}

impl Settling {
    pub(super) fn new(settle: Duration, storm: Duration, now: Instant) -> Self {
        Self {
            settle,
            storm,
            served: None,
            swap: Swap::default(),
            candidate: None,
            unsettled_since: None,
            last_event: None,
            quiet: Quiet::Undisturbed,
            quiet_files: Quiet::Undisturbed,
            last_reading: None,
            last_digest: None,
            cause: (Cause { trigger: Trigger::Start, since: now }, Sight::Clear),
            origin: None,
            pending: None,
        }
    }

    pub(super) fn on_event(&mut self, now: Instant) {
        // What begins after a silence is not the end of what was noticed before it, such as a pair that can't be served
        // and is repaired an hour later.
        let breaks_silence = self.last_event.is_none_or(|last| now >= last + self.storm * 2);
        if breaks_silence && self.pending.is_none() {
            self.origin = None;
        }
        self.last_event = Some(now);
        self.quiet = Quiet::Disturbed;
        // The timer looked between the change and the news of it: the news counts.
        if let Some((cause, _)) = &mut self.origin
            && matches!(cause.trigger, Trigger::Retry | Trigger::Timer)
        {
            cause.trigger = Trigger::Event;
        }
    }

    /// An event told how a name came into a directory.
    pub(super) fn on_arrival(&mut self, directory: Identity, name: &[u8], arrival: Arrival) {
        self.swap.arrivals.on_arrival(directory, name, arrival);
    }

    /// An event was about a file that the last pass found.
    pub(super) fn on_file_changed(&mut self) {
        self.quiet_files = Quiet::Disturbed;
    }

    /// Events were lost.
    pub(super) fn on_loss(&mut self) {
        self.swap.arrivals.on_loss();
    }

    /// A pass walked these chains.
    pub(super) fn on_walk(&mut self, chains: Vec<Chain>, cause: Cause, sight: Sight) {
        self.swap.on_walk(chains);
        let sight = if self.last_reading == Some(Reading::Failed) { Sight::Blind } else { sight };
        self.cause = (cause, sight);
        self.quiet = Quiet::Undisturbed;
        self.quiet_files = Quiet::Undisturbed;
        self.pending = None;
    }

    pub(super) fn on_reading(&mut self, reading: Reading, now: Instant) -> (Decision, Again) {
        self.last_reading = Some(reading);
        let Reading::Content { digest, verdict, age } = reading else {
            self.remember(None);
            let again = match reading {
                Reading::Moving | Reading::Failed => Again::BackoffAlways,
                Reading::Unresolved | Reading::Unreadable | Reading::Content { .. } => Again::Backoff,
            };
            let decision = if reading == Reading::Moving { Decision::Wait } else { Decision::Keep };
            return (self.refuse(decision), again);
        };
        if self.served == Some(digest) {
            self.rest();
            return (Decision::Unchanged, Again::Never);
        }
        self.remember(Some(digest));
        if verdict == Verdict::Invalid {
            return (self.refuse(Decision::Keep), Again::Backoff);
        }
        match self.publication(digest, verdict, age, now) {
            Ok(publication) => {
                self.pending = Some(Pending { digest, verdict, publication });
                // Until it is confirmed it stays due, in case the queue could not be read to its end.
                (Decision::Commit, Again::At(now))
            }
            Err(at) => {
                self.swap.not_served();
                (Decision::Wait, Again::At(at))
            }
        }
    }

    /// Whether a valid content may be published now, or else when to look again.
    fn publication(
        &mut self,
        digest: Digest,
        verdict: Verdict,
        age: Duration,
        now: Instant,
    ) -> Result<Publication, Instant> {
        if self.served.is_none() && age >= OLD_ENOUGH {
            return Ok(Publication::Found);
        }
        if self.swap.may_be() {
            return Ok(Publication::Atomic);
        }
        self.settled(digest, verdict, now)
    }

    /// Whether it has been quiet for long enough, or else when to look again.
    fn settled(&mut self, digest: Digest, verdict: Verdict, now: Instant) -> Result<Publication, Instant> {
        let candidate = self
            .candidate
            .filter(|candidate| candidate.digest == digest)
            .unwrap_or(Candidate { digest, first_seen: now });
        self.candidate = Some(candidate);
        let unsettled_since = *self.unsettled_since.get_or_insert(now);
        let quiet_time = if verdict == Verdict::Doubtful { self.storm * 2 } else { self.settle };
        let first_seen = candidate.first_seen;
        let quiet_at = self.last_event.map_or(first_seen, |event| event.max(first_seen)) + quiet_time;
        let storm_at = (unsettled_since + self.storm * 2).max(first_seen + quiet_time);
        if now >= quiet_at {
            Ok(Publication::Settled)
        } else if now >= storm_at {
            Ok(Publication::Storm)
        } else {
            Err(quiet_at.min(storm_at))
        }
    }

    /// The drain after [`Decision::Commit`] is over: what to publish, or when to look again if no event does it.
    pub(super) fn confirm(&mut self, now: Instant) -> Result<Commit, Option<Instant>> {
        let Pending { digest, verdict, publication } = self.pending.take().ok_or(None)?;
        let is_fragile = matches!(publication, Publication::Found | Publication::Settled);
        if is_fragile && self.quiet == Quiet::Disturbed {
            return Err(None);
        }
        let is_whole = self.quiet_files == Quiet::Undisturbed && self.swap.is_certain();
        if publication == Publication::Atomic && !is_whole {
            let at = self.settled(digest, verdict, now).err().unwrap_or(now);
            self.swap.not_served();
            return Err(Some(at));
        }
        let (cause, sight) = self.origin.unwrap_or(self.cause);
        let is_missed = sight == Sight::Clear && matches!(cause.trigger, Trigger::Retry | Trigger::Timer);
        Ok(Commit {
            digest,
            trigger: cause.trigger,
            noticed: cause.since,
            publication,
            announcement: if is_missed { Announcement::Missed } else { Announcement::Announced },
        })
    }

    pub(super) fn on_committed(&mut self, digest: Digest) {
        self.served = Some(digest);
        self.rest();
    }

    /// What the last pass read is what is served.
    fn rest(&mut self) {
        self.swap.served();
        self.candidate = None;
        self.unsettled_since = None;
        self.origin = None;
        self.pending = None;
        self.last_digest = self.served;
    }

    /// Who first saw what is there now. Events may come many times while a writer works; the first one counts.
    fn remember(&mut self, digest: Option<Digest>) {
        let is_news = self.last_digest != digest;
        self.last_digest = digest;
        let is_announced = !matches!(self.cause.0.trigger, Trigger::Retry | Trigger::Timer);
        if self.origin.is_none() || (is_news && !is_announced) {
            self.origin = Some(self.cause);
        }
    }

    fn refuse(&mut self, decision: Decision) -> Decision {
        self.swap.not_served();
        self.candidate = None;
        decision
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::chain::{Found, Kind, LookUp, Place};

    const SETTLE: Duration = Duration::from_millis(50);
    const STORM: Duration = Duration::from_millis(500);
    const FRESH: Duration = Duration::ZERO;

    #[expect(clippy::disallowed_methods, reason = "an instant can't be had otherwise")]
    fn start() -> Instant {
        Instant::now()
    }

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn place(inode: u64) -> Place {
        Place { mount: 1, identity: Identity { device: 1, inode, born: (0, 0) } }
    }

    fn found(directory: u64, name: &str, inode: u64, kind: Kind) -> LookUp {
        let found = Found::Node { place: place(inode), kind, text: Vec::new() };
        LookUp { directory: place(directory), name: name.into(), found, changed: (0, 0) }
    }

    /// Two files in a directory that is found by one link.
    fn pair(directory: u64, files: [u64; 2]) -> Vec<Chain> {
        pair_by(found(1, "current", directory + 100, Kind::Link), directory, files)
    }

    /// Two files in a directory that is found by one look-up.
    fn pair_by(turn: LookUp, directory: u64, files: [u64; 2]) -> Vec<Chain> {
        let chain = |name, file| vec![turn.clone(), found(directory, name, file, Kind::File)];
        vec![chain("tls.crt", files[0]), chain("tls.key", files[1])]
    }

    /// The same without a link.
    fn bare_pair(directory: u64, files: [u64; 2]) -> Vec<Chain> {
        pair_by(found(1, "current", directory, Kind::Directory), directory, files)
    }

    fn content(letter: u8, verdict: Verdict, age: Duration) -> Reading {
        Reading::Content { digest: [letter; 32], verdict, age }
    }

    struct Set {
        settling: Settling,
        now: Instant,
    }

    impl Set {
        /// Serving `a`, found through directory 10.
        fn serving() -> Self {
            let now = start();
            let mut set = Self { settling: Settling::new(SETTLE, STORM, now), now };
            set.walk(pair(10, [11, 12]), Trigger::Start);
            assert_eq!(set.read(content(b'a', Verdict::Valid, ms(5000))), Decision::Commit);
            assert_eq!(set.settling.confirm(set.now).unwrap().publication, Publication::Found);
            set.settling.on_committed([b'a'; 32]);
            set
        }

        fn walk(&mut self, chains: Vec<Chain>, trigger: Trigger) {
            self.settling.on_walk(chains, Cause { trigger, since: self.now }, Sight::Clear);
        }

        fn read(&mut self, reading: Reading) -> Decision {
            self.settling.on_reading(reading, self.now).0
        }

        fn look(&mut self, chains: Vec<Chain>, letter: u8, trigger: Trigger) -> Decision {
            self.walk(chains, trigger);
            self.read(content(letter, Verdict::Valid, FRESH))
        }
    }

    #[test]
    fn a_change_is_atomic_only_through_one_look_up_to_unseen_files() {
        let rows = [
            ("another link, other files", pair(20, [21, 22]), Decision::Commit),
            ("the same link, other files", pair(10, [21, 22]), Decision::Wait),
            ("another link, a file that is served", pair(20, [21, 12]), Decision::Wait),
            ("nothing but the bytes", pair(10, [11, 12]), Decision::Wait),
        ];
        for (name, chains, decision) in rows {
            assert_eq!(Set::serving().look(chains, b'b', Trigger::Event), decision, "{name}");
        }
    }

    #[test]
    fn a_directory_is_taken_at_once_only_if_it_was_renamed() {
        let parent = place(1).identity;
        let rows: [(&[Arrival], &[Arrival], bool); 6] = [
            (&[Arrival::Moved], &[], true),
            (&[], &[Arrival::Moved], true),
            (&[], &[], false),
            (&[Arrival::Made], &[], false),
            (&[], &[Arrival::Made], false),
            (&[Arrival::Moved], &[Arrival::Made], false),
        ];
        for (before, after, is_taken) in rows {
            let mut set = Set::serving();
            for arrival in before {
                set.settling.on_arrival(parent, b"current", *arrival);
            }
            assert_eq!(set.look(bare_pair(20, [21, 22]), b'b', Trigger::Event), Decision::Commit);
            for arrival in after {
                set.settling.on_arrival(parent, b"current", *arrival);
            }
            let outcome = set.settling.confirm(set.now).map(|commit| commit.publication);
            let expected = if is_taken { Ok(Publication::Atomic) } else { Err(Some(set.now + SETTLE)) };
            assert_eq!(outcome, expected, "{before:?} {after:?}");
            if !is_taken {
                set.now += SETTLE;
                assert_eq!(set.look(bare_pair(20, [21, 22]), b'b', Trigger::Retry), Decision::Commit);
                assert_eq!(set.settling.confirm(set.now).unwrap().publication, Publication::Settled);
            }
        }
    }

    #[test]
    fn what_was_written_after_the_link_to_it_must_settle() {
        for (written, decision) in [(4, Decision::Commit), (5, Decision::Commit), (6, Decision::Wait)] {
            let mut chains = pair(20, [21, 22]);
            chains[0][0].changed = (5, 0);
            chains[1][0].changed = (5, 0);
            chains[0][1].changed = (written, 0);
            assert_eq!(Set::serving().look(chains, b'b', Trigger::Event), decision, "{written}");
        }
    }

    #[test]
    fn what_was_seen_unfinished_must_settle() {
        let rows = [
            ("incomplete", Reading::Unresolved),
            ("refused", content(b'x', Verdict::Invalid, FRESH)),
            ("moving", Reading::Moving),
        ];
        for (name, first) in rows {
            let mut set = Set::serving();
            set.walk(pair(20, [21, 22]), Trigger::Event);
            set.read(first);
            assert_eq!(set.look(pair(20, [21, 22]), b'b', Trigger::Event), Decision::Wait, "{name}");
            assert_eq!(
                set.look(pair(30, [31, 32]), b'c', Trigger::Event),
                Decision::Commit,
                "{name}, then another"
            );
        }
    }

    #[test]
    fn an_event_before_the_commit_makes_it_wait_unless_it_is_atomic_and_the_event_elsewhere() {
        let mut set = Set::serving();
        assert_eq!(set.look(pair(10, [11, 12]), b'b', Trigger::Event), Decision::Wait);
        set.now += SETTLE;
        assert_eq!(set.look(pair(10, [11, 12]), b'b', Trigger::Retry), Decision::Commit);
        set.settling.on_event(set.now);
        assert_eq!(set.settling.confirm(set.now), Err(None));

        assert_eq!(set.look(pair(20, [21, 22]), b'c', Trigger::Event), Decision::Commit);
        set.settling.on_event(set.now);
        assert_eq!(set.settling.confirm(set.now).unwrap().publication, Publication::Atomic);

        let mut set = Set::serving();
        assert_eq!(set.look(pair(20, [21, 22]), b'c', Trigger::Event), Decision::Commit);
        set.settling.on_event(set.now);
        set.settling.on_file_changed();
        assert_eq!(set.settling.confirm(set.now), Err(Some(set.now + SETTLE)));
    }

    #[test]
    fn a_commit_tells_who_noticed_first() {
        let mut set = Set::serving();
        let noticed = set.now;
        set.settling.on_event(set.now);
        assert_eq!(set.look(pair(10, [11, 12]), b'b', Trigger::Event), Decision::Wait);
        set.now += ms(10);
        set.settling.on_event(set.now);
        assert_eq!(set.look(pair(10, [11, 12]), b'c', Trigger::Event), Decision::Wait);
        set.now += ms(100);
        assert_eq!(set.look(pair(10, [11, 12]), b'c', Trigger::Retry), Decision::Commit);
        let commit = set.settling.confirm(set.now).unwrap();
        assert_eq!((commit.trigger, commit.noticed), (Trigger::Event, noticed));
        assert_eq!(commit.announcement, Announcement::Announced);
    }

    #[test]
    fn a_repair_is_noticed_when_it_comes_and_not_when_the_fault_did() {
        let mut set = Set::serving();
        set.settling.on_event(set.now);
        set.walk(pair(20, [21, 22]), Trigger::Event);
        assert_eq!(set.read(content(b'x', Verdict::Invalid, FRESH)), Decision::Keep);
        set.now += ms(3_600_000);
        set.settling.on_event(set.now);
        assert_eq!(set.look(pair(30, [31, 32]), b'b', Trigger::Event), Decision::Commit);
        assert_eq!(set.settling.confirm(set.now).unwrap().noticed, set.now);
    }

    #[test]
    fn the_timer_is_credited_only_with_what_no_event_tells() {
        for (is_told, announcement) in [(false, Announcement::Missed), (true, Announcement::Announced)] {
            let mut set = Set::serving();
            assert_eq!(set.look(pair(20, [21, 22]), b'b', Trigger::Timer), Decision::Commit);
            if is_told {
                set.settling.on_event(set.now);
            }
            assert_eq!(set.settling.confirm(set.now).unwrap().announcement, announcement);
        }
    }

    #[test]
    fn what_could_not_be_read_for_want_of_means_is_not_held_to_be_missed() {
        let mut set = Set::serving();
        set.walk(pair(20, [21, 22]), Trigger::Event);
        assert_eq!(set.read(Reading::Failed), Decision::Keep);
        set.now += ms(100);
        assert_eq!(set.look(pair(20, [21, 22]), b'b', Trigger::Retry), Decision::Wait);
        set.now += ms(100);
        assert_eq!(set.look(pair(20, [21, 22]), b'b', Trigger::Retry), Decision::Commit);
        assert_eq!(set.settling.confirm(set.now).unwrap().announcement, Announcement::Announced);
    }

    #[test]
    fn what_comes_back_to_what_is_served_is_no_change() {
        let mut set = Set::serving();
        set.walk(pair(10, [11, 12]), Trigger::Event);
        assert_eq!(set.read(Reading::Unresolved), Decision::Keep);
        assert_eq!(set.look(pair(20, [21, 22]), b'a', Trigger::Event), Decision::Unchanged);
        assert_eq!(set.settling.confirm(set.now), Err(None));
    }
}
