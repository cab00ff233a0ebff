//! What goes through a connection: every byte, in order, and then the end, in both directions independently.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::client::{Client, End, Trust};
use crate::log::Line;
use crate::material::{Generations, PlainPair, folder, scaled};
use crate::patience::{SOON, now, pause, until};
use crate::pattern::{Hash, Hasher, Pattern};
use crate::sidecar::{Serve, Sidecar};
use crate::upstream::{RefusingPort, Script, Upstream};

/// A sidecar in front of some upstream, and whom its clients trust.
struct Scene {
    sidecar: Sidecar,
    trust: Trust,
    root_pem: String,
    _pair: PlainPair,
}

impl Scene {
    fn before(upstream: &str) -> Self {
        let generations = Generations::new();
        let pair = PlainPair::of(&generations.leaf(1));
        let sidecar = Serve::new(upstream, &pair.certificate(), &pair.key()).ready();
        Self { sidecar, trust: generations.trust(), root_pem: generations.root_pem(), _pair: pair }
    }

    fn connect(&self) -> Client {
        self.trust.connect(self.sidecar.address()).unwrap()
    }

    /// That the sidecar goes on as if nothing had been.
    fn still_echoes(&self) {
        self.connect().echo(b"and the next one").unwrap();
    }
}

fn pattern_hash(seed: u64, length: u64) -> Hash {
    Pattern::new(seed).write_to(&mut std::io::sink(), length).unwrap()
}

fn hash_of(bytes: &[u8]) -> Hash {
    let mut hasher = Hasher::default();
    hasher.update(bytes);
    hasher.finish()
}

/// Sends one pattern up while another comes down, and compares both.
fn both_ways_at_once(upstream: &Upstream, length: u64) {
    let scene = Scene::before(&upstream.address());
    let mut client = scene.connect();
    let mut sender = client.sender();
    let sending = std::thread::spawn(move || {
        let sent = Pattern::new(11).write_to(&mut sender, length).unwrap();
        sender.end_with_notify().unwrap();
        sent
    });
    let (received, end) = client.hash_rest();
    assert_eq!((received, end), (pattern_hash(22, length), End::Notified));
    assert_eq!(upstream.report().unwrap(), sending.join().unwrap());
}

#[test]
fn bulk_goes_both_ways_at_once_without_loss() {
    let length = scaled(200_000_000, 24_000_000);
    both_ways_at_once(&Upstream::tcp(Script::Exchange { seed: 22, length }), length);
}

#[test]
fn bulk_goes_both_ways_at_once_over_a_unix_socket() {
    let folder = folder();
    let length = scaled(200_000_000, 8_000_000);
    let upstream = Upstream::unix(&folder.path().join("upstream"), Script::Exchange { seed: 22, length });
    both_ways_at_once(&upstream, length);
}

#[test]
fn single_bytes_go_there_and_back_ten_thousand_times() {
    let upstream = Upstream::tcp(Script::Echo);
    let scene = Scene::before(&upstream.address());
    let mut client = scene.connect();
    for number in 0..10_000_u32 {
        let [byte, ..] = number.wrapping_mul(0x9e37_79b9).to_be_bytes();
        client.echo(&[byte]).unwrap_or_else(|error| panic!("ping {number}: {error}"));
    }
    client.end_with_notify().unwrap();
    assert_eq!(client.read_rest(), (Vec::new(), End::Notified));
}

#[test]
fn fifty_connections_echo_at_once() {
    let upstream = Upstream::tcp(Script::Echo);
    let scene = Scene::before(&upstream.address());
    let mut clients: Vec<Client> = (0..50).map(|_| scene.connect()).collect();
    for round in 0..4 {
        for (number, client) in clients.iter_mut().enumerate() {
            let message = format!("{round} of {number} ").repeat(500);
            client.echo(message.as_bytes()).unwrap();
        }
    }
}

#[test]
fn a_client_that_does_not_read_costs_little_memory_and_loses_nothing() {
    // Much more than the sockets on the way hold.
    let length = 64_000_000;
    let upstream = Upstream::tcp(Script::Exchange { seed: 55, length });
    let scene = Scene::before(&upstream.address());
    let mut client = scene.connect();
    let kernel = scene.sidecar.kernel();
    let before_kb = kernel.resident_kb();
    pause(Duration::from_secs(1));
    let ticks = kernel.cpu_ticks();
    pause(Duration::from_secs(1));
    let (grown_kb, spent) = (kernel.resident_kb().saturating_sub(before_kb), kernel.cpu_ticks() - ticks);
    assert!(grown_kb < 2048, "{grown_kb} kB for one connection");
    assert!(spent <= 2, "{spent} ticks of 10 ms in a second of waiting");
    client.end_with_notify().unwrap();
    assert_eq!(client.hash_rest(), (pattern_hash(55, length), End::Notified));
}

/// How a client says that it has sent all.
#[derive(Clone, Copy)]
enum Farewell {
    Notify,
    Fin,
}

impl Farewell {
    fn say(self, client: &mut Client) {
        match self {
            Self::Notify => client.end_with_notify().unwrap(),
            Self::Fin => client.end_with_fin().unwrap(),
        }
    }
}

fn late_reply_arrives(farewell: Farewell, version: &'static rustls::SupportedProtocolVersion) {
    let (delay, length) = (Duration::from_secs(3), 3_000_000);
    let upstream = Upstream::tcp(Script::ReplyAfterEnd { delay, seed: 33, length });
    let scene = Scene::before(&upstream.address());
    let mut client = Trust::only(&scene.root_pem, version).connect(scene.sidecar.address()).unwrap();
    client.write_all(b"the request").unwrap();
    farewell.say(&mut client);
    assert_eq!(client.hash_rest(), (pattern_hash(33, length), End::Notified));
    assert_eq!(upstream.report().unwrap(), hash_of(b"the request"));
}

#[test]
fn a_reply_that_starts_late_arrives_after_close_notify() {
    late_reply_arrives(Farewell::Notify, &rustls::version::TLS13);
}

#[test]
fn a_reply_that_starts_late_arrives_after_a_bare_fin() {
    late_reply_arrives(Farewell::Fin, &rustls::version::TLS13);
}

#[test]
fn a_reply_that_starts_late_arrives_after_close_notify_of_tls_1_2() {
    late_reply_arrives(Farewell::Notify, &rustls::version::TLS12);
}

/// The end of the handshake, the request and the client's end are found by the sidecar all at once.
fn request_within_the_handshake_is_answered(farewell: Farewell) {
    let length = 100_000;
    let upstream = Upstream::tcp(Script::ReplyAfterEnd { delay: Duration::ZERO, seed: 66, length });
    let scene = Scene::before(&upstream.address());
    let mut client = scene.trust.connect_holding_back(scene.sidecar.address()).unwrap();
    scene.sidecar.frozen(|| {
        client.write_all(b"the request").unwrap();
        farewell.say(&mut client);
    });
    assert_eq!(client.hash_rest(), (pattern_hash(66, length), End::Notified));
    assert_eq!(upstream.report().unwrap(), hash_of(b"the request"));
}

#[test]
fn a_request_that_comes_with_the_handshake_and_close_notify_is_answered() {
    request_within_the_handshake_is_answered(Farewell::Notify);
}

#[test]
fn a_request_that_comes_with_the_handshake_and_a_bare_fin_is_answered() {
    request_within_the_handshake_is_answered(Farewell::Fin);
}

#[test]
fn an_upload_goes_on_after_the_upstream_ended_its_side() {
    let length = scaled(50_000_000, 12_000_000);
    let upstream = Upstream::tcp(Script::EndFirst { greeting: b"no more from me" });
    let scene = Scene::before(&upstream.address());
    let mut client = scene.connect();
    // The end is there before the upload begins.
    assert_eq!(client.read_rest(), (b"no more from me".to_vec(), End::Notified));
    let sent = Pattern::new(44).write_to(&mut client, length).unwrap();
    client.end_with_notify().unwrap();
    assert_eq!(upstream.report().unwrap(), sent);
}

#[test]
fn a_reply_cut_by_an_upstream_reset_does_not_look_complete() {
    let upstream = Upstream::tcp(Script::ResetAfter { length: 100_000 });
    let scene = Scene::before(&upstream.address());
    let mut client = scene.connect();
    client.write_all(b"x").unwrap();
    let (received, end) = client.read_rest();
    assert!(received.len() <= 100_000);
    assert_eq!(end, End::Broken, "a reset must arrive as one");
}

#[test]
fn an_upload_cut_by_a_client_reset_does_not_look_complete() {
    let upstream = Upstream::tcp(Script::Echo);
    let scene = Scene::before(&upstream.address());
    let mut client = scene.connect();
    client.echo(b"the beginning").unwrap();
    client.reset();
    let error = upstream.report().expect_err("the upstream saw a proper end");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
    scene.still_echoes();
}

#[test]
fn a_refusing_upstream_ends_the_client_within_a_second_and_with_a_word() {
    let port = RefusingPort::new();
    let scene = Scene::before(&port.address());
    let began = now();
    // Whether the end comes in the handshake or after it is the sidecar's choice; silence and a bare FIN are not.
    if let Ok(mut client) = scene.trust.connect(scene.sidecar.address()) {
        let (received, end) = client.read_rest();
        assert!(received.is_empty());
        assert!(matches!(end, End::Notified | End::Broken), "{end:?}");
    }
    assert!(now() - began < Duration::from_secs(1), "the client waited {:?}", now() - began);
}

#[test]
fn a_vanished_unix_upstream_ends_the_client_and_one_that_comes_back_is_used() {
    let folder = folder();
    let path = folder.path().join("upstream");
    let scene = Scene::before(&format!("unix:{}", path.display()));
    if let Ok(mut client) = scene.trust.connect(scene.sidecar.address()) {
        assert_ne!(client.read_rest().1, End::Silent);
    }
    let _upstream = Upstream::unix(&path, Script::Echo);
    scene.still_echoes();
}

#[test]
fn plain_http_on_the_tls_port_is_closed() {
    let upstream = Upstream::tcp(Script::Echo);
    let scene = Scene::before(&upstream.address());
    let mut socket = TcpStream::connect(scene.sidecar.address()).unwrap();
    socket.set_read_timeout(Some(SOON)).unwrap();
    socket.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    // A reset is an end as well; only a time-out is not.
    if let Err(error) = socket.read_to_end(&mut answer) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    }
    assert!(answer.len() < 64, "more than an alert: {answer:?}");
    scene.still_echoes();
}

#[test]
fn bare_connects_are_not_worth_a_line() {
    let upstream = Upstream::tcp(Script::Echo);
    let scene = Scene::before(&upstream.address());
    scene.still_echoes();
    let (mark, descriptors) = (scene.sidecar.log.mark(), scene.sidecar.kernel().descriptors());
    for _ in 0..50 {
        drop(TcpStream::connect(scene.sidecar.address()).unwrap());
    }
    scene.still_echoes();
    let told = scene.sidecar.log.all(mark, Line::is_above_debug);
    assert!(told.is_empty(), "{told:?}");
    let kernel = scene.sidecar.kernel();
    assert!(until(SOON, || kernel.descriptors() <= descriptors), "descriptors were left open");
}
