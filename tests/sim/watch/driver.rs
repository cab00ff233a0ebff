//! Plays the shell: delivers events, makes passes, reads files, serves from a toy store, moves the clock. What
//! must hold at every moment is asserted here.

use std::time::{Duration, Instant};

use tlsidecar::watch::{
    Announcement, Commit, Decision, Digest, Pass, Publication, Reading, Record, Relevance, Timing, Verdict,
    Watcher,
};

use super::change::{self, Change};
use super::queue::Entry;
use super::world::{Body, Node, World};

/// How entries of the queue reach the watcher. What comes of them must be the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    AsTheyCome,
    /// In another order within one drain.
    Shuffled,
    /// Only that something happened.
    Anonymous,
}

/// A small generator of lots, so that a seed tells the whole history.
pub(crate) struct Lots(pub u64);

impl Lots {
    pub(crate) fn draw(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut lot = self.0;
        lot = (lot ^ (lot >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        lot = (lot ^ (lot >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (lot ^ (lot >> 31)) % below
    }

    pub(crate) fn one_in(&mut self, chances: u64) -> bool {
        self.draw(chances) == 0
    }
}

pub(crate) struct Driver {
    pub(crate) world: World,
    pub(crate) watcher: Watcher,
    pub(crate) lots: Lots,
    delivery: Delivery,
    base: Instant,
    base_ms: u64,
    paths: [Vec<u8>; 2],
    served: Option<[Vec<u8>; 2]>,
    pub(crate) commits: Vec<Commit>,
    pub(crate) passes: usize,
    /// Drains that woke the watcher.
    pub(crate) wakes: usize,
    /// What the last pass could not find, as told to people.
    pub(crate) unresolved: Vec<String>,
    /// Passes in which certificate and key were of different generations.
    pub(crate) mismatches: usize,
}

/// Passes within one instant that can only be a spin.
const MAX_PASSES_AT_ONCE: usize = 40;

impl Driver {
    pub(crate) fn new(
        world: World,
        paths: [Vec<u8>; 2],
        interval: Option<Duration>,
        delivery: Delivery,
    ) -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "an instant can't be had otherwise; time is virtual from here on"
        )]
        let base = Instant::now() + Duration::from_secs(100_000);
        let watcher = Watcher::new(paths.to_vec(), Timing::new(interval, 1), base);
        Self {
            base_ms: world.now_ms,
            world,
            watcher,
            lots: Lots(1),
            delivery,
            base,
            paths,
            served: None,
            commits: Vec::new(),
            passes: 0,
            wakes: 0,
            unresolved: Vec::new(),
            mismatches: 0,
        }
    }

    pub(crate) fn now(&self) -> Instant {
        self.base + Duration::from_millis(self.world.now_ms - self.base_ms)
    }

    /// The complete generation that is served.
    pub(crate) fn served(&self) -> Option<u32> {
        self.served.as_ref().map(|[certificate, key]| generation(certificate, key).expect("a whole pair"))
    }

    /// The complete generation at the two paths.
    pub(crate) fn on_disk(&self) -> Option<u32> {
        generation(self.world.file(&self.paths[0])?, self.world.file(&self.paths[1])?)
    }

    pub(crate) fn apply(&mut self, change: &Change) {
        if let Change::Pause { ms } = change {
            self.advance(*ms);
        } else {
            self.world.apply(change);
        }
    }

    /// Lets time pass, turning whenever something is due.
    pub(crate) fn advance(&mut self, ms: u64) {
        let end_ms = self.world.now_ms + ms;
        self.turn();
        while let Some(due_ms) = self.due_ms().filter(|due_ms| *due_ms <= end_ms) {
            self.world.now_ms = due_ms.max(self.world.now_ms);
            self.turn();
        }
        self.world.now_ms = end_ms;
        self.turn();
    }

    fn due_ms(&self) -> Option<u64> {
        let wait = self.watcher.deadline()?.saturating_duration_since(self.base);
        Some(self.base_ms + u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap())
    }

    /// One turn of the loop, and as many more as are due without waiting.
    pub(crate) fn turn(&mut self) {
        for _ in 0..MAX_PASSES_AT_ONCE {
            self.deliver();
            if std::mem::take(&mut self.world.mounts_changed) {
                self.watcher.on_mounts_changed(self.now());
            }
            if !self.watcher.is_due(self.now()) {
                return;
            }
            self.look();
        }
        panic!("the watcher spins");
    }

    fn deliver(&mut self) {
        let mut entries = self.world.queue.take_all();
        match self.delivery {
            Delivery::AsTheyCome => {}
            Delivery::Anonymous => entries = entries.first().map(|_| Entry::Overflow).into_iter().collect(),
            Delivery::Shuffled => {
                for index in (1..entries.len()).rev() {
                    let other = usize::try_from(self.lots.draw(index as u64 + 1)).unwrap();
                    entries.swap(index, other);
                }
            }
        }
        let now = self.now();
        let mut woke = false;
        for entry in &entries {
            let record = match entry {
                Entry::Overflow => Record::Overflow,
                Entry::Event { watch, name, arrival } => {
                    Record::Event { watch: *watch, name, arrival: *arrival }
                }
            };
            woke |= self.watcher.on_record(record, now) == Relevance::Wakes;
        }
        self.wakes += usize::from(woke);
    }

    fn look(&mut self) {
        let now = self.now();
        let pass = self.watcher.pass(&mut self.world, now);
        self.passes += 1;
        self.unresolved =
            pass.targets.iter().filter_map(|it| it.as_ref().err()).map(ToString::to_string).collect();
        let (reading, pair) = self.read(&pass);
        let decision = self.watcher.on_read(reading, now);
        if decision == Decision::Commit {
            self.deliver();
            if let Some(commit) = self.watcher.confirm(now) {
                let [certificate, key] = pair.expect("what is committed was read");
                assert!(generation(&certificate, &key).is_some(), "half a pair would be served: {commit:?}");
                self.served = Some([certificate, key]);
                self.commits.push(commit);
                self.watcher.on_committed(commit.digest);
            }
        }
    }

    fn read(&mut self, pass: &Pass<Node>) -> (Reading, Option<[Vec<u8>; 2]>) {
        let [Ok(certificate), Ok(key)] = pass.targets.as_slice() else { return (Reading::Unresolved, None) };
        let nodes = [*certificate, *key];
        if nodes.iter().any(|node| !self.world.inodes[node.inode].readable) {
            return (Reading::Unreadable, None);
        }
        let versions = nodes.map(|node| self.world.inodes[node.inode].version);
        let pair = nodes.map(|node| {
            self.world.on_call();
            let Body::File(bytes) = &self.world.inodes[node.inode].body else {
                panic!("only files are read")
            };
            bytes.clone()
        });
        self.world.on_call();
        if versions != nodes.map(|node| self.world.inodes[node.inode].version) {
            return (Reading::Moving, None);
        }
        let changed_ms =
            nodes.map(|node| self.world.inodes[node.inode].changed_ms).into_iter().max().unwrap();
        let age = Duration::from_millis(self.world.now_ms - changed_ms);
        let verdict = self.verdict(&pair);
        (Reading::Content { digest: digest(&pair), verdict, age }, Some(pair))
    }

    fn verdict(&mut self, [certificate, key]: &[Vec<u8>; 2]) -> Verdict {
        let lines = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'\n').count();
        let (Some((leaf, _)), Some(key)) = (parse_certificate(certificate), parse_key(key)) else {
            return Verdict::Invalid;
        };
        if leaf != key {
            self.mismatches += 1;
            Verdict::Invalid
        } else if self.served.as_ref().is_some_and(|[served, _]| lines(served) > lines(certificate)) {
            Verdict::Doubtful
        } else {
            Verdict::Valid
        }
    }

    /// What is true whenever nothing is going on: the kernel holds the watches that the watcher knows of.
    pub(crate) fn assert_watches_exact(&self) {
        if self.world.has_queue {
            assert_eq!(
                self.world.queue.watch_count(),
                self.watcher.watch_count(),
                "watches held and known differ"
            );
        }
    }

    pub(crate) fn publications(&self) -> Vec<Publication> {
        self.commits.iter().map(|commit| commit.publication).collect()
    }

    pub(crate) fn missed(&self) -> usize {
        self.commits.iter().filter(|commit| commit.announcement == Announcement::Missed).count()
    }
}

/// A whole pair of one generation.
fn generation(certificate: &[u8], key: &[u8]) -> Option<u32> {
    let (leaf, authority) = parse_certificate(certificate)?;
    (authority == Some(leaf) && parse_key(key) == Some(leaf)).then_some(leaf)
}

/// Leaf and, if it is there, authority. As with PEM, the end of a line is a good place to end.
fn parse_certificate(bytes: &[u8]) -> Option<(u32, Option<u32>)> {
    let text = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
    let mut lines = text.split('\n');
    let leaf = lines.next()?.strip_prefix("leaf ")?.parse().ok()?;
    let authority = match lines.next() {
        None => None,
        Some(line) => Some(line.strip_prefix("authority ")?.parse().ok()?),
    };
    lines.next().is_none().then_some((leaf, authority))
}

fn parse_key(bytes: &[u8]) -> Option<u32> {
    std::str::from_utf8(bytes).ok()?.strip_prefix("key ")?.strip_suffix('\n')?.parse().ok()
}

fn digest(pair: &[Vec<u8>; 2]) -> Digest {
    let mut digest = [0; 32];
    for (half, bytes) in digest.chunks_exact_mut(16).zip(pair) {
        let start = 0xCBF2_9CE4_8422_2325_u64;
        let hash =
            bytes.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3));
        half[..8].copy_from_slice(&hash.to_le_bytes());
    }
    digest
}

/// The paths of a pair in a directory.
pub(crate) fn pair_in(directory: &str) -> [Vec<u8>; 2] {
    ["tls.crt", "tls.key"].map(|name| change::join(directory.as_bytes(), name))
}
