//! What peers do in the histories that are tried to the last, and how each may end.

use tlsidecar::relay::Failure;

use super::world::Dial;

/// What a peer does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Item {
    Bytes(&'static [u8]),
    Fin,
    Reset,
}
use Item::{Bytes, Fin, Reset};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) client: &'static [Item],
    pub(crate) upstream: &'static [Item],
    pub(crate) dial: [Dial; 2],
    /// How many bytes each socket queues before it blocks.
    pub(crate) client_capacity: usize,
    pub(crate) upstream_capacity: usize,
    /// Whether the upstream's socket takes no bytes, though its peer lives.
    pub(crate) refuses: bool,
    pub(crate) reasons: &'static [&'static str],
    pub(crate) preemptions: usize,
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

pub(crate) const SCENARIOS: &[Scenario] = &[
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
        name: "the upstream speaks with its accept",
        client: &[Bytes(b"H")],
        upstream: &[Bytes(b"xy")],
        dial: SLOW_DIAL,
        reasons: &["open"],
        preemptions: 2,
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
