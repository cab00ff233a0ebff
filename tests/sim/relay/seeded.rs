//! Transfers through a relay and a real TLS client, in an order that a seed decides.
//!
//! `TLSIDECAR_SEED=n` runs one seed only; a failure names it.

use rustls::ProtocolVersion;
use tlsidecar::relay::{Pool, Relay, Side, Tls};

use super::peer::{Client, client_config, pattern, server_config, world};
use super::world::{Dial, LIMITS, Socket, World};

const RUNS: u64 = 60;

/// A small generator of numbers that are random enough (xorshift64*).
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    /// A size that is as likely small as large.
    fn size(&mut self, maximum: usize) -> usize {
        let magnitude = self.below(usize::BITS as usize - maximum.leading_zeros() as usize + 1);
        self.below(1 << magnitude).min(maximum)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Clean,
    Torn,
    /// Only once the upstream's end has come.
    Last,
}

struct Run {
    random: Random,
    world: World<Tls>,
    client: Client,
    /// Plain bytes still to be said, and all of them.
    to_say: Vec<u8>,
    to_send: Vec<u8>,
    said: Vec<u8>,
    sent: Vec<u8>,
    end: End,
    ended: [bool; 2],
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let mut world = world(server_config(random.size(60_000)));
        world.client = Socket::new(1 + random.size(200_000));
        world.upstream = Socket::new(1 + random.size(200_000));
        if random.below(2) == 0 {
            world.pool = Pool::new(20_000 + random.below(60_000), 2);
        }
        if random.below(2) == 0 {
            world.dial = Dial::Waits;
        }
        let version = [&rustls::version::TLS13, &rustls::version::TLS12][random.below(2)];
        let said = pattern(random.size(400_000), seed);
        let sent = pattern(random.size(400_000), seed + 1);
        let end = [End::Clean, End::Torn, End::Last][random.below(3)];
        let client = Client::new(client_config(version));
        let (to_say, to_send) = (said.clone(), sent.clone());
        Self { random, world, client, to_say, to_send, said, sent, end, ended: [false; 2] }
    }

    fn act(&mut self) {
        let count = 1 + self.random.size(100_000);
        match self.random.below(9) {
            0 => self.client_says(count),
            1 if !self.ended[0] => self.client.send(&mut self.world.client, count),
            2 => {
                self.world.client.drain(count);
                self.client.look(&self.world.client);
            }
            3 => self.upstream_sends(count),
            4 => self.world.upstream.drain(count),
            5 if self.world.has_edge(Side::Client) => self.world.wake(Side::Client),
            6 if self.world.has_edge(Side::Upstream) => self.world.wake(Side::Upstream),
            7 if self.world.dial == Dial::Waits && self.random.below(20) == 0 => {
                self.world.dialed(Dial::Accepts)
            }
            _ => {
                for _ in 0..count.min(8) {
                    self.world.step();
                }
            }
        }
    }

    fn client_says(&mut self, count: usize) {
        if self.client.connection.is_handshaking() || self.ended[0] {
            return;
        }
        if self.to_say.is_empty() {
            match self.end {
                End::Last if !self.client.closed => return,
                End::Clean | End::Last => self.client.say_close(),
                End::Torn => {}
            }
            self.client.send(&mut self.world.client, usize::MAX);
            self.world.client.arrive_fin();
            self.ended[0] = true;
            return;
        }
        let some: Vec<u8> = self.to_say.drain(..count.min(self.to_say.len())).collect();
        self.client.say(&some);
        if self.random.below(30) == 0 && self.client.speaks(ProtocolVersion::TLSv1_3) {
            self.client.connection.refresh_traffic_keys().unwrap();
            self.client.seal();
        }
    }

    fn upstream_sends(&mut self, count: usize) {
        if !self.world.connected || self.ended[1] {
            return;
        }
        if self.to_send.is_empty() {
            self.world.upstream.arrive_fin();
            self.ended[1] = true;
            return;
        }
        let some: Vec<u8> = self.to_send.drain(..count.min(self.to_send.len())).collect();
        self.world.upstream.arrive(&some);
    }

    fn run(&mut self) {
        for _ in 0..1_000_000 {
            self.act();
            if self.world.relay.closed().is_some() {
                self.world.step();
                self.client.look(&self.world.client);
                return self.check();
            }
        }
        panic!("stalled: {:?}", self.world.relay);
    }

    fn check(&self) {
        assert!(self.client.error.is_none(), "{:?}", self.client.error);
        assert!(self.world.upstream.got == self.said, "the upstream did not get what the client said");
        assert!(self.client.received == self.sent, "the client did not get what the upstream sent");
        assert!(self.client.closed && self.world.upstream.shut, "an end was lost");
        let expected = if self.end == End::Torn { "client_torn" } else { "finished" };
        assert_eq!(self.world.label(), expected);
        let relay: &Relay<Tls> = &self.world.relay;
        assert_eq!(relay.traffic(Side::Upstream).written, self.said.len() as u64);
        assert_eq!(relay.traffic(Side::Upstream).read, self.sent.len() as u64);
        assert_eq!(relay.traffic(Side::Client).written, self.world.client.got.len() as u64);
    }
}

#[expect(clippy::disallowed_methods, reason = "a seed comes from whoever looks into a failure")]
fn seeds() -> Vec<u64> {
    match std::env::var("TLSIDECAR_SEED") {
        Ok(seed) => vec![seed.parse().expect("TLSIDECAR_SEED is a number")],
        Err(_) => (0..RUNS).collect(),
    }
}

#[test]
fn transfers_in_any_order_lose_nothing() {
    assert!(LIMITS.idle_timeout.is_none(), "time does not pass here");
    for seed in seeds() {
        let outcome = std::panic::catch_unwind(|| Run::new(seed).run());
        if let Err(panic) = outcome {
            eprintln!("TLSIDECAR_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}
