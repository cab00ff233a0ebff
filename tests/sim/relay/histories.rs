//! Every history of a connection at small scope: scripts of a few bytes through buffers of two, in every order of
//! arrivals, wake-ups, drains and steps that the bound on preemptions allows.
//!
//! A scenario tells what both peers do and how the connection may end. What must have arrived is worked out from the
//! scripts alone.

use std::time::Instant;

use tlsidecar::relay::{CLOSING_TIMEOUT, Ending, Pool, Side, Transparent};

use super::scenarios::Item::{self, Bytes, Fin, Reset};
use super::scenarios::{SCENARIOS, Scenario};
use super::socket::Socket;
use super::world::{Dial, LIMITS, World, start};

const BUFFER_BYTES: usize = 2;

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
    begun: Instant,
}

impl History {
    fn new(scenario: Scenario, now: Instant) -> Self {
        let mut world = World::new(Transparent::new(), LIMITS, Pool::new(BUFFER_BYTES, 4), now);
        world.client = Socket::new(scenario.client_capacity);
        world.upstream = Socket::new(scenario.upstream_capacity);
        world.upstream.refuses = scenario.refuses;
        world.dial = scenario.dial[0];
        Self {
            world,
            scenario,
            done: [0, 0],
            dialed: scenario.dial[0] != Dial::Waits,
            events: Vec::new(),
            last_event: None,
            begun: now,
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
            if side == Side::Upstream && !(self.world.connected || self.world.dialing && self.dialed) {
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
        if !self.dialed && self.world.has_edge(Side::Upstream) {
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
            for side in [Side::Client, Side::Upstream] {
                let held = self.world.relay.write_bytes(side).len();
                assert!(
                    held <= BUFFER_BYTES + 1,
                    "{held} bytes for the {side:?}: more than a buffer and an alert"
                );
            }
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
        let waited = self.world.now - self.begun;
        assert!(waited < CLOSING_TIMEOUT || label == "half_close_timeout", "only a timer ended it");
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

#[expect(clippy::print_stderr, reason = "a failure names its history")]
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
#[expect(clippy::print_stdout, reason = "how far the test reaches is worth a look")]
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
