//! Clients that are odd, broken or hostile: each is served or sent away as it should be, is counted under its reason,
//! harms nobody else, and leaves nothing behind that keeps the process busy.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use nix::sys::socket::{setsockopt, sockopt};
use rustls::version::{TLS12, TLS13};
use tlsidecar::demo::authority::{Authority, Profile};

use crate::client::{Client, End, Trust};
use crate::material::Generations;
use crate::patience::{SOON, until, wall_clock};
use crate::scene::{Scene, drain, fin};
use crate::upstream::{Script, Upstream};

const RECORD_HEADER: usize = 5;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;

/// A sidecar in front of an echo, and what has to hold after each animal.
struct Cage {
    scene: Scene,
    _upstream: Upstream,
}

impl Cage {
    fn new() -> Self {
        let upstream = Upstream::tcp(Script::Echo);
        Self { scene: Scene::before(&upstream.address(), &[]), _upstream: upstream }
    }

    /// What comes back for these bytes, sent at once and followed by silence; whether it ends properly.
    fn answer(&self, bytes: &[u8]) -> (Vec<u8>, bool) {
        let mut socket = self.scene.bare();
        // It may be sent away before it has said all.
        let _ = socket.write_all(bytes);
        drain(&mut socket)
    }

    /// A client with keys that the test misuses.
    fn client(&self) -> Client {
        let mut client = self.scene.connect();
        client.echo(b"well-behaved so far").unwrap();
        client
    }

    fn is_counted(&self, series: &str) {
        self.scene.expect_metric(series, 1.0);
    }

    fn is_a_failed_handshake(&self, kind: &str) {
        self.is_counted(&format!("tlsidecar_handshake_failures_total{{kind=\"{kind}\"}}"));
    }

    fn is_closed_for(&self, reason: &str) {
        self.is_counted(&format!("tlsidecar_connections_closed_total{{reason=\"{reason}\"}}"));
    }

    /// So many handshakes have failed, for whatever reason.
    fn have_failed(&self, count: f64) {
        let failed = || self.scene.sum("tlsidecar_handshake_failures_total");
        assert!(until(SOON, || failed() == count), "{} handshakes have failed, not {count}", failed());
    }

    /// Nothing is left, nobody else noticed, and the log is silent.
    fn ends_unharmed(self) {
        self.scene.still_echoes();
        self.scene.expect_metric("tlsidecar_connections_open", 0.0);
        self.scene.rests();
        let told = self.scene.told(0);
        assert!(told.iter().all(|line| line.text("level").eq_ignore_ascii_case("info")), "{told:?}");
        assert_eq!(self.scene.metric("tlsidecar_connections_closed_total{reason=\"bug\"}"), 0.0);
    }
}

/// The same handshake bytes in records of so many bytes each.
fn in_records_of(bytes: &[u8], size: usize) -> Vec<u8> {
    let mut payload = Vec::new();
    let mut rest = bytes;
    while let [kind, _, _, high, low, after @ ..] = rest {
        assert_eq!(*kind, HANDSHAKE);
        let (record, next) = after.split_at(usize::from(u16::from_be_bytes([*high, *low])));
        payload.extend_from_slice(record);
        rest = next;
    }
    let record = |part: &[u8]| {
        let length = u16::try_from(part.len()).unwrap().to_be_bytes();
        [&[HANDSHAKE, 3, 1], &length[..], part].concat()
    };
    payload.chunks(size).flat_map(record).collect()
}

/// Whether it is a record that holds the server's answer to a hello.
fn begins_with_server_hello(bytes: &[u8]) -> bool {
    const SERVER_HELLO: u8 = 2;
    bytes.first() == Some(&HANDSHAKE) && bytes.get(RECORD_HEADER) == Some(&SERVER_HELLO)
}

/// The alert that an answer ends with, or nothing.
fn last_alert(bytes: &[u8]) -> Option<u8> {
    let at = bytes.len().checked_sub(RECORD_HEADER + 2)?;
    (bytes[at] == ALERT).then(|| bytes[bytes.len() - 1])
}

#[test]
fn bytes_in_records_of_their_own_are_relayed() {
    let cage = Cage::new();
    let mut client = cage.client();
    let message = b"each byte of this message travels alone ".repeat(30);
    client.sender().write_byte_by_byte(&message).unwrap();
    let mut back = vec![0; message.len()];
    client.read_exact(&mut back).unwrap();
    assert_eq!(back, message);
    drop(client);
    cage.ends_unharmed();
}

#[test]
fn a_hello_longer_than_a_record_is_greeted() {
    let cage = Cage::new();
    for more_bytes in [17_000, 40_000] {
        let trust = cage.scene.trust.verbose(more_bytes);
        assert!(trust.hello().len() > more_bytes - 300);
        let mut client = trust.connect(cage.scene.address()).unwrap();
        client.echo(b"sorry for the length of my introduction").unwrap();
    }
    cage.ends_unharmed();
}

#[test]
fn a_hello_longer_than_any_is_sent_away() {
    let cage = Cage::new();
    // A handshake message says its own length: one byte more than TLS libraries take.
    let length = 0x01_00_00_u32.to_be_bytes();
    let hello = [&[1, length[1], length[2], length[3]][..], &[0; 30_000]].concat();
    let record = |part: &[u8]| [&[HANDSHAKE, 3, 1], &(part.len() as u16).to_be_bytes()[..], part].concat();
    let records: Vec<u8> = hello.chunks(16_000).flat_map(record).collect();
    let (answer, _) = cage.answer(&records);
    assert!(answer.len() <= RECORD_HEADER + 2, "{answer:?}");
    cage.is_a_failed_handshake("too_long");
    cage.ends_unharmed();
}

#[test]
fn a_hello_in_pieces_is_greeted() {
    let cage = Cage::new();
    let hello = cage.scene.trust.hello();
    for size in [1, 7, 100] {
        let mut socket = cage.scene.bare();
        socket.set_nodelay(true).unwrap();
        for piece in in_records_of(&hello, size).chunks(size + RECORD_HEADER) {
            socket.write_all(piece).unwrap();
        }
        let mut answer = [0; 64];
        socket.read_exact(&mut answer).unwrap();
        assert!(begins_with_server_hello(&answer), "records of {size}: {answer:?}");
    }
    cage.scene.expect_metric("tlsidecar_handshake_failures_total{kind=\"client_left\"}", 3.0);
    cage.ends_unharmed();
}

#[test]
fn a_large_certificate_reaches_a_client_that_reads_slowly() {
    let mut authority = Authority::new("e2e root", wall_clock()).unwrap();
    let profile = authority.profile();
    let label = "x".repeat(60);
    let more = (0..230).map(|number| format!("{number:0>50}.{label}.{label}.{label}.example"));
    let names = profile.names.iter().cloned().chain(more).collect();
    let leaf = authority.issue_as(&Profile { names, ..profile }).unwrap();
    assert!(leaf.der.len() > 55_000, "{} bytes", leaf.der.len());
    let upstream = Upstream::tcp(Script::Echo);
    let scene = Scene::of(&upstream.address(), Generations::new(), &leaf, |serve| serve);
    let trust = Trust::new(&authority.root_pem());
    let narrow = || {
        let socket = TcpStream::connect(scene.address()).unwrap();
        setsockopt(&socket, sockopt::RcvBuf, &4096).unwrap();
        socket
    };
    let silent: Vec<_> = (0..20)
        .map(|_| {
            let mut socket = narrow();
            socket.write_all(&trust.hello()).unwrap();
            socket
        })
        .collect();
    let spent = scene.ticks_of_a_second();
    assert!(spent <= 2, "{spent} ticks of 10 ms in a second of waiting for readers");
    assert_eq!(scene.metric("tlsidecar_handshakes_open"), silent.len() as f64);
    // A few KB at a time is as fast as it can.
    trust.over(narrow()).unwrap().echo(b"that took a while").unwrap();
    drop(silent);
    trust.connect(scene.address()).unwrap().echo(b"what a certificate").unwrap();
    scene.rests();
}

#[test]
fn an_end_right_after_the_hello_is_the_end() {
    let cage = Cage::new();
    let close_notify = [ALERT, 3, 3, 0, 2, 1, 0];
    let (_, _) = cage.answer(&[&cage.scene.trust.hello()[..], &close_notify].concat());
    cage.have_failed(1.0);
    // The same without anything before it.
    let (_, _) = cage.answer(&close_notify);
    cage.have_failed(2.0);
    cage.ends_unharmed();
}

#[test]
fn a_client_that_ends_in_the_middle_of_its_hello_is_gone_at_once() {
    let cage = Cage::new();
    let mut socket = cage.scene.bare();
    socket.write_all(&cage.scene.trust.hello()[..100]).unwrap();
    fin(&socket);
    let (answer, _) = drain(&mut socket);
    assert!(answer.is_empty(), "{answer:?}");
    cage.is_a_failed_handshake("client_left");
    cage.ends_unharmed();
}

#[test]
fn keys_may_change_and_a_storm_of_changes_is_not_endured() {
    let cage = Cage::new();
    let mut client = cage.client();
    for _ in 0..20 {
        client.sender().update_keys().unwrap();
        client.echo(b"with new keys").unwrap();
    }
    drop(client);
    cage.is_closed_for("client_torn");
    let mut storm = cage.client();
    for _ in 0..10_000 {
        if storm.sender().update_keys().is_err() {
            break;
        }
    }
    assert_ne!(storm.read_rest().1, End::Silent);
    cage.is_closed_for("client_fault");
    cage.ends_unharmed();
}

#[test]
fn http_without_tls_is_sent_away() {
    let cage = Cage::new();
    let (answer, _) = cage.answer(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(answer.len() <= RECORD_HEADER + 2, "{answer:?}");
    cage.is_a_failed_handshake("plain_http");
    cage.ends_unharmed();
}

#[test]
fn bytes_that_are_no_tls_are_sent_away() {
    let cage = Cage::new();
    let (answer, _) = cage.answer(&[0xa5; 3000]);
    assert!(answer.len() <= RECORD_HEADER + 2, "{answer:?}");
    cage.is_a_failed_handshake("not_tls");
    cage.ends_unharmed();
}

#[test]
fn records_without_content_are_sent_away() {
    let cage = Cage::new();
    let empty = [HANDSHAKE, 3, 1, 0, 0].repeat(10_000);
    let (answer, _) = cage.answer(&empty);
    assert!(answer.len() <= RECORD_HEADER + 2, "{answer:?}");
    cage.have_failed(1.0);
    cage.ends_unharmed();
}

/// A hello as clients of TLS 1.0 sent it: no extensions at all.
fn hello_of_tls_1_0() -> Vec<u8> {
    let suites = [0x00, 0x2f, 0x00, 0x35, 0xc0, 0x13, 0xc0, 0x14];
    let body = [&[3, 1][..], &[7; 32], &[0], &[0, suites.len() as u8], &suites, &[1, 0]].concat();
    let message = [&[1, 0, 0, body.len() as u8][..], &body].concat();
    [&[HANDSHAKE, 3, 1, 0, message.len() as u8][..], &message].concat()
}

#[test]
fn tls_1_0_is_declined() {
    // What is missed first is up to the TLS library: a version, or an extension that only later ones have.
    const HANDSHAKE_FAILURE: u8 = 40;
    const PROTOCOL_VERSION: u8 = 70;
    let cage = Cage::new();
    let (answer, _) = cage.answer(&hello_of_tls_1_0());
    assert!(matches!(last_alert(&answer), Some(HANDSHAKE_FAILURE | PROTOCOL_VERSION)), "{answer:?}");
    cage.is_a_failed_handshake("no_shared_version");
    cage.ends_unharmed();
}

#[test]
fn tls_1_2_is_declined_where_it_is_too_old() {
    let upstream = Upstream::tcp(Script::Echo);
    let scene = Scene::before(&upstream.address(), &[("--tls-min-version", "1.3")]);
    let old = Trust::only(&scene.generations.root_pem(), &TLS12);
    assert!(old.connect(scene.address()).is_err());
    scene.expect_metric("tlsidecar_handshake_failures_total{kind=\"no_shared_version\"}", 1.0);
    Trust::only(&scene.generations.root_pem(), &TLS13).connect(scene.address()).unwrap();
}

#[test]
fn a_renegotiation_is_not_had() {
    let cage = Cage::new();
    let folder = crate::material::folder();
    let root = folder.path().join("root.crt");
    fs::write(&root, cage.scene.generations.root_pem()).unwrap();
    let address = cage.scene.address().to_string();
    // `R` makes it ask for another handshake; how it takes the refusal is its own business.
    let mut openssl = Command::new("timeout")
        .args(["20", "openssl", "s_client", "-tls1_2", "-connect", &address, "-CAfile"])
        .arg(&root)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut keys = openssl.stdin.take().unwrap();
    cage.scene.expect_metric("tlsidecar_handshakes_total{version=\"TLSv1_2\",session=\"full\"}", 1.0);
    if let Err(error) = keys.write_all(b"R\n") {
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    }
    let mut told = String::new();
    openssl.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert!(told.contains("RENEGOTIATING"), "{told}");
    assert_ne!(openssl.wait().unwrap().code(), Some(124), "it hung: {told}");
    cage.scene.expect_metric("tlsidecar_connections_open", 0.0);
    cage.ends_unharmed();
}
