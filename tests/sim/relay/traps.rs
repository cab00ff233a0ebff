//! What loops of this kind are known to get wrong: a stall, a spin, a lost end, a buffer kept.

use tlsidecar::relay::{BUFFERS_MAXIMUM, Pool, Relay, SMALL_BYTES, Side, Step, Transparent};

use super::peer::{Client, connected, pattern, server_config, settle, world};
use super::socket::Socket;
use super::world::{Dial, LIMITS, World, start};

fn small() -> World<Transparent> {
    let mut world = World::new(Transparent::new(), LIMITS, Pool::new(4, 4), start());
    world.client.arrive(b"H");
    world.run();
    world.client.drain(9);
    world
}

#[test]
fn a_writable_edge_resumes_the_reading_that_waited_for_it() {
    let mut world = small();
    world.upstream = Socket::new(3);
    world.client.arrive(b"abcdefgh");
    world.run();
    assert_eq!((world.upstream.queued(), world.client.unread()), (3, 4));
    for _ in 0..3 {
        world.upstream.drain(3);
        world.run();
    }
    assert_eq!(world.upstream.got, b"abcdefgh");
}

#[test]
fn an_end_in_the_same_edge_as_the_last_bytes_is_seen() {
    let mut world = small();
    world.upstream.arrive(b"x");
    world.upstream.arrive_fin();
    world.run();
    world.client.drain(9);
    assert_eq!(world.client.got, b"Hx.");
}

#[test]
fn a_short_read_spares_the_one_that_would_block() {
    let mut world = small();
    let before = world.steps.len();
    world.client.arrive(b"ab");
    world.run();
    assert_eq!(world.steps[before..], [Step::Read(Side::Client), Step::Write(Side::Upstream)]);
}

#[test]
fn a_reader_that_takes_nothing_stops_the_writer_and_costs_nothing() {
    let (mut world, _client) = connected();
    world.client = Socket::new(10_000);
    world.upstream.arrive(&pattern(10_000_000, 1));
    world.run();
    assert!(world.upstream.unread() > 10_000_000 - BUFFERS_MAXIMUM * SMALL_BYTES);
    assert!(world.pool.lent() <= 1, "{} buffers for one output", world.pool.lent());
    let steps = world.steps.len();
    for _ in 0..100 {
        world.upstream.arrive(b"more");
        world.run();
    }
    assert_eq!(world.steps.len(), steps, "nothing can be done, and nothing is");
}

#[test]
fn a_stuck_download_does_not_stop_an_upload_nor_the_other_way_round() {
    let (mut world, mut client) = connected();
    world.client = Socket::new(1000);
    world.upstream.arrive(&pattern(1_000_000, 1));
    world.run();
    let upload = pattern(1_000_000, 2);
    client.say(&upload);
    while !client.wire.is_empty() {
        client.send(&mut world.client, 100_000);
        world.run();
        world.upstream.drain(usize::MAX);
    }
    assert!(world.upstream.got == upload);

    let (mut world, mut client) = connected();
    world.upstream = Socket::new(1000);
    client.say(&pattern(1_000_000, 2));
    client.send(&mut world.client, usize::MAX);
    world.upstream.arrive(&pattern(1_000_000, 1));
    for _ in 0..1000 {
        world.run();
        world.client.drain(usize::MAX);
        client.look(&world.client);
    }
    assert!(client.received == pattern(1_000_000, 1));
    assert!(world.client.unread() > 0);
}

#[test]
fn a_flood_one_way_does_not_starve_the_other() {
    let mut world = small();
    world.client.arrive(&[b'a'; 400]);
    world.upstream.arrive(&[b'x'; 400]);
    world.wake(Side::Client);
    world.wake(Side::Upstream);
    for _ in 0..80 {
        world.step();
    }
    let counts = [Side::Client, Side::Upstream]
        .map(|side| world.steps.iter().filter(|step| **step == Step::Read(side)).count());
    assert!(counts[0].abs_diff(counts[1]) <= 2, "reads of each side: {counts:?}");
}

#[test]
fn nothing_goes_on_after_the_client_has_closed() {
    let mut world = small();
    world.client.arrive(b"ab.garbage after the end");
    world.client.arrive_fin();
    world.run();
    world.upstream.drain(9);
    assert!(world.upstream.got == b"ab" && world.upstream.shut);
    let steps = world.steps.len();
    for _ in 0..10 {
        world.client.edge = true;
        world.run();
    }
    assert!(world.steps.len() - steps < 10, "{:?}", &world.steps[steps..]);
}

#[test]
fn bytes_that_came_with_the_handshake_go_out_with_the_connect() {
    let mut client = Client::usual();
    let mut world = world(server_config(0));
    world.dial = Dial::Waits;
    client.seal();
    client.exchange(&mut world.client);
    world.run();
    world.client.drain(usize::MAX);
    client.look(&world.client);
    client.say(b"early");
    client.exchange(&mut world.client);
    world.run();
    world.dialed(Dial::Accepts);
    world.run();
    world.upstream.drain(usize::MAX);
    assert_eq!(world.upstream.got, b"early");
}

#[test]
fn an_upstream_that_speaks_with_its_accept_is_heard() {
    let mut world = World::new(Transparent::new(), LIMITS, Pool::new(4, 4), start());
    world.dial = Dial::Waits;
    world.client.arrive(b"H");
    world.run();
    world.upstream.arrive(b"220");
    world.dialed(Dial::Accepts);
    world.run();
    world.client.drain(9);
    assert_eq!(world.client.got, b"H220");
}

#[test]
fn the_upstream_is_dialed_by_a_whole_handshake_only() {
    let mut client = Client::usual();
    let mut world = world(server_config(0));
    client.seal();
    client.send(&mut world.client, usize::MAX);
    world.run();
    assert!(world.relay.handshaking() && !world.steps.contains(&Step::Connect));
}

#[test]
fn an_idle_connection_holds_no_buffer() {
    let (mut world, mut client) = connected();
    assert_eq!(world.pool.lent(), 0);
    for _ in 0..3 {
        client.say(&pattern(100_000, 1));
        world.upstream.arrive(&pattern(100_000, 2));
        settle(&mut world, &mut client);
        assert!(world.relay.quiet());
        assert_eq!(world.pool.lent(), 0);
    }
}

/// Much of a connection's memory is rustls', and the rest is to stay small beside it.
#[test]
fn an_idle_relay_is_small() {
    let relay = size_of::<Relay<Transparent>>();
    assert!(relay <= 320, "{relay} bytes");
}

#[test]
fn a_client_at_fault_after_our_close_notify_is_still_at_fault() {
    let (mut world, mut client) = connected();
    world.upstream.arrive_fin();
    settle(&mut world, &mut client);
    assert!(client.closed);
    client.wire.extend([23, 3, 3, 0, 40]);
    client.wire.extend([9; 40]);
    client.exchange(&mut world.client);
    world.run();
    world.client.arrive_fin();
    world.run();
    assert_eq!(world.label(), "client_fault");
}
