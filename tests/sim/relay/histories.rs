//! Every history of a connection at small scope: scripts of a few bytes through buffers of two, in every order of
//! arrivals, wake-ups, drains and steps that the bound on preemptions allows.
//!
//! A scenario tells what both peers do and how the connection may end. What must have arrived is worked out from the
//! scripts alone.

use std::time::Instant;

use tlsidecar::relay::{Ending, Failure, Pool, Side, Transparent};

use super::world::{Dial, LIMITS, World, start};

/// What a peer does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Item {
    Bytes(&'static [u8]),
    Fin,
    Reset,
}
use Item::{Bytes, Fin, Reset};

#[derive(Debug, Clone, Copy)]
struct Scenario {
    name: &'static str,
    client: &'static [Item],
    upstream: &'static [Item],
    dial: [Dial; 2],
    /// How many bytes each socket queues before it blocks.
    client_capacity: usize,
    upstream_capacity: usize,
    /// Whether the upstream's socket takes no bytes, though its peer lives.
    refuses: bool,
    reasons: &'static [&'static str],
    preemptions: usize,
}

const USUAL: Scenario = Scenario {
    name: "",
    client: &[],
    upstream: &[],
    dial: [Dial::Accepts, Dial::Accepts],
    client_capacity: 3,
    upstream_capacity: 3,
    refuses: false,
    reasons: &["finished"],
    preemptions: 1,
};
const SLOW_DIAL: [Dial; 2] = [Dial::Waits, Dial::Accepts];

const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "request and reply",
        client: &[Bytes(b"H"), Bytes(b"ab"), Bytes(b"."), Fin],
        upstream: &[Bytes(b"xy"), Fin],
        ..USUAL
    },
    Scenario {
        name: "all in one segment",
        client: &[Bytes(b"Habc."), Fin],
        upstream: &[Bytes(b"xyz"), Fin],
        dial: SLOW_DIAL,
        preemptions: 2,
        ..USUAL
    },
    Scenario {
        name: "sockets of one byte",
        client: &[Bytes(b"Habc."), Fin],
        upstream: &[Bytes(b"xyz"), Fin],
        client_capacity: 1,
        upstream_capacity: 1,
        preemptions: 0,
        ..USUAL
    },
    Scenario {
        name: "records that come in pieces",
        client: &[Bytes(b"H_"), Bytes(b"a_"), Bytes(b"b."), Fin],
        upstream: &[Bytes(b"x"), Fin],
        ..USUAL
    },
    Scenario {
        name: "the upstream speaks first and stays open for the client's end",
        client: &[Bytes(b"H"), Bytes(b"abcd."), Fin],
        upstream: &[Bytes(b"xyz"), Fin],
        dial: SLOW_DIAL,
        client_capacity: 2,
        preemptions: 0,
        ..USUAL
    },
    Scenario {
        name: "a torn end",
        client: &[Bytes(b"Hab"), Bytes(b"c"), Fin],
        upstream: &[Bytes(b"xyz"), Fin],
        reasons: &["client_torn"],
        ..USUAL
    },
    Scenario {
        name: "a torn end in a record",
        client: &[Bytes(b"Hab"), Bytes(b"_"), Fin],
        upstream: &[Bytes(b"xyz"), Fin],
        dial: SLOW_DIAL,
        reasons: &["client_torn"],
        ..USUAL
    },
    Scenario {
        name: "the client resets",
        client: &[Bytes(b"Hab"), Bytes(b"cd"), Reset],
        upstream: &[Bytes(b"xy"), Fin],
        upstream_capacity: 2,
        reasons: &["client_reset"],
        ..USUAL
    },
    Scenario {
        name: "the client resets and the upstream sends on",
        client: &[Bytes(b"Habcd"), Reset],
        upstream: &[Bytes(b"xy"), Bytes(b"z")],
        upstream_capacity: 1,
        reasons: &["client_reset"],
        ..USUAL
    },
    Scenario {
        name: "the client resets while the upstream is dialed",
        client: &[Bytes(b"Habcd"), Reset],
        upstream: &[Bytes(b"x")],
        dial: SLOW_DIAL,
        reasons: &["client_reset"],
        preemptions: 2,
        ..USUAL
    },
    Scenario {
        name: "close_notify and then a reset",
        client: &[Bytes(b"Hab"), Bytes(b"c."), Reset],
        upstream: &[Fin],
        reasons: &["finished", "client_reset"],
        ..USUAL
    },
    Scenario {
        name: "close_notify and then a reset under a reply",
        client: &[Bytes(b"Hab"), Bytes(b"c."), Reset],
        upstream: &[Bytes(b"xyz"), Fin],
        reasons: &["finished", "client_reset"],
        ..USUAL
    },
    Scenario {
        name: "the client is gone after its end",
        client: &[Bytes(b"Hab."), Fin, Reset],
        upstream: &[Bytes(b"x"), Bytes(b"yz"), Fin],
        reasons: &["finished", "client_reset"],
        ..USUAL
    },
    Scenario {
        name: "the upstream resets",
        client: &[Bytes(b"Hab"), Bytes(b"cd"), Bytes(b".")],
        upstream: &[Bytes(b"xy"), Bytes(b"z"), Reset],
        client_capacity: 2,
        reasons: &["upstream_reset"],
        preemptions: 0,
        ..USUAL
    },
    Scenario {
        name: "the upstream resets at once",
        client: &[Bytes(b"Habc."), Fin],
        upstream: &[Bytes(b"x"), Reset],
        dial: SLOW_DIAL,
        reasons: &["upstream_reset"],
        preemptions: 2,
        ..USUAL
    },
    Scenario {
        name: "the upstream ends and then resets",
        client: &[Bytes(b"Hab"), Bytes(b"cd"), Bytes(b"."), Fin],
        upstream: &[Bytes(b"xyz"), Fin, Reset],
        reasons: &["finished", "upstream_stopped_reading"],
        preemptions: 0,
        ..USUAL
    },
    Scenario {
        name: "the upstream takes nothing but replies",
        client: &[Bytes(b"Hab"), Bytes(b"cd"), Bytes(b"."), Fin],
        upstream: &[Bytes(b"xy"), Bytes(b"z"), Fin],
        refuses: true,
        client_capacity: 2,
        reasons: &["upstream_stopped_reading"],
        preemptions: 0,
        ..USUAL
    },
    Scenario {
        name: "the upstream refuses",
        client: &[Bytes(b"H"), Bytes(b"abc"), Bytes(b"."), Fin],
        dial: [Dial::Fails(Failure::Refused); 2],
        reasons: &["upstream_refused"],
        preemptions: 2,
        ..USUAL
    },
    Scenario {
        name: "the upstream refuses late",
        client: &[Bytes(b"Habc"), Bytes(b"."), Fin],
        dial: [Dial::Waits, Dial::Fails(Failure::Refused)],
        client_capacity: 1,
        reasons: &["upstream_refused"],
        preemptions: 2,
        ..USUAL
    },
    Scenario {
        name: "a fault in the handshake",
        client: &[Bytes(b"!abc"), Fin],
        reasons: &["client_fault"],
        preemptions: 2,
        ..USUAL
    },
    Scenario {
        name: "a fault after bytes",
        client: &[Bytes(b"Hab"), Bytes(b"c!d"), Fin],
        upstream: &[Bytes(b"xy"), Bytes(b"z")],
        upstream_capacity: 2,
        reasons: &["client_fault"],
        preemptions: 0,
        ..USUAL
    },
    Scenario {
        name: "a fault while the upstream is dialed",
        client: &[Bytes(b"Ha"), Bytes(b"!d"), Fin],
        upstream: &[Bytes(b"x")],
        dial: SLOW_DIAL,
        reasons: &["client_fault"],
        preemptions: 2,
        ..USUAL
    },
    Scenario { name: "a probe", client: &[Fin], reasons: &["client_probe"], preemptions: 2, ..USUAL },
    Scenario {
        name: "a probe that resets",
        client: &[Reset],
        reasons: &["client_probe"],
        preemptions: 2,
        ..USUAL
    },
    Scenario {
        name: "a client that leaves in the handshake",
        client: &[Bytes(b"_"), Fin],
        reasons: &["client_left"],
        preemptions: 2,
        ..USUAL
    },
    Scenario {
        name: "both stay open",
        client: &[Bytes(b"Ha"), Bytes(b"bc"), Bytes(b"d")],
        upstream: &[Bytes(b"x"), Bytes(b"yz")],
        reasons: &["open"],
        ..USUAL
    },
    Scenario {
        name: "the upstream ends and the client never does",
        client: &[Bytes(b"Ha"), Bytes(b"bc")],
        upstream: &[Bytes(b"xyz"), Fin],
        reasons: &["half_close_timeout"],
        ..USUAL
    },
    Scenario {
        name: "the client ends and the upstream never does",
        client: &[Bytes(b"Ha"), Bytes(b"bc."), Fin],
        upstream: &[Bytes(b"xyz")],
        reasons: &["half_close_timeout"],
        ..USUAL
    },
];

/// A path through the tree of choices; [`Choices::next_path`] turns to the next one.
#[derive(Debug, Default)]
struct Choices {
    /// Taken, and of how many.
    path: Vec<(usize, usize)>,
    at: usize,
}

impl Choices {
    fn pick(&mut self, of: usize) -> usize {
        if of < 2 {
            return 0;
        }
        if self.at == self.path.len() {
            self.path.push((0, of));
        }
        let (taken, known) = self.path[self.at];
        assert_eq!(known, of, "a history did not replay");
        self.at += 1;
        taken
    }

    fn next_path(&mut self) -> bool {
        self.at = 0;
        while let Some((taken, of)) = self.path.pop() {
            if taken + 1 < of {
                self.path.push((taken + 1, of));
                return true;
            }
        }
        false
    }
}

/// What happens beside the relay's steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Arrive(Side),
    Wake(Side),
    Drain(Side),
    Dialed,
}

struct History {
    world: World<Transparent>,
    scenario: Scenario,
    /// How many items of each script have happened.
    done: [usize; 2],
    dialed: bool,
    events: Vec<Event>,
    /// The event since which the relay has taken no step.
    last_event: Option<Event>,
}

impl History {
    fn new(scenario: Scenario, now: Instant) -> Self {
        let mut world = World::new(Transparent::new(), LIMITS, Pool::new(2, 4), now);
        world.client = super::world::Socket::new(scenario.client_capacity);
        world.upstream = super::world::Socket::new(scenario.upstream_capacity);
        world.upstream.refuses = scenario.refuses;
        world.dial = scenario.dial[0];
        Self {
            world,
            scenario,
            done: [0, 0],
            dialed: scenario.dial[0] != Dial::Waits,
            events: Vec::new(),
            last_event: None,
        }
    }

    fn script(&self, side: Side) -> &'static [Item] {
        match side {
            Side::Client => self.scenario.client,
            Side::Upstream => self.scenario.upstream,
        }
    }

    fn enabled(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        for side in [Side::Client, Side::Upstream] {
            if side == Side::Upstream && !self.world.connected {
                continue;
            }
            if self.done[side as usize] < self.script(side).len() {
                events.push(Event::Arrive(side));
            }
            if self.world.has_edge(side) {
                events.push(Event::Wake(side));
            }
            if self.world.socket(side).starved() {
                events.push(Event::Drain(side));
            }
        }
        if self.world.dialing && !self.dialed {
            events.push(Event::Dialed);
        }
        if !self.world.connected && self.world.has_edge(Side::Upstream) {
            events.push(Event::Wake(Side::Upstream));
        }
        if events.is_empty() {
            let sides = [Side::Client, Side::Upstream];
            events.extend(
                sides.into_iter().filter(|side| self.world.socket(*side).queued() > 0).map(Event::Drain),
            );
        }
        events
    }

    /// Two events in a row on different sockets give the same whichever comes first: one order of them will do.
    fn is_canonical(&self, event: Event) -> bool {
        let Some(last) = self.last_event else { return true };
        let wakes = |event| matches!(event, Event::Wake(_));
        side(last) == side(event) || (side(last) == Side::Client && (wakes(event) || !wakes(last)))
    }

    fn happen(&mut self, event: Event) {
        self.events.push(event);
        self.last_event = Some(event);
        match event {
            Event::Arrive(side) => {
                let item = self.script(side)[self.done[side as usize]];
                self.done[side as usize] += 1;
                match item {
                    Bytes(bytes) => self.world.socket(side).arrive(bytes),
                    Fin => self.world.socket(side).arrive_fin(),
                    Reset => self.world.socket(side).arrive_reset(),
                }
            }
            Event::Wake(side) => self.world.wake(side),
            Event::Drain(side) => self.world.socket(side).drain(usize::MAX),
            Event::Dialed => {
                self.dialed = true;
                self.world.dialed(self.scenario.dial[1]);
            }
        }
    }

    /// Lets steps and events happen in the order that `choices` gives, until neither is left. Tells whether it came
    /// to that; if not, another history is the same as this one.
    fn run(&mut self, choices: &mut Choices) -> bool {
        let mut preemptions = self.scenario.preemptions;
        for _ in 0..300 {
            if self.world.relay.next().is_some() {
                let mut events = if preemptions > 0 { self.enabled() } else { Vec::new() };
                events.retain(|event| self.is_canonical(*event));
                match choices.pick(events.len() + 1) {
                    0 => {
                        self.last_event = None;
                        self.world.step();
                    }
                    event => {
                        preemptions -= 1;
                        self.happen(events[event - 1]);
                    }
                }
                continue;
            }
            self.world.step();
            if self.world.relay.closed().is_some() {
                return true;
            }
            let mut events = self.enabled();
            if events.is_empty() {
                if self.scenario.reasons == ["open"] {
                    return true;
                }
                assert!(self.world.expire(), "nothing will ever happen again");
                self.last_event = None;
                continue;
            }
            events.retain(|event| self.is_canonical(*event));
            if events.is_empty() {
                return false;
            }
            let event = events[choices.pick(events.len())];
            self.happen(event);
        }
        panic!("the relay does not come to an end");
    }

    fn check(&mut self) {
        let label = self.world.label();
        assert!(self.scenario.reasons.contains(&label), "closed as {label}");
        for side in [Side::Client, Side::Upstream] {
            self.world.socket(side).drain(usize::MAX);
        }
        self.check_upstream();
        self.check_client();
    }

    /// The client's bytes up to its end, and what follows them.
    fn sent_by_client(&self) -> (Vec<u8>, Option<u8>) {
        let wire: Vec<u8> = self.scenario.client.iter().flat_map(|item| bytes(*item)).copied().collect();
        let is_end = |byte: &u8| [Transparent::CLOSE, Transparent::FAULT].contains(byte);
        let end = wire.iter().position(is_end).unwrap_or(wire.len());
        let plain = wire[..end].iter().filter(|byte| !b"H_".contains(byte)).copied().collect();
        (plain, wire.get(end).copied())
    }

    fn check_upstream(&self) {
        let (sent, end) = self.sent_by_client();
        let got = &self.world.upstream.got;
        assert!(sent.starts_with(got), "the upstream got {:?}", got.escape_ascii().to_string());
        let upstream = self.scenario.upstream;
        let spoiled = self.scenario.refuses || upstream.contains(&Reset) || !self.world.connected;
        let last = self.scenario.client.last();
        if !spoiled && self.done[Side::Client as usize] == self.scenario.client.len() {
            assert_eq!(got, &sent, "bytes for the upstream are missing");
            let clean = end == Some(Transparent::CLOSE);
            let ended = clean || (end.is_none() && last == Some(&Fin));
            assert_eq!(self.world.upstream.shut, ended, "the client's end was not passed on as it was");
            if let Some((_, ending)) = self.world.endings {
                let whole = ended && upstream.contains(&Fin);
                assert!(whole || ending == Ending::Reset, "a cut request looks whole to the upstream");
            }
        }
    }

    fn check_client(&self) {
        let sent: Vec<u8> = self.scenario.upstream.iter().flat_map(|item| bytes(*item)).copied().collect();
        let got = self.world.client.got.as_slice();
        let got = got.strip_prefix(&[Transparent::HELLO]).unwrap_or(got);
        let alerted = got.ends_with(&[Transparent::FAULT]);
        let closed = got.ends_with(&[Transparent::CLOSE]);
        let plain = &got[..got.len() - usize::from(alerted || closed)];
        assert!(sent.starts_with(plain), "the client got {:?}", got.escape_ascii().to_string());
        let gone = self.scenario.client.contains(&Reset);
        let fault = self.sent_by_client().1 == Some(Transparent::FAULT);
        let ends = self.scenario.upstream.contains(&Fin);
        let failed = !self.world.connected;
        let refused = matches!(self.scenario.dial[1], Dial::Fails(_));
        assert!(!closed || ends || failed, "a cut reply looks whole to the client");
        assert!(!closed || plain == sent || failed, "the end came before the last byte");
        if gone {
            return;
        }
        assert_eq!(alerted, fault, "an alert");
        if self.scenario.upstream.contains(&Reset) && !ends {
            let endings = self.world.endings.expect("it is closed");
            assert_eq!(endings.0, Ending::Reset, "a cut reply ends as a whole one does");
        }
        if !fault && self.done[Side::Upstream as usize] == self.scenario.upstream.len() {
            assert_eq!(plain, sent, "bytes for the client are missing");
            assert_eq!(
                closed && self.world.client.shut,
                ends || refused,
                "the upstream's end was not passed on as it was"
            );
        }
    }
}

fn side(event: Event) -> Side {
    match event {
        Event::Arrive(side) | Event::Wake(side) | Event::Drain(side) => side,
        Event::Dialed => Side::Upstream,
    }
}

fn bytes(item: Item) -> &'static [u8] {
    match item {
        Bytes(bytes) => bytes,
        Fin | Reset => &[],
    }
}

fn run_all(scenario: Scenario, now: Instant) -> usize {
    let mut choices = Choices::default();
    let mut count = 0;
    loop {
        let mut history = History::new(scenario, now);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let whole = history.run(&mut choices);
            if whole {
                history.check();
            }
            whole
        }));
        match outcome {
            Ok(whole) => count += usize::from(whole),
            Err(panic) => {
                eprintln!("scenario {:?}, history {count}: {:?}", scenario.name, history.events);
                eprintln!("steps: {:?}", history.world.steps);
                std::panic::resume_unwind(panic);
            }
        }
        if !choices.next_path() {
            return count;
        }
    }
}

#[test]
fn every_history_keeps_the_promises() {
    let begun = start();
    let mut total = 0;
    for scenario in SCENARIOS {
        let count = run_all(*scenario, begun);
        println!("{count:>8} histories: {}", scenario.name);
        total += count;
    }
    println!("{total:>8} histories in {:.1} s", begun.elapsed().as_secs_f64());
    assert!(total > 50_000, "only {total} histories: the scenarios no longer reach far");
}
