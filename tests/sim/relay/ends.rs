//! How connections end, with a real TLS client: whole, torn or cut, and never one looking like another.

use tlsidecar::relay::{Ending, Failure, Side, Step};

use super::peer::{Client, connected, connected_by, pattern, server_config, settle, world};
use super::world::{Dial, Socket};

#[test]
fn a_client_that_has_said_all_still_gets_the_whole_reply() {
    let (mut world, mut client) = connected();
    client.say(b"request");
    client.say_close();
    settle(&mut world, &mut client);
    assert!(world.upstream.shut && world.upstream.got == b"request");
    let reply = pattern(1_000_000, 1);
    for part in reply.chunks(50_000) {
        world.upstream.arrive(part);
        settle(&mut world, &mut client);
    }
    world.upstream.arrive_fin();
    settle(&mut world, &mut client);
    assert_eq!((client.received.len(), client.closed, client.error.clone()), (reply.len(), true, None));
    assert!(client.received == reply);
    assert_eq!(world.label(), "finished");
    assert_eq!(world.endings, Some((Ending::Close, Ending::Close)));
}

#[test]
fn an_upstream_that_has_said_all_still_gets_the_whole_upload() {
    let (mut world, mut client) = connected();
    world.upstream.arrive(b"go on");
    world.upstream.arrive_fin();
    settle(&mut world, &mut client);
    assert!(client.closed && client.received == b"go on" && world.client.shut);
    let upload = pattern(1_000_000, 2);
    for part in upload.chunks(50_000) {
        client.say(part);
        settle(&mut world, &mut client);
    }
    client.say_close();
    settle(&mut world, &mut client);
    assert!(world.upstream.got == upload && world.upstream.shut);
    assert_eq!(world.label(), "finished");
}

#[test]
fn a_fin_without_close_notify_is_passed_on_and_told_apart() {
    let (mut world, mut client) = connected();
    client.say(b"request");
    client.exchange(&mut world.client);
    world.client.arrive_fin();
    world.run();
    assert!(world.upstream.shut);
    world.upstream.arrive(b"reply");
    world.upstream.arrive_fin();
    world.run();
    client.exchange(&mut world.client);
    assert!(client.received == b"reply" && client.closed);
    assert_eq!(world.label(), "client_torn");
}

#[test]
fn an_upstream_that_is_not_there_is_told_by_close_notify_at_once() {
    for (failure, label) in [
        (Failure::Refused, "upstream_refused"),
        (Failure::Unreachable, "upstream_unreachable"),
        (Failure::TimedOut, "upstream_connect_timeout"),
        (Failure::Exhausted, "exhausted"),
        (Failure::Other, "upstream_connect_failed"),
    ] {
        let mut client = Client::usual();
        let mut world = world(server_config(0));
        world.dial = Dial::Fails(failure);
        client.seal();
        client.exchange(&mut world.client);
        world.run();
        world.client.drain(usize::MAX);
        client.look(&world.client);
        client.say(&pattern(100_000, 3));
        client.exchange(&mut world.client);
        world.run();
        client.exchange(&mut world.client);
        assert!(client.closed && client.error.is_none(), "no time passed, and the client knows");
        assert_eq!(world.client.unread(), 0, "what is left unread would turn the close into a reset");
        world.client.arrive_fin();
        world.run();
        assert_eq!((world.label(), world.endings.unwrap().0), (label, Ending::Close));
    }
}

#[test]
fn what_a_client_sent_before_its_reset_arrives() {
    let (mut world, mut client) = connected();
    world.upstream = Socket::new(1000);
    let upload = pattern(40_000, 4);
    client.say(&upload);
    client.send(&mut world.client, usize::MAX);
    world.client.arrive_reset();
    for _ in 0..100 {
        world.run();
        world.upstream.drain(500);
        if !world.has_edge(Side::Upstream) && world.upstream.queued() == 0 {
            world.expire();
        }
    }
    assert!(world.upstream.got == upload && !world.upstream.shut);
    assert_eq!(world.label(), "client_reset");
    assert_eq!(world.endings.unwrap().1, Ending::Reset);
}

#[test]
fn a_clean_end_before_a_reset_stays_clean() {
    let (mut world, mut client) = connected();
    client.say(b"all I have");
    client.say_close();
    client.send(&mut world.client, usize::MAX);
    world.client.arrive_reset();
    world.run();
    world.upstream.drain(usize::MAX);
    assert!(world.upstream.got == b"all I have" && world.upstream.shut);
    world.upstream.arrive_fin();
    world.run();
    assert_eq!((world.label(), world.endings.unwrap().1), ("finished", Ending::Close));
}

#[test]
fn a_client_that_vanished_does_not_leave_an_endless_reply_running() {
    let (mut world, mut client) = connected();
    client.say_close();
    client.exchange(&mut world.client);
    world.client.arrive_fin();
    world.run();
    world.client.arrive_reset();
    for _ in 0..20 {
        world.upstream.arrive(&[7; 1000]);
        world.run();
    }
    assert!(world.expire());
    world.run();
    assert_eq!((world.label(), world.endings.unwrap().1), ("client_reset", Ending::Reset));
}

#[test]
fn a_cut_reply_never_looks_whole() {
    let (mut world, mut client) = connected();
    world.upstream.arrive(&pattern(30_000, 5));
    world.upstream.arrive_reset();
    world.run();
    client.exchange(&mut world.client);
    assert!(client.received == pattern(30_000, 5), "what came before the reset is delivered");
    assert!(world.expire());
    world.run();
    assert!(!client.closed && !world.client.shut);
    assert_eq!((world.label(), world.endings.unwrap().0), ("upstream_reset", Ending::Reset));
}

#[test]
fn a_reset_whose_error_a_write_took_is_still_a_reset() {
    let (mut world, mut client) = connected();
    world.upstream.arrive(b"half a re");
    world.upstream.arrive_reset();
    world.upstream.edge = false;
    client.say(b"more");
    client.exchange(&mut world.client);
    world.run();
    assert!(world.steps.contains(&Step::Write(Side::Upstream)));
    client.exchange(&mut world.client);
    world.expire();
    world.run();
    assert!(client.received == b"half a re" && !client.closed);
    assert_eq!((world.label(), world.endings.unwrap().0), ("upstream_reset", Ending::Reset));
}

#[test]
fn an_early_reply_reaches_a_client_that_is_still_uploading() {
    let (mut world, mut client) = connected();
    world.upstream.refuses = true;
    client.say(&pattern(200_000, 6));
    client.exchange(&mut world.client);
    world.run();
    world.upstream.arrive(b"413");
    world.run();
    client.say(&pattern(200_000, 7));
    client.exchange(&mut world.client);
    world.upstream.arrive_fin();
    world.run();
    client.exchange(&mut world.client);
    assert!(client.received == b"413" && client.closed);
    assert_eq!(world.client.unread(), 0);
    world.client.arrive_fin();
    world.run();
    assert_eq!((world.label(), world.endings.unwrap().0), ("upstream_stopped_reading", Ending::Close));
}

#[test]
fn a_reset_waits_for_the_bytes_before_it() {
    let mut client = Client::usual();
    let (mut world, _) = {
        client.seal();
        connected_by(client)
    };
    world.upstream.arrive(b"last words");
    world.upstream.arrive_reset();
    world.run();
    assert!(world.client.queued() > 0 && world.label() == "open", "the client has not got them yet");
    assert!(world.expire());
    world.run();
    assert_eq!(world.label(), "open");
    world.client.drain(usize::MAX);
    assert!(world.expire());
    world.run();
    assert_eq!(world.label(), "upstream_reset");
}

#[test]
fn a_client_that_leaves_in_the_handshake_is_told_from_a_probe() {
    let mut probe = world(server_config(0));
    probe.client.arrive_fin();
    probe.run();
    assert_eq!(probe.label(), "client_probe");
    let mut left = world(server_config(0));
    let mut client = Client::usual();
    client.seal();
    client.send(&mut left.client, usize::MAX);
    left.run();
    left.client.arrive_reset();
    left.run();
    assert_eq!((left.label(), left.connected), ("client_left", false));
}
