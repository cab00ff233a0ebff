//! Named stories: what a writer does, and what is served afterwards. Each is told with the timer and all retries
//! off, with turns after every change and only while waiting, and with events as they come, shuffled, and without
//! content.

use std::time::Duration;

use tlsidecar::watch::Mode;

use super::change::{self, Change, LinkOrder, Pace};
use super::driver::{Delivery, Driver, pair_in};
use super::world::{SILENT_DEVICE, World};

/// When the loop gets to turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turns {
    AfterEachChange,
    WhileWaiting,
}

/// `start` begins to watch the pair in `/v/c`, unless it names another directory or two files; `want N` waits until all has settled and expects generation N.
const STORIES: &[(&str, &str)] = &[
    (
        "a secret volume is swapped again and again",
        "mkdir /v/c; swap /v/c 1; start; want 1; swap /v/c 2; rm /v/c/..dated_1; want 2; swap /v/c 3; \
         rm /v/c/..dated_2; want 3; swap /v/c 4; rm /v/c/..dated_3; want 4",
    ),
    (
        "a volume whose links are made before the swap",
        "mkdir /v/c; start; swap-old /v/c 1; want 1; swap-old /v/c 2; rm /v/c/..dated_1; want 2; swap-old /v/c 3; want 3",
    ),
    (
        "an old generation that lingers and goes later",
        "mkdir /v/c; swap /v/c 1; start; want 1; swap /v/c 2; want 2; rm /v/c/..dated_1; want 2; swap /v/c 3; want 3",
    ),
    (
        "an optional secret that appears",
        "mkdir /v/c; start; want none; swap /v/c 1; want 1; swap /v/c 2; want 2",
    ),
    ("a directory that appears", "mkdir /v; start; want none; mkdir /v/c; put /v/c 1; want 1"),
    ("a whole path that appears", "start; want none; mkdir /v/c; put /v/c 1; want 1; put /v/c 2; want 2"),
    (
        "a generation without its key",
        "mkdir /v/c; swap /v/c 1; start; want 1; mkdir /v/c/..half; crt /v/c/..half/tls.crt 2; lnf ..half /v/c/..data; \
         want 1; swap /v/c 3; want 3",
    ),
    (
        "files replaced by rename",
        "mkdir /v/c; put /v/c 1; start; want 1; rename /v/c 2; want 2; rename /v/c 3; want 3",
    ),
    (
        "a long gap between two renames",
        "mkdir /v/c /n; put /v/c 1; start; put /n 2; mv /n/tls.key /v/c/tls.key; wait 700; want 1; \
         mv /n/tls.crt /v/c/tls.crt; want 2",
    ),
    (
        "files written in place",
        "mkdir /v/c; put /v/c 1; start; want 1; put /v/c 2; want 2; put /v/c 3; want 3",
    ),
    ("a slow writer in place", "mkdir /v/c; put /v/c 1; start; want 1; slow /v/c 2; want 2; commits 2"),
    (
        "files removed, then made again",
        "mkdir /v/c; put /v/c 1; start; want 1; rm /v/c/tls.crt /v/c/tls.key; wait 200; want 1; put /v/c 2; want 2",
    ),
    (
        "files linked over the old ones",
        "mkdir /v/c /n; put /v/c 1; start; want 1; put /n 2; rm /v/c/tls.crt; hard /n/tls.crt /v/c/tls.crt; \
         rm /v/c/tls.key; hard /n/tls.key /v/c/tls.key; want 2; put /n 3; want 3",
    ),
    (
        "links into an archive, unlinked and made again",
        "mkdir /v/c /a; put-as /a 1 1; ln ../../a/tls1.crt /v/c/tls.crt; ln ../../a/tls1.key /v/c/tls.key; start; want 1; \
         put-as /a 2 2; rm /v/c/tls.key; ln ../../a/tls2.key /v/c/tls.key; rm /v/c/tls.crt; \
         ln ../../a/tls2.crt /v/c/tls.crt; want 2; put-as /a 2 3; want 3",
    ),
    (
        "a link to the current release",
        "mkdir /v/rel/1 /v/rel/2; put /v/rel/1 1; put /v/rel/2 2; ln rel/1 /v/c; start; want 1; lnf rel/2 /v/c; want 2; \
         put /v/rel/2 3; want 3; lnf rel/1 /v/c; want 1",
    ),
    (
        "a link to the current release, unlinked and made again",
        "mkdir /v/rel/1 /v/rel/2; put /v/rel/1 1; put /v/rel/2 2; ln rel/1 /v/c; start; want 1; rm /v/c; ln rel/2 /v/c; \
         want 2",
    ),
    (
        "the directory replaced by another",
        "mkdir /v/c /v/n; put /v/c 1; put /v/n 2; start; want 1; mv /v/c /v/o; mv /v/n /v/c; want 2; put /v/c 3; want 3; \
         put /v/o 9; want 3",
    ),
    (
        "the directory exchanged with another",
        "mkdir /v/c /v/n; put /v/c 1; put /v/n 2; start; want 1; xchg /v/c /v/n; want 2; put /v/n 8; want 2; put /v/c 3; \
         want 3",
    ),
    (
        "an ancestor moved away and built anew",
        "mkdir /v/c; put /v/c 1; start; want 1; mv /v /old; mkdir /v/c; put /v/c 2; want 2; put /v/c 3; put /old/c 9; want 3",
    ),
    (
        "an ancestor removed and built anew",
        "mkdir /v/c; put /v/c 1; start; want 1; rm /v; want 1; mkdir /v/c; put /v/c 2; want 2",
    ),
    (
        "the directory becomes a link to nowhere that comes into being",
        "mkdir /v/c; put /v/c 1; start; want 1; rm /v/c; ln nowhere /v/c; want 1; mkdir /v/nowhere; put /v/nowhere 2; want 2",
    ),
    (
        "a circle of links that is broken",
        "mkdir /v/c; put /v/c 1; start; want 1; rm /v/c; ln c2 /v/c; ln c /v/c2; want 1; rm /v/c2; mkdir /v/c2; put /v/c2 2; \
         want 2",
    ),
    (
        "files made without a name",
        "mkdir /v/c; put /v/c 1; start; want 1; rm /v/c/tls.crt /v/c/tls.key; unnamed-late /v/c 2; want 2; \
         rm /v/c/tls.crt /v/c/tls.key; unnamed-early /v/c 3; want 3",
    ),
    ("a writer that does not close", "mkdir /v/c; put /v/c 1; start; want 1; hold /v/c 2; want 2"),
    (
        "single files mounted over, written at their source",
        "mkdir /v/c /h; put /v/c 1; put /h 2; start; want 1; bind /h/tls.crt /v/c/tls.crt; bind /h/tls.key /v/c/tls.key; \
         wait 2500; want 2; put /h 3; want 3",
    ),
    (
        "a file system mounted over the directory and taken away",
        "mkdir /v/c; put /v/c 1; start; want 1; mount /v/c; put /v/c 2; wait 1500; want 2; put /v/c 3; want 3; umount /v/c; \
         wait 1500; want 1",
    ),
    (
        "many events about other names",
        "mkdir /v/c; put /v/c 1; start; want 1; noise /v/c 3000; put /v/c 2; want 2",
    ),
    (
        "touched without a change",
        "mkdir /v/c; put /v/c 1; start; want 1; touch /v/c/tls.crt /v/c/tls.key /v/c; wait 20; touch /v/c/tls.crt; want 1; \
         commits 1; put /v/c 1; want 1; commits 1; put /v/c 2; want 2",
    ),
    (
        "rolled back",
        "mkdir /v/c; swap /v/c 1; start; want 1; swap /v/c 2; want 2; lnf ..dated_1 /v/c/..data; want 1; \
         lnf ..dated_2 /v/c/..data; want 2",
    ),
    (
        "the same content in a new generation",
        "mkdir /v/c; swap /v/c 1; start; want 1; mkdir /v/c/..again; put /v/c/..again 1; lnf ..again /v/c/..data; want 1; \
         commits 1; swap /v/c 2; want 2",
    ),
    (
        "the certificate becomes a pipe, then a directory, then a file",
        "mkdir /v/c; put /v/c 1; start; want 1; rm /v/c/tls.crt; fifo /v/c/tls.crt; want 1; rm /v/c/tls.crt; \
         mkdir /v/c/tls.crt; want 1; rm /v/c/tls.crt; put /v/c 2; want 2",
    ),
    (
        "certificate and key in different places",
        "mkdir /v/c /v/k /v/k2; put /v/c 1; rm /v/c/tls.key; key /v/k/tls.key 1; ln ../kk/tls.key /v/c/tls.key; ln k /v/kk; \
         start; want 1; key /v/k2/tls.key 2; lnf k2 /v/kk; wait 300; crt /v/c/tls.crt 2; want 2",
    ),
    (
        "a queue too small for what happens",
        "limit 4; mkdir /v/c; put /v/c 1; start; want 1; noise /v 30; rm /v/c; mkdir /v/c; put /v/c 2; want 2; noise /v/c 30; \
         rename /v/c 3; want 3; rm /v; noise / 30; mkdir /v/c; swap /v/c 4; want 4",
    ),
    (
        "an ancestor that may not be watched",
        "mkdir /v/c; put /v/c 1; lock /v; start; want 1; mode polling; put /v/c 2; want 2; mv /v/c /v/o; mkdir /v/c; \
         put /v/c 3; want 3; free /v; want 3; mode events; put /v/c 4; want 4",
    ),
    (
        "a link in a directory that may not be watched",
        "mkdir /v/c /v/d; put /v/c 1; ln c /v/l; put /v/d 2; lock /v; start /v/l; want 1; lnf d /v/l; want 2",
    ),
    (
        "rights taken away and given back",
        "mkdir /v/c; swap /v/c 1; start; want 1; swap /v/c 2; want 2; lock /v/c/tls.crt; want 2; seal /v/c; want 2; \
         free /v/c; free /v/c/tls.crt; want 2; commits 2; swap /v/c 3; want 3",
    ),
    (
        "a generation published before its files may be read",
        "mkdir /v/c; swap /v/c 1; start; want 1; mkdir /v/c/..new; put /v/c/..new 2; lock /v/c/..new/tls.key; \
         lnf ..new /v/c/..data; want 1; free /v/c/..new/tls.key; want 2",
    ),
    (
        "no more watches, then enough",
        "watches 3; mkdir /v/c; put /v/c 1; start; want 1; mode polling; watches 100; wait 6000; mode events; put /v/c 2; want 2",
    ),
    (
        "no queue, then one",
        "queue off; mkdir /v/c; put /v/c 1; start; want 1; mode polling; put /v/c 2; wait 6000; want 2; missed 0; queue on; \
         wait 66000; mode events; put /v/c 3; want 3",
    ),
    (
        "a queue that breaks",
        "mkdir /v/c; put /v/c 1; start; want 1; break; put /v/c 2; wait 6000; want 2; wait 66000; mode events; put /v/c 3; want 3",
    ),
    (
        "a file system that others change unseen",
        "mkdir /v/c; silent /v/c; put /v/c 1; start; want 1; mode polling; put /v/c 2; wait 6000; want 2; missed 0",
    ),
    (
        "a link that only the kernel can follow",
        "mkdir /c /x/c /y/c /p; put /c 9; put /x/c 1; put /y/c 5; silent /p; magic /x /p/root; start /p/root/c; want 1; \
         mode polling; rename /x/c 2; want 2; swap /x/c/d 3; rm /x/c; ln c2 /x/c; mkdir /x/c2; put /x/c2 3; want 3; \
         magic /y /p/root; wait 6000; want 5; put /y/c 6; want 6",
    ),
    (
        "a descriptor of a file whose name is another's now",
        "mkdir /v/c /p; put /v/c 1; silent /p; magic /v/c/tls.crt /p/3; magic /v/c/tls.key /p/4; start /p/3 /p/4; want 1; \
         rename /v/c 2; want 1; fifo /v/f; magic /v/f /p/3; wait 6000; want 1; magic /v/c/tls.crt /p/3; \
         magic /v/c/tls.key /p/4; wait 6000; want 2",
    ),
    (
        "no descriptors, then enough",
        "mkdir /v/c; put /v/c 1; start; want 1; descriptors none; put /v/c 2; want 1; mode polling; descriptors enough; \
         wait 6000; want 2; missed 0; mode events; put /v/c 3; want 3",
    ),
    (
        "a key that does not match, repaired",
        "mkdir /v/c; put /v/c 1; start; want 1; key /v/c/tls.key 7; wait 20000; want 1; crt /v/c/tls.crt 7; want 7",
    ),
    (
        "links above links, up and down",
        "mkdir /v/x/y /w/z /w/q; put /w/z 1; put /w/q 2; ln ../../w/now /v/x/l; ln z /w/now; ln x/y/../l /v/c; start; want 1; \
         lnf q /w/now; want 2; lnf ../../w/z /v/x/l; want 1; lnf /w/q /v/c; want 2",
    ),
    (
        "names that are no text",
        "mkdir /v/c /v/\u{ff}a /v/\u{fe}b; put /v/\u{ff}a 1; put /v/\u{fe}b 2; rm /v/c; ln \u{ff}a /v/c; start; want 1; \
         lnf \u{fe}b /v/c; want 2; put /v/\u{fe}b 3; want 3",
    ),
    (
        "inodes that outlive their names",
        "held; mkdir /v/c; swap /v/c 1; start; want 1; swap /v/c 2; rm /v/c/..dated_1; want 2; rm /v; mkdir /v/c; swap /v/c 3; \
         want 3; rename /v/c 4; want 4",
    ),
    (
        "inode numbers given out again",
        "forgetful; mkdir /v/c; put /v/c 1; start; want 1; rm /v/c/tls.crt /v/c/tls.key; put /v/c 2; want 2; rename /v/c 3; \
         want 3; rm /v/c; mkdir /v/c; swap /v/c 4; want 4; swap /v/c 5; rm /v/c/..dated_4; want 5; swap /v/c 6; want 6",
    ),
    (
        "a link published before its content is copied",
        "mkdir /v/c; swap /v/c 1; start; want 1; mkdir /v/c/..late; lnf ..late /v/c/..data; wait 5; slowly 40 /v/c/..late 2; \
         want 2; commits 2",
    ),
    (
        "an authority appended late by another open",
        "mkdir /v/c; put /v/c 1; start; want 1; key /v/c/tls.key 2; leaf /v/c/tls.crt 2; wait 400; crt /v/c/tls.crt 2; want 2; \
         commits 2",
    ),
    (
        "a directory made anew and an authority appended late",
        "mkdir /v/c; put /v/c 1; start; want 1; rm /v/c; mkdir /v/c; key /v/c/tls.key 2; leaf /v/c/tls.crt 2; wait 30; \
         crt /v/c/tls.crt 2; want 2; commits 2; mv /v/c /v/o; mkdir /v/c; key /v/c/tls.key 3; leaf /v/c/tls.crt 3; wait 30; \
         crt /v/c/tls.crt 3; want 3; commits 3; rm /v; mkdir /v/c; key /v/c/tls.key 4; leaf /v/c/tls.crt 4; wait 30; \
         crt /v/c/tls.crt 4; want 4; commits 4",
    ),
    (
        "a directory renamed and made before anybody looks",
        "mkdir /v/c /n; put /v/c 1; put /n 2; start; want 1; mv /v/c /v/o; mv /n /v/c; mv /v/c /n; mkdir /v/c; \
         key /v/c/tls.key 3; leaf /v/c/tls.crt 3; wait 30; crt /v/c/tls.crt 3; want 3",
    ),
    (
        "a file system mounted and an authority appended late",
        "mkdir /v/c; put /v/c 1; start; want 1; mount /v/c; key /v/c/tls.key 2; leaf /v/c/tls.crt 2; wait 30; \
         crt /v/c/tls.crt 2; wait 1500; want 2; commits 2",
    ),
    (
        "a link to a directory that is filled while nobody gets to look",
        "mkdir /v/1; put /v/1 1; ln 1 /v/c; start; want 1; mkdir /v/2; lnf 2 /v/c; asleep 4; key /v/2/tls.key 2; \
         leaf /v/2/tls.crt 2; wait 30; crt /v/2/tls.crt 2; want 2; commits 2",
    ),
    (
        "a directory of look-ups that also holds a file",
        "mkdir /v/c/sub; put /v/c 1; put /v/c/sub 1; start /v/c/sub/tls.crt /v/c/tls.key; want 1; put /v/c 2; want 1; \
         put /v/c/sub 2; want 2",
    ),
    (
        "one directory mounted twice, with something mounted in one of them",
        "mkdir /m/sub /n; bind /m /n; put /m/sub 1; mount /m/sub; put /m/sub 1; start /m/sub/tls.crt /n/sub/tls.key; want 1; mode events; \
         put /m/sub 2; want 1; put /n/sub 2; want 2",
    ),
];

/// A byte a letter, so that stories can name what is no text.
fn bytes(text: &str) -> Vec<u8> {
    text.chars().map(|letter| u8::try_from(u32::from(letter)).unwrap()).collect()
}

pub(crate) struct Teller {
    world: Option<World>,
    driver: Option<Driver>,
    pub(crate) turns: Turns,
    delivery: Delivery,
    pub(crate) interval: Option<Duration>,
}

/// Long enough for anything to settle without retries: twice the settling time and the longest storm.
const SETTLED_MS: u64 = 1200;

impl Teller {
    pub(crate) fn new(turns: Turns, delivery: Delivery) -> Self {
        Self { world: Some(World::new()), driver: None, turns, delivery, interval: None }
    }

    pub(crate) fn tell(&mut self, story: &str) {
        for line in story.split(';') {
            let words: Vec<_> = line.split_whitespace().collect();
            self.tell_line(words[0], &words[1..]);
        }
    }

    fn world(&mut self) -> &mut World {
        match &mut self.driver {
            Some(driver) => &mut driver.world,
            None => self.world.as_mut().unwrap(),
        }
    }

    pub(crate) fn driver(&mut self) -> &mut Driver {
        self.driver.as_mut().expect("the story has started")
    }

    fn start(&mut self, paths: [Vec<u8>; 2]) {
        let mut world = self.world.take().unwrap();
        world.now_ms += 5000;
        self.driver = Some(Driver::new(world, paths, self.interval, self.delivery));
        self.driver().turn();
    }

    fn tell_line(&mut self, verb: &str, words: &[&str]) {
        match (verb, words) {
            ("start", []) => self.start(pair_in("/v/c")),
            ("start", [directory]) => self.start(pair_in(directory)),
            ("start", [certificate, key]) => self.start([bytes(certificate), bytes(key)]),
            ("wait", [ms]) => self.driver().advance(ms.parse().unwrap()),
            // The loop gets no time.
            ("asleep", [ms]) => self.world().now_ms += ms.parse::<u64>().unwrap(),
            ("limit", [count]) => self.world().queue.max_entries = count.parse().unwrap(),
            ("watches", [count]) => self.world().queue.max_watches = count.parse().unwrap(),
            ("queue", [state]) => self.world().grants_queue = *state == "on",
            ("descriptors", [state]) => self.world().is_exhausted = *state == "none",
            ("held", []) => self.world().is_held = true,
            ("forgetful", []) => self.world().is_forgetful = true,
            ("break", []) => {
                self.world().queue.forget_all();
                self.world().has_queue = false;
                let now = self.driver().now();
                self.driver().watcher.on_queue_lost(now);
            }
            ("want" | "commits" | "missed" | "mode", [wanted]) => self.check(verb, wanted),
            _ => {
                for change in changes(verb, words) {
                    self.apply(&change);
                }
            }
        }
    }

    fn check(&mut self, verb: &str, wanted: &str) {
        let driver = self.driver();
        match verb {
            "want" => {
                driver.advance(SETTLED_MS);
                assert_eq!(driver.served(), wanted.parse().ok(), "served");
                driver.assert_watches_exact();
            }
            "commits" => assert_eq!(driver.commits.len(), wanted.parse::<usize>().unwrap(), "commits"),
            "missed" => assert_eq!(driver.missed(), wanted.parse::<usize>().unwrap(), "missed"),
            _ => {
                let mode = if wanted == "polling" { Mode::Polling } else { Mode::Events };
                assert_eq!(driver.watcher.mode(), mode, "{:?}", driver.watcher.reasons().collect::<Vec<_>>());
            }
        }
    }

    pub(crate) fn apply(&mut self, change: &Change) {
        let Some(driver) = &mut self.driver else {
            self.world().apply(change);
            return;
        };
        driver.apply(change);
        if self.turns == Turns::AfterEachChange {
            driver.advance(1);
        }
    }
}

fn changes(verb: &str, words: &[&str]) -> Vec<Change> {
    let at_once = Pace { ms: 0 };
    let each = |make: fn(Vec<u8>) -> Change| words.iter().map(|word| make(bytes(word))).collect();
    match (verb, words) {
        ("mkdir", _) => words.iter().flat_map(|word| change::make_path(&bytes(word))).collect(),
        ("rm", _) => each(Change::Remove),
        ("touch", _) => each(Change::Touch),
        ("fifo", _) => each(Change::MakeFifo),
        ("umount", _) => each(Change::Unmount),
        ("mount", [at]) => vec![Change::Mount { path: bytes(at), device: 2 }],
        ("silent", [at]) => vec![Change::Mount { path: bytes(at), device: SILENT_DEVICE }],
        ("lock", [at]) => vec![Change::Allow { path: bytes(at), read: false, search: true }],
        ("seal", [at]) => vec![Change::Allow { path: bytes(at), read: true, search: false }],
        ("free", [at]) => vec![Change::Allow { path: bytes(at), read: true, search: true }],
        ("mv", [from, to]) => vec![Change::Rename { from: bytes(from), to: bytes(to) }],
        ("xchg", [left, right]) => vec![Change::Exchange { left: bytes(left), right: bytes(right) }],
        ("hard", [from, to]) => vec![Change::HardLink { from: bytes(from), to: bytes(to) }],
        ("bind", [from, to]) => vec![Change::Bind { from: bytes(from), to: bytes(to) }],
        ("magic", [to, at]) => vec![Change::MagicLink { to: bytes(to), path: bytes(at) }],
        ("ln", [text, at]) => vec![Change::Symlink { text: bytes(text), path: bytes(at) }],
        ("lnf", [text, at]) => change::link_over(&bytes(text), &bytes(at)),
        ("noise", [at, count]) => change::noise(&bytes(at), count.parse().unwrap()),
        ("crt", [at, number]) => {
            change::write(&bytes(at), &change::certificate(number.parse().unwrap()), at_once)
        }
        ("key", [at, number]) => change::write(&bytes(at), &change::key(number.parse().unwrap()), at_once),
        ("leaf", [at, number]) => change::write(&bytes(at), format!("leaf {number}\n").as_bytes(), at_once),
        ("put", [at, number]) => change::put(&bytes(at), number.parse().unwrap(), at_once),
        ("slow", [at, number]) => change::put(&bytes(at), number.parse().unwrap(), Pace { ms: 100 }),
        ("slowly", [ms, at, number]) => {
            change::put(&bytes(at), number.parse().unwrap(), Pace { ms: ms.parse().unwrap() })
        }
        ("rename", [at, number]) => change::put_by_rename(&bytes(at), number.parse().unwrap(), at_once),
        ("swap", [at, number]) => change::swap(&bytes(at), number.parse().unwrap(), LinkOrder::After),
        ("swap-old", [at, number]) => change::swap(&bytes(at), number.parse().unwrap(), LinkOrder::Before),
        ("put-as", [at, name, number]) => put_as(at, name, number.parse().unwrap()),
        ("hold", [at, number]) => change::put_and_hold(&bytes(at), number.parse().unwrap()),
        ("unnamed-late", [at, number]) => {
            change::put_unnamed(&bytes(at), number.parse().unwrap(), LinkOrder::After)
        }
        ("unnamed-early", [at, number]) => {
            change::put_unnamed(&bytes(at), number.parse().unwrap(), LinkOrder::Before)
        }
        ("store", [at, number]) => {
            let [certificate, key] = pair_in(at);
            let number = number.parse().unwrap();
            vec![
                Change::Store { path: certificate, bytes: change::certificate(number) },
                Change::Store { path: key, bytes: change::key(number) },
            ]
        }
        _ => panic!("no such verb: {verb} {words:?}"),
    }
}

fn put_as(directory: &str, name: &str, generation: u32) -> Vec<Change> {
    let at = |end: &str| change::join(&bytes(directory), &format!("tls{name}.{end}"));
    let mut changes = change::write(&at("crt"), &change::certificate(generation), Pace { ms: 0 });
    changes.extend(change::write(&at("key"), &change::key(generation), Pace { ms: 0 }));
    changes
}

#[test]
fn what_is_on_disk_is_served() {
    for (name, story) in STORIES {
        for turns in [Turns::AfterEachChange, Turns::WhileWaiting] {
            for delivery in [Delivery::AsTheyCome, Delivery::Shuffled, Delivery::Anonymous] {
                let told = std::panic::catch_unwind(|| Teller::new(turns, delivery).tell(story));
                assert!(told.is_ok(), "failed: {name}, {turns:?}, {delivery:?}");
            }
        }
    }
}
