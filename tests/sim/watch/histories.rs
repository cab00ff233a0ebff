//! Random histories: writers of all sorts one after another, acting between and in the middle of the watcher's
//! calls. Whatever they did, what is on disk in the end is what is served, and never half of it before.
//!
//! A failure names its seed; `TLSIDECAR_SIM_SEED=... cargo test --test sim` tells that history alone.

use tlsidecar::watch::{Arrival, Mode, Record, Relevance, Trigger, WatchId};

use super::change::{self, Change, LinkOrder, Pace, join, path};
use super::driver::{Delivery, Driver, Lots, pair_in};
use super::world::{Last, World};

/// Of each sort of writers.
const HISTORIES: u64 = 2000;

/// After the last change nothing may take longer, with neither timer nor retries: the pause between two looks
/// that mounts cause, and what it takes to settle.
const QUIET_MS: u64 = 2000;

const DIRECTORY: &[u8] = b"/v/c";

/// Who writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writers {
    /// All sorts, in turn.
    Any,
    /// Nobody but a kubelet.
    Kubelet,
}

struct History {
    driver: Driver,
    generation: u32,
    writers: Writers,
    signals: usize,
}

impl History {
    fn new(seed: u64, writers: Writers) -> Self {
        let mut lots = Lots(seed);
        let mut world = World::new();
        world.is_held = lots.one_in(4);
        world.is_forgetful = lots.one_in(4);
        world.queue.max_entries =
            if lots.one_in(5) { 3 + usize::try_from(lots.draw(10)).unwrap() } else { 16_384 };
        let delivery = match lots.draw(3) {
            0 => Delivery::Shuffled,
            1 if writers == Writers::Any => Delivery::Anonymous,
            _ => Delivery::AsTheyCome,
        };
        let start = if lots.one_in(5) { Vec::new() } else { change::make_path(DIRECTORY) };
        start.iter().for_each(|change| world.apply(change));
        let mut driver = Driver::new(world, pair_in("/v/c"), None, delivery);
        driver.lots = lots;
        Self { driver, generation: 0, writers, signals: 0 }
    }

    /// A writer's work from the first call to the last.
    fn work(&mut self) -> Vec<Change> {
        self.generation += 1;
        let generation = self.generation;
        let pace = Pace { ms: [0, 0, 1, 5, 20][usize::try_from(self.driver.lots.draw(5)).unwrap()] };
        if self.writers == Writers::Kubelet {
            return self.swap(generation);
        }
        match self.driver.lots.draw(18) {
            0 | 1 => self.put(DIRECTORY, generation, pace),
            2 => change::put_by_rename(DIRECTORY, generation, pace),
            3 | 4 => self.swap(generation),
            5 => {
                after([remove("/v/c/tls.crt"), remove("/v/c/tls.key")], self.put(DIRECTORY, generation, pace))
            }
            6 => self.replace_directory(generation, pace),
            7 => self.exchange_directory(generation),
            8 => after([remove("/v")], self.put_anew(generation, pace)),
            9 => after([rename("/v", "/old")], after_all(self.put_anew(generation, pace), [remove("/old")])),
            10 => release(generation),
            11 => archive(generation, pace),
            12 => after(
                [remove("/v/c/tls.crt"), remove("/v/c/tls.key")],
                change::put_unnamed(DIRECTORY, generation, self.order()),
            ),
            13 => self.behind_closed_doors(generation, pace),
            14 => self.mount(generation, pace),
            15 => self.hard_links(generation, pace),
            16 => change::put_and_hold(DIRECTORY, generation),
            _ => self.nothing_new(),
        }
    }

    /// In place. The leaf alone is taken for what it seems if nothing better is known, so that the first comes last.
    fn put(&mut self, directory: &[u8], generation: u32, pace: Pace) -> Vec<Change> {
        if self.driver.served().is_some() && self.driver.lots.one_in(2) {
            change::put_key_first(directory, generation, pace)
        } else {
            change::put(directory, generation, pace)
        }
    }

    fn put_anew(&mut self, generation: u32, pace: Pace) -> Vec<Change> {
        after(change::make_path(DIRECTORY), self.put(DIRECTORY, generation, pace))
    }

    fn order(&mut self) -> LinkOrder {
        if self.driver.lots.one_in(2) { LinkOrder::After } else { LinkOrder::Before }
    }

    fn has(&self, at: &str) -> bool {
        self.driver.world.locate(at.as_bytes(), Last::Keep).is_ok_and(|located| located.node.is_some())
    }

    /// A volume that was something else before is cleared first, as drivers do.
    fn swap(&mut self, generation: u32) -> Vec<Change> {
        let mut changes = change::make_path(DIRECTORY);
        if !self.has("/v/c/..data") {
            changes.extend([remove("/v/c/tls.crt"), remove("/v/c/tls.key")]);
        }
        let order = self.order();
        changes.extend(change::swap(DIRECTORY, generation, order));
        let old = format!("/v/c/..dated_{}", generation - 1);
        changes.extend((!self.driver.lots.one_in(3)).then(|| remove(&old)));
        changes
    }

    fn replace_directory(&mut self, generation: u32, pace: Pace) -> Vec<Change> {
        let mut changes = change::make_path(b"/v/n");
        changes.extend(self.put(b"/v/n", generation, pace));
        changes.extend([rename("/v/c", "/v/o"), rename("/v/n", "/v/c")]);
        if self.driver.lots.one_in(2) {
            changes.extend(change::put(b"/v/o", 9999, pace));
        }
        changes.push(remove("/v/o"));
        changes
    }

    fn exchange_directory(&mut self, generation: u32) -> Vec<Change> {
        let mut changes = change::make_path(b"/v/n");
        changes.extend(change::put(b"/v/n", generation, Pace { ms: 0 }));
        changes.push(Change::Exchange { left: path("/v/c"), right: path("/v/n") });
        if self.driver.lots.one_in(2) {
            changes.push(remove("/v/n"));
        }
        changes
    }

    /// Written while the watcher may not look, or not watch.
    fn behind_closed_doors(&mut self, generation: u32, pace: Pace) -> Vec<Change> {
        let at = ["/v", "/v/c", "/v/c/tls.key"][usize::try_from(self.driver.lots.draw(3)).unwrap()];
        let search = self.driver.lots.one_in(2);
        let allow = |read, search| Change::Allow { path: path(at), read, search };
        after_all(after([allow(false, search)], self.put(DIRECTORY, generation, pace)), [allow(true, true)])
    }

    fn mount(&mut self, generation: u32, pace: Pace) -> Vec<Change> {
        let point = path("/v/c");
        let mut changes = match self.driver.lots.draw(3) {
            0 => vec![Change::Unmount(point)],
            1 => vec![Change::Mount { path: point, device: 2 }],
            _ => after(change::make_path(b"/h"), vec![Change::Bind { from: path("/h"), to: point }]),
        };
        changes.extend(self.put(DIRECTORY, generation, pace));
        changes
    }

    fn hard_links(&mut self, generation: u32, pace: Pace) -> Vec<Change> {
        let mut changes = change::make_path(b"/l");
        for name in ["tls.crt", "tls.key"] {
            changes.push(Change::HardLink { from: join(DIRECTORY, name), to: join(b"/l", name) });
        }
        changes.extend(self.put(b"/l", generation, pace));
        for name in ["tls.crt", "tls.key"] {
            changes.push(Change::Remove(join(DIRECTORY, name)));
            changes.push(Change::HardLink { from: join(b"/l", name), to: join(DIRECTORY, name) });
            changes.push(Change::Remove(join(b"/l", name)));
        }
        changes
    }

    fn nothing_new(&mut self) -> Vec<Change> {
        self.generation -= 1;
        let mut changes: Vec<_> = ["/v", "/v/c", "/v/c/tls.crt", "/v/c/tls.key"]
            .into_iter()
            .map(|at| Change::Touch(path(at)))
            .collect();
        changes.extend(change::noise(DIRECTORY, 5));
        changes.extend(change::noise(b"/", 2));
        changes
    }

    /// Lets a writer work, a few calls at a time between turns, in the middle of turns, or with none.
    fn play(&mut self, work: Vec<Change>) {
        let mut work = work.into_iter().peekable();
        while let Some(change) = work.next() {
            self.driver.apply(&change);
            match self.driver.lots.draw(10) {
                0..3 => self.driver.turn(),
                3 => {
                    let ms = self.driver.lots.draw(80);
                    self.driver.advance(ms);
                }
                4..7 => self.play_within_a_turn(&mut work),
                7 => self.bring_strange_news(),
                _ => {}
            }
        }
    }

    fn play_within_a_turn(&mut self, work: &mut std::iter::Peekable<std::vec::IntoIter<Change>>) {
        let count = 1 + self.driver.lots.draw(6);
        for _ in 0..count {
            if let Some(change) = work.next_if(|change| !matches!(change, Change::Pause { .. })) {
                self.driver.world.script.push(change);
            }
        }
        self.driver.world.calls_until_change = usize::try_from(self.driver.lots.draw(40)).unwrap();
        if self.writers == Writers::Kubelet || self.driver.lots.one_in(8) {
            let now = self.driver.now();
            self.driver.watcher.look_now(Trigger::Signal, now);
            self.signals += 1;
        }
        self.driver.turn();
        for change in std::mem::take(&mut self.driver.world.script) {
            self.driver.world.apply(&change);
        }
    }

    fn bring_strange_news(&mut self) {
        let now = self.driver.now();
        let watch = WatchId(1000 + i32::try_from(self.driver.lots.draw(i32::MAX as u64 - 1000)).unwrap());
        let record = Record::Event { watch, name: b"tls.crt", arrival: Arrival::Moved };
        assert_eq!(self.driver.watcher.on_record(record, now), Relevance::Ignored);
    }

    fn finish(&mut self) {
        self.driver.advance(QUIET_MS);
        if let Some(on_disk) = self.driver.on_disk() {
            assert_eq!(self.driver.served(), Some(on_disk), "what is on disk is served");
        }
        assert_eq!(self.driver.watcher.mode(), Mode::Events);
        assert_eq!(self.driver.missed(), 0, "nothing was found but by events");
        self.driver.assert_watches_exact();
        let Driver { passes, wakes, .. } = self.driver;
        assert!(passes <= 3 * wakes + self.signals + 3, "{passes} looks after {wakes} wakes");
        self.driver.advance(3_600_000);
        assert_eq!(self.driver.passes, passes, "no looks while nothing happens");
    }
}

fn release(generation: u32) -> Vec<Change> {
    let at = join(b"/r", &generation.to_string());
    let mut changes = change::make_path(&at);
    changes.extend(change::put(&at, generation, Pace { ms: 0 }));
    changes.extend(change::make_path(b"/v"));
    // A directory can't be replaced by a link at once; a link can.
    changes.push(rename("/v/c", "/v/o"));
    changes.extend(change::link_over(format!("../r/{generation}").as_bytes(), DIRECTORY));
    changes.push(remove("/v/o"));
    changes
}

fn archive(generation: u32, pace: Pace) -> Vec<Change> {
    let at = join(b"/a", &generation.to_string());
    let mut changes = change::make_path(&at);
    changes.extend(change::put(&at, generation, pace));
    for name in ["tls.key", "tls.crt"] {
        changes.push(Change::Remove(join(DIRECTORY, name)));
        changes.push(Change::Symlink { text: join(&at, name), path: join(DIRECTORY, name) });
    }
    changes
}

fn remove(at: &str) -> Change {
    Change::Remove(path(at))
}

fn rename(from: &str, to: &str) -> Change {
    Change::Rename { from: path(from), to: path(to) }
}

fn after(first: impl IntoIterator<Item = Change>, then: Vec<Change>) -> Vec<Change> {
    first.into_iter().chain(then).collect()
}

fn after_all(first: Vec<Change>, then: impl IntoIterator<Item = Change>) -> Vec<Change> {
    first.into_iter().chain(then).collect()
}

/// Tells one history; what it says is true of its end.
fn tell(seed: u64, writers: Writers) -> Driver {
    let mut history = History::new(seed, writers);
    let works = 1 + history.driver.lots.draw(6);
    for _ in 0..works {
        let work = history.work();
        history.play(work);
    }
    history.finish();
    history.driver
}

fn tell_all(writers: Writers, mut check: impl FnMut(&Driver)) {
    #[expect(clippy::disallowed_methods, reason = "a failed history is told again by its seed")]
    let only = std::env::var("TLSIDECAR_SIM_SEED").ok().map(|seed| seed.parse().expect("a seed is a number"));
    let seeds = only.map_or(0..HISTORIES, |seed: u64| seed..seed + 1);
    for seed in seeds {
        let driver = std::panic::catch_unwind(|| tell(seed, writers));
        check(&driver.unwrap_or_else(|_| panic!("{writers:?}: TLSIDECAR_SIM_SEED={seed}")));
    }
}

#[test]
fn every_history_ends_with_what_is_on_disk() {
    let (mut whole, mut all) = (0, 0);
    tell_all(Writers::Any, |driver| {
        all += 1;
        whole += usize::from(driver.on_disk().is_some());
    });
    assert!(whole * 10 >= all * 8, "only {whole} of {all} histories end with a pair");
}

#[test]
fn certificate_and_key_of_a_volume_are_never_of_two_generations() {
    let mut commits = 0;
    tell_all(Writers::Kubelet, |driver| {
        assert_eq!(driver.mismatches, 0);
        commits += driver.commits.len();
    });
    assert!(commits > 0);
}
