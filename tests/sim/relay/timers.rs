//! Each phase has a timer of its own, a reason of its own, and no other phase's.

use std::time::Duration;

use tlsidecar::relay::{
    CLOSING_TIMEOUT, CloseReason, Ending, LINGER_BYTES, LINGER_TIMEOUT, Limits, Pool, REST, Transparent,
};

use super::socket::Socket;
use super::world::{Dial, LIMITS, World, start};

fn world(limits: Limits) -> World<Transparent> {
    World::new(Transparent::new(), limits, Pool::new(4, 4), start())
}

fn connected(limits: Limits) -> World<Transparent> {
    let mut world = world(limits);
    world.client.arrive(b"H");
    world.run();
    assert!(world.connected);
    world.client.drain(9);
    world
}

/// Lets the next deadline pass, which must be `after` from now.
fn expire(world: &mut World<Transparent>, after: Duration) {
    let deadline = world.relay.deadline().expect("something is waited for");
    assert_eq!(deadline - world.now, after);
    world.expire();
    world.run();
}

#[test]
fn a_handshake_has_its_time_whatever_trickles_in() {
    let mut world = world(LIMITS);
    world.now += Duration::from_secs(9);
    world.client.arrive(b"_");
    world.run();
    expire(&mut world, Duration::from_secs(1));
    assert_eq!((world.label(), world.endings.unwrap().0), ("handshake_timeout", Ending::Close));
}

#[test]
fn a_dial_has_its_time_and_ends_with_close_notify() {
    let mut world = world(LIMITS);
    world.dial = Dial::Waits;
    world.now += Duration::from_secs(9);
    world.client.arrive(b"Hab");
    world.run();
    expire(&mut world, LIMITS.connect_timeout);
    world.client.drain(9);
    assert!(world.client.got == b"H." && world.client.shut);
    expire(&mut world, LINGER_TIMEOUT);
    assert_eq!((world.label(), world.endings.unwrap().0), ("upstream_connect_timeout", Ending::Close));
}

#[test]
fn an_open_connection_waits_for_ever_by_default() {
    assert_eq!(connected(LIMITS).relay.deadline(), None);
}

#[test]
fn an_idle_connection_ends_gracefully_and_any_byte_puts_it_off() {
    let idle = Duration::from_secs(20);
    let mut world = connected(Limits { idle_timeout: Some(idle), ..LIMITS });
    world.now += Duration::from_secs(15);
    world.upstream.arrive(b"x");
    world.run();
    world.client.drain(9);
    expire(&mut world, idle);
    world.client.drain(9);
    assert!(world.client.got == b"Hx." && world.client.shut && world.upstream.shut);
    assert_eq!((world.label(), world.endings), ("idle_timeout", Some((Ending::Close, Ending::Close))));
}

#[test]
fn a_stuck_connection_that_idles_is_cut() {
    let idle = Duration::from_secs(20);
    let mut world = world(Limits { idle_timeout: Some(idle), ..LIMITS });
    world.client = Socket::new(2);
    world.client.arrive(b"H");
    world.run();
    world.upstream.arrive(b"xyz");
    world.run();
    // The first time it is not known whether the client takes what is queued for it.
    expire(&mut world, idle);
    assert_eq!(world.label(), "open");
    expire(&mut world, idle);
    assert_eq!((world.label(), world.endings), ("idle_timeout", Some((Ending::Reset, Ending::Reset))));
    assert!(!world.client.shut, "the cut reply does not look whole");
}

#[test]
fn a_reader_that_is_slow_is_not_cut_while_it_takes_bytes_out_of_the_socket() {
    let idle = Duration::from_secs(20);
    for half_closed in [false, true] {
        let mut world = connected(Limits { idle_timeout: Some(idle), ..LIMITS });
        if half_closed {
            world.client.arrive(b".");
            world.run();
        }
        world.upstream.arrive(b"0123456789");
        world.run();
        let patience = if half_closed { LIMITS.half_close_timeout } else { idle };
        for taken in 1..10 {
            world.client.drain(1);
            expire(&mut world, patience);
            assert_eq!((world.label(), world.client.got.len()), ("open", 1 + taken));
        }
        // Nothing is under way once it has all of them.
        world.client.drain(1);
        expire(&mut world, patience);
        world.client.drain(1);
        assert_ne!(world.label(), "open");
    }
}

#[test]
fn a_peer_that_still_takes_its_last_bytes_is_not_left_for_what_it_sends_meanwhile() {
    let mut world = connected(LIMITS);
    world.upstream.refuses = true;
    world.upstream.arrive(b"0123456789");
    world.upstream.arrive_fin();
    world.run();
    for _ in 0..9 {
        world.client.arrive(b"x");
        world.client.drain(1);
        world.run();
        expire(&mut world, LINGER_TIMEOUT);
        assert_eq!(world.label(), "open");
    }
    world.client.drain(9);
    expire(&mut world, LINGER_TIMEOUT);
    assert_eq!(world.client.got, b"H0123456789.");
    assert_eq!(world.label(), "upstream_stopped_reading");
}

#[test]
fn an_upstream_that_goes_on_sending_to_nobody_is_left_before_its_time() {
    let mut world = connected(LIMITS);
    world.client.arrive(b"a.");
    world.run();
    world.client.arrive_reset();
    world.upstream.drain(9);
    let mut sent = 0;
    while world.relay.closed().is_none() {
        world.upstream.arrive(&[b'x'; 4096]);
        sent += 4096;
        world.run();
    }
    assert!((LINGER_BYTES..2 * LINGER_BYTES).contains(&sent), "{sent}");
    assert_eq!((world.label(), world.endings.unwrap().1), ("client_reset", Ending::Reset));
}

#[test]
fn a_long_reply_to_a_half_closed_client_is_not_cut_while_it_moves() {
    let mut world = connected(LIMITS);
    world.client.arrive(b"a.");
    world.run();
    world.upstream.drain(9);
    for _ in 0..10 {
        world.now += LIMITS.half_close_timeout - Duration::from_millis(1);
        world.expire_if_due();
        world.upstream.arrive(b"x");
        world.run();
        world.client.drain(9);
    }
    world.upstream.arrive_fin();
    world.run();
    world.client.drain(9);
    assert_eq!(world.client.got, b"Hxxxxxxxxxx.");
    assert_eq!(world.label(), "finished");
}

#[test]
fn a_half_closed_connection_that_stands_still_is_cut() {
    let mut world = connected(LIMITS);
    world.client.arrive(b"a.");
    world.run();
    world.upstream.drain(9);
    expire(&mut world, LIMITS.half_close_timeout);
    assert_eq!((world.label(), world.endings), ("half_close_timeout", Some((Ending::Reset, Ending::Reset))));
}

#[test]
fn a_client_that_takes_nothing_does_not_keep_an_upstream_that_has_gone() {
    let mut world = world(LIMITS);
    world.client = Socket::new(2);
    world.client.arrive(b"H");
    world.run();
    world.upstream.arrive(b"xyz");
    world.run();
    assert_eq!(world.relay.deadline(), None);
    world.upstream.arrive_fin();
    world.run();
    expire(&mut world, LIMITS.half_close_timeout);
    expire(&mut world, LIMITS.half_close_timeout);
    assert_eq!((world.label(), world.endings.unwrap().0), ("half_close_timeout", Ending::Reset));
}

#[test]
fn the_last_bytes_have_their_time() {
    let mut world = connected(LIMITS);
    world.client = Socket::new(2);
    world.upstream.arrive(b"xyz");
    world.upstream.arrive_reset();
    world.run();
    world.now += Duration::from_secs(2);
    world.client.drain(2);
    world.run();
    let last_moved = world.now;
    while world.relay.closed().is_none() {
        assert!(world.expire(), "the client never takes the rest");
        world.run();
    }
    assert!((CLOSING_TIMEOUT..2 * CLOSING_TIMEOUT).contains(&(world.now - last_moved)));
    assert_eq!((world.label(), world.endings.unwrap().0), ("upstream_reset", Ending::Reset));
}

#[test]
fn an_upstream_that_is_to_be_reset_is_let_go_while_the_client_lingers() {
    let mut world = connected(LIMITS);
    world.client.arrive(b"a!");
    world.run();
    world.upstream.drain(9);
    assert!(world.expire());
    world.run();
    assert!(world.settled, "the upstream has got all it will get");
    // The world holds that nothing is done with that socket any more.
    world.upstream.arrive(b"more");
    world.run();
    assert_eq!(world.label(), "open");
    world.client.drain(9);
    world.client.arrive_fin();
    world.run();
    assert_eq!((world.label(), world.endings.unwrap().1), ("client_fault", Ending::Reset));
}

#[test]
fn an_age_ends_what_rests_gracefully_and_cuts_what_moves() {
    let limits = Limits { maximum_age: Some(Duration::from_secs(100)), ..LIMITS };
    let mut resting = connected(limits);
    expire(&mut resting, Duration::from_secs(100));
    assert_eq!((resting.label(), resting.endings.unwrap().0), ("maximum_age", Ending::Close));
    assert!(resting.client.got == b"H." && resting.upstream.shut);

    let mut moving = connected(limits);
    moving.now += Duration::from_secs(100) - REST / 2;
    moving.upstream.arrive(b"x");
    moving.run();
    moving.client.drain(9);
    expire(&mut moving, REST / 2);
    assert_eq!((moving.label(), moving.endings.unwrap().0), ("maximum_age", Ending::Reset));
    assert_eq!(moving.client.got, b"Hx");
}

#[test]
fn a_drain_ends_every_connection_whatever_stage_it_is_in() {
    let mut handshaking = world(LIMITS);
    let mut dialing = world(LIMITS);
    dialing.dial = Dial::Waits;
    dialing.client.arrive(b"H");
    let mut half_closed = connected(LIMITS);
    half_closed.client.arrive(b".");
    half_closed.run();
    half_closed.now += REST;
    half_closed.relay.stop(CloseReason::Drain, &mut half_closed.pool, half_closed.now);
    half_closed.run();
    // It waits for the rest of a reply, as far as we know.
    assert_eq!((half_closed.label(), half_closed.endings.unwrap().0), ("drain", Ending::Reset));
    let mut resting = connected(LIMITS);
    for world in [&mut handshaking, &mut dialing, &mut resting] {
        world.run();
        world.now += REST;
        world.relay.stop(CloseReason::Drain, &mut world.pool, world.now);
        world.run();
        world.client.drain(9);
        if world.relay.closed().is_none() {
            expire(world, LINGER_TIMEOUT);
        }
        assert_eq!(world.label(), "drain");
        assert_eq!(world.endings.unwrap().0, Ending::Close);
    }
    let mut cut = connected(LIMITS);
    cut.relay.cut(CloseReason::Drain, &mut cut.pool);
    cut.run();
    assert_eq!((cut.label(), cut.endings.unwrap().0), ("drain", Ending::Reset));
}

#[test]
fn deadlines_do_nothing_before_their_time() {
    let mut world = connected(Limits { idle_timeout: Some(Duration::from_secs(20)), ..LIMITS });
    let early = world.now + Duration::from_secs(19);
    world.relay.expire(&mut world.pool, early);
    assert_eq!(world.relay.next(), None);
    assert_eq!(world.label(), "open");
}

#[test]
fn limits_without_end_are_allowed() {
    let world =
        connected(Limits { half_close_timeout: Duration::MAX, maximum_age: Some(Duration::MAX), ..LIMITS });
    assert_eq!(world.relay.deadline(), None);
}
