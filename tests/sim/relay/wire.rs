//! What strangers put on the wire: each is served or ends as it should, with its own reason, and nothing spins.

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, ProtocolVersion};
use std::sync::Arc;
use tlsidecar::relay::{CloseReason, FaultKind, Party, SMALL_BYTES, Tls};

use super::peer::{Client, client_config, connected, connected_by, pattern, server_config, settle, world};
use super::world::World;

/// An alert of level fatal, in the clear: content type 21, and its description.
fn is_alert(wire: &[u8], description: u8) -> bool {
    wire.len() == 7 && wire[0] == 21 && wire[5] == 2 && wire[6] == description
}

fn strangers(bytes: &[u8]) -> World<Tls> {
    let mut world = world(server_config(0));
    world.client.arrive(bytes);
    world.run();
    world
}

fn fault(world: &World<Tls>) -> FaultKind {
    match world.relay.closed() {
        Some(CloseReason::ClientFault(fault)) => {
            assert!(!fault.text.is_empty());
            fault.kind
        }
        other => panic!("closed for {other:?}"),
    }
}

/// The stranger reads the alert and leaves; only then is the connection over.
fn leave(world: &mut World<Tls>) {
    assert_eq!(world.label(), "open", "a socket that may still be sending is not closed at once");
    assert!(world.client.shut);
    world.client.drain(usize::MAX);
    world.client.arrive_fin();
    world.run();
    assert!(!world.connected, "strangers never reach the upstream");
}

fn hello() -> Vec<u8> {
    let mut client = Client::usual();
    client.seal();
    client.wire
}

/// The same handshake message in records of `size` bytes.
fn fragmented(hello: &[u8], size: usize) -> Vec<u8> {
    let mut wire = Vec::new();
    for part in hello[5..].chunks(size) {
        wire.extend_from_slice(&hello[..3]);
        wire.extend_from_slice(&u16::try_from(part.len()).unwrap().to_be_bytes());
        wire.extend_from_slice(part);
    }
    wire
}

#[test]
fn plain_http_is_told_by_an_alert() {
    let mut world = strangers(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n");
    leave(&mut world);
    assert_eq!(fault(&world), FaultKind::PlainHttp);
    assert!(is_alert(&world.client.got, 50), "{:?}", world.client.got);
    assert_eq!(world.relay.closed().unwrap().party(), Party::Client);
}

#[test]
fn garbage_is_told_by_an_alert() {
    let mut world = strangers(&[0xff; 300]);
    leave(&mut world);
    assert_eq!(fault(&world), FaultKind::NotTls);
    assert!(is_alert(&world.client.got, 50));
}

#[test]
fn a_stranger_that_never_stops_is_cut_off_in_time() {
    let mut world = strangers(&[0xff; 300]);
    for _ in 0..100 {
        world.client.arrive(&[0xff; 1000]);
        world.run();
    }
    assert_eq!(world.pool.lent(), 0, "what a stranger sends is not kept");
    world.client.drain(usize::MAX);
    assert!(world.expire());
    world.run();
    assert_eq!(fault(&world), FaultKind::NotTls);
}

#[test]
fn a_hello_of_an_old_version_is_refused_for_its_version() {
    // TLS 1.0 with one suite, the null compression and no extension.
    let mut body = vec![3, 1];
    body.extend([7; 32]);
    body.extend([0, 0, 2, 0xc0, 0x13, 1, 0]);
    let mut wire = vec![22, 3, 1, 0, body.len() as u8 + 4, 1, 0, 0, body.len() as u8];
    wire.extend(body);
    let mut world = strangers(&wire);
    leave(&mut world);
    assert_eq!(fault(&world), FaultKind::NoSharedVersion);
    // handshake_failure, as the hello lacks what every later version has.
    assert!(is_alert(&world.client.got, 40), "{:?}", world.client.got);
}

#[test]
fn close_notify_right_after_the_hello_ends_without_a_loop() {
    let mut wire = hello();
    wire.extend([21, 3, 3, 0, 2, 1, 0]);
    let mut world = strangers(&wire);
    leave(&mut world);
    assert_eq!(fault(&world), FaultKind::Alert);
    assert!(world.steps.len() < 10, "{:?}", world.steps);
}

#[test]
fn a_part_of_a_hello_holds_no_buffer() {
    assert_eq!(strangers(&hello()[..100]).pool.lent(), 0);
}

#[test]
fn a_hello_is_understood_however_it_is_cut() {
    let mut half = world(server_config(0));
    for byte in hello() {
        half.client.arrive(&[byte]);
        half.run();
    }
    assert!(half.client.queued() > 1000, "the server has answered");
    for size in [1, 7, 200] {
        let world = strangers(&fragmented(&hello(), size));
        assert!(world.client.queued() > 1000, "the server has answered a hello in records of {size}");
    }
}

#[test]
fn a_hello_of_many_records_is_understood_and_one_without_an_end_is_not() {
    let mut config = client_config(&rustls::version::TLS13);
    config.alpn_protocols =
        (0..150u32).map(|n| [n.to_be_bytes().as_slice(), &[b'x'; 200]].concat()).collect();
    let mut connection =
        ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").unwrap()).unwrap();
    let mut wire = Vec::new();
    while connection.wants_write() {
        connection.write_tls(&mut wire).unwrap();
    }
    assert!(wire.len() > 30_000);
    let long = strangers(&wire);
    assert!(long.client.queued() > 1000, "the server has answered");

    // A message that claims to be long, one byte a record: more than is kept.
    let mut message = vec![22, 3, 1, 0, 0, 1, 0, 0xff, 0xff];
    message.extend([0; 60_000]);
    let mut endless = strangers(&fragmented(&message, 1)[..SMALL_BYTES + 100]);
    leave(&mut endless);
    assert_eq!(fault(&endless), FaultKind::TooLong);
}

#[test]
fn a_record_that_does_not_decrypt_cuts_the_upstream_after_what_came_before() {
    let (mut world, mut client) = connected();
    client.say(b"honest");
    client.wire.extend([23, 3, 3, 0, 40]);
    client.wire.extend([9; 40]);
    client.exchange(&mut world.client);
    world.run();
    client.exchange(&mut world.client);
    assert_eq!(client.error, Some(rustls::Error::AlertReceived(rustls::AlertDescription::BadRecordMac)));
    world.client.arrive_fin();
    world.upstream.drain(usize::MAX);
    assert!(world.expire(), "the upstream is asked whether it has got everything");
    world.run();
    assert_eq!(fault(&world), FaultKind::BadRecord);
    assert_eq!(world.upstream.got, b"honest");
    assert!(!world.upstream.shut);
    assert_eq!(world.endings.unwrap().1, tlsidecar::relay::Ending::Reset);
}

#[test]
fn key_updates_are_answered_and_a_storm_of_them_is_not_endured() {
    let (mut world, mut client) = connected();
    for round in 0..100u8 {
        client.connection.refresh_traffic_keys().unwrap();
        client.say(&[round]);
        world.upstream.arrive(&[round]);
        settle(&mut world, &mut client);
    }
    assert_eq!(world.upstream.got, (0..100).collect::<Vec<u8>>());
    assert_eq!(client.received, (0..100).collect::<Vec<u8>>());
    for _ in 0..40 {
        client.connection.refresh_traffic_keys().unwrap();
    }
    settle(&mut world, &mut client);
    world.client.arrive_fin();
    assert!(world.expire());
    world.run();
    assert_eq!(fault(&world), FaultKind::Misbehaved);
}

#[test]
fn a_client_that_rejects_our_certificate_is_counted_as_such() {
    let mut stranger = client_config(&rustls::version::TLS13);
    let other = rcgen::generate_simple_self_signed([String::from("localhost")]).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(other.cert.der().clone()).unwrap();
    stranger = {
        let provider = Arc::clone(stranger.crypto_provider());
        rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth()
    };
    let mut client = Client::new(stranger);
    let mut world = world(server_config(0));
    for _ in 0..4 {
        client.seal();
        client.exchange(&mut world.client);
        world.run();
    }
    assert!(client.error.is_some());
    leave(&mut world);
    assert_eq!(fault(&world), FaultKind::Alert);
}

#[test]
fn a_long_chain_reaches_a_slow_reader_and_its_buffer_is_not_kept() {
    let mut client = Client::usual();
    let mut world = world(server_config(60_000));
    world.client = super::socket::Socket::new(700);
    for _ in 0..2000 {
        client.seal();
        client.send(&mut world.client, usize::MAX);
        world.run();
        world.client.drain(100);
        client.look(&world.client);
    }
    assert!(world.connected && !client.connection.is_handshaking());
    assert_eq!(world.pool.lent(), 0);
    let session = world.relay.port().session().unwrap();
    assert_eq!((session.version, session.resumed, session.alpn), ("TLSv1_3", false, None));
    assert!(session.cipher_suite.starts_with("TLS13_"), "{session:?}");
}

#[test]
fn many_records_come_by_one_read_and_go_by_one_write() {
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        let (mut world, mut client) = connected_by(Client::new(client_config(version)));
        assert!(client.speaks(version.version) && version.version != ProtocolVersion::TLSv1_1);
        let data = pattern(3 * 16_384, 5);
        client.say(&data);
        client.exchange(&mut world.client);
        let before = world.steps.len();
        world.run();
        assert_eq!(world.steps.len() - before, 2, "{:?}", &world.steps[before..]);
        world.upstream.drain(usize::MAX);
        assert!(world.upstream.got == data);

        world.upstream.arrive(&pattern(4 * 16_384, 6));
        let before = world.steps.len();
        world.run();
        assert!(world.steps.len() - before <= 3, "{:?}", &world.steps[before..]);
        client.exchange(&mut world.client);
        assert!(client.received == pattern(4 * 16_384, 6));
    }
}
