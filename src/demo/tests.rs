//! The demo against fronts whose behaviour is known: one that reads the volume for every connection, one that read it
//! once. The real serving path is run by the end-to-end tests.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed assertion is a test's verdict"
)]

use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustls::crypto::aws_lc_rs;
use rustls::{HandshakeKind, ServerConfig, ServerConnection, StreamOwned};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::authority::Authority;
use super::client::Client;
use super::stage::{arguments, clock, wall_clock, write_leaf};
use super::upstream::Upstream;
use super::volume::{Order, Volume};
use super::{Fault, Front, Options, Published, client, run};

#[derive(Clone, Copy, PartialEq)]
enum Behaviour {
    Follows,
    Frozen,
    EndsAtOnce,
}

/// What the fake front's threads and its closures share.
struct Fake {
    upstream: SocketAddr,
    certificate: PathBuf,
    key: PathBuf,
    behaviour: Behaviour,
    in_force: Mutex<Option<(Arc<ServerConfig>, Published)>>,
}

impl Fake {
    /// What a connection gets: read now, or once for all.
    fn config(&self) -> Arc<ServerConfig> {
        let mut in_force = self.in_force.lock().unwrap();
        if let (Behaviour::Frozen, Some((config, _))) = (self.behaviour, in_force.as_ref()) {
            return Arc::clone(config);
        }
        let chain: Vec<_> =
            CertificateDer::pem_file_iter(&self.certificate).unwrap().map(Result::unwrap).collect();
        let serial = client::serial_of(chain.first().unwrap()).unwrap();
        let key = PrivateKeyDer::from_pem_file(&self.key).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let generation = in_force.as_ref().map_or(1, |(_, old)| old.generation + 1);
        let config = Arc::new(config);
        *in_force = Some((Arc::clone(&config), Published { generation, serial, published: clock() }));
        config
    }

    /// Each read of either side is written to the other: enough for a request and its answer, one at a time.
    fn relay(&self, socket: TcpStream) {
        let mut upstream = TcpStream::connect(self.upstream).unwrap();
        let mut client = StreamOwned::new(ServerConnection::new(self.config()).unwrap(), socket);
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = client.read(&mut buffer) {
            upstream.write_all(buffer.get(..count).unwrap()).unwrap();
            let count = upstream.read(&mut buffer).unwrap();
            client.write_all(buffer.get(..count).unwrap()).unwrap();
        }
    }
}

fn value<'a>(arguments: &'a [OsString], flag: &str) -> &'a str {
    let position = arguments.iter().position(|argument| argument == flag).unwrap();
    arguments.get(position + 1).unwrap().to_str().unwrap()
}

fn front(arguments: &[OsString], behaviour: Behaviour) -> Front {
    assert_eq!(arguments.get(1).unwrap(), "serve");
    let fake = Arc::new(Fake {
        upstream: value(arguments, "--upstream").parse().unwrap(),
        certificate: value(arguments, "--cert").into(),
        key: value(arguments, "--key").into(),
        behaviour,
        in_force: Mutex::new(None),
    });
    fake.config();
    let listener = TcpListener::bind(value(arguments, "--listen")).unwrap();
    let address = listener.local_addr().unwrap();
    let accepting = Arc::clone(&fake);
    thread::spawn(move || {
        for socket in listener.incoming() {
            let fake = Arc::clone(&accepting);
            thread::spawn(move || fake.relay(socket.unwrap()));
        }
    });
    let (end, ended) = mpsc::channel();
    let end: Mutex<Option<Sender<()>>> = Mutex::new((behaviour != Behaviour::EndsAtOnce).then_some(end));
    Front {
        address: Box::new(move || Some(address)),
        current: Box::new(move || {
            fake.in_force.lock().unwrap().as_ref().map(|(_, published)| published.clone())
        }),
        drain: Box::new(move || drop(end.lock().unwrap().take())),
        ended,
    }
}

fn play(parent: &Path, rotations: u32, behaviour: Behaviour) -> (Result<(), Fault>, String) {
    let patience = match behaviour {
        Behaviour::Frozen => Duration::from_millis(100),
        Behaviour::Follows | Behaviour::EndsAtOnce => Duration::from_secs(20),
    };
    let pause = Duration::from_millis(5);
    let parent = parent.to_owned();
    let options = Options { rotations: Some(rotations), pause, patience, parent, ..Options::default() };
    let mut out = Vec::new();
    let result = run(&options, |arguments| Ok(front(arguments, behaviour)), &mut out);
    (result, String::from_utf8(out).unwrap())
}

#[test]
fn a_front_that_follows_is_seen_to_serve_each_new_serial() {
    let parent = tempfile::tempdir().unwrap();
    let (result, text) = play(parent.path(), 3, Behaviour::Follows);
    result.unwrap_or_else(|fault| panic!("{fault}\n{text}"));
    for part in [
        "1001 -> 1002",
        "1002 -> 1003",
        "1003 -> 1004",
        "answers (3 so far)",
        "3 of 3 rotations seen; median",
    ] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    assert!(!text.contains('\x1b'), "plain output has no escapes:\n{text}");
}

#[test]
fn a_person_is_shown_a_line_to_paste() {
    let parent = tempfile::tempdir().unwrap();
    let (_, text) = play(parent.path(), 1, Behaviour::Follows);
    let line = text.lines().find(|line| line.contains("curl")).unwrap();
    assert!(line.contains("--cacert") && line.contains("/ca.crt https://localhost:"), "{line}");
}

#[test]
fn a_front_that_does_not_follow_is_told_from_one_that_does() {
    let parent = tempfile::tempdir().unwrap();
    let (result, text) = play(parent.path(), 1, Behaviour::Frozen);
    assert!(matches!(result, Err(Fault::Missed(1))), "{result:?}\n{text}");
    assert!(text.contains("still served 1001"), "{text}");
    assert!(text.contains("0 of 1 rotations seen"), "{text}");
}

#[test]
fn a_front_that_ends_early_is_no_success() {
    let parent = tempfile::tempdir().unwrap();
    let (result, text) = play(parent.path(), 2, Behaviour::EndsAtOnce);
    assert!(matches!(result, Err(Fault::Ended)), "{result:?}\n{text}");
}

#[test]
fn nothing_is_left_on_disk() {
    for behaviour in [Behaviour::Follows, Behaviour::EndsAtOnce] {
        let parent = tempfile::tempdir().unwrap();
        let (_, text) = play(parent.path(), 1, behaviour);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0, "{text}");
    }
    let parent = tempfile::tempdir().unwrap();
    let options = Options { parent: parent.path().to_owned(), ..Options::default() };
    let result = run(&options, |_| Err("no such flag".to_owned()), &mut Vec::new());
    assert!(matches!(result, Err(Fault::Front(reason)) if reason == "no such flag"));
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
}

#[test]
fn the_client_makes_a_full_handshake_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let mut authority = Authority::new("root", wall_clock()).unwrap();
    let mut volume = Volume::create(folder.path(), Order::LinksLast).unwrap();
    write_leaf(&mut volume, &authority.issue().unwrap()).unwrap();
    let upstream = Upstream::start().unwrap();
    let listen = "127.0.0.1:0".parse().unwrap();
    let front = front(&arguments(listen, upstream.address(), &volume), Behaviour::Frozen);
    let client = Client::new(authority.root_der()).unwrap();
    for _ in 0..2 {
        let mut session = client.connect((front.address)().unwrap()).unwrap();
        // With the answer comes the ticket that a later connection could resume with.
        assert_eq!(session.request("/").unwrap().status, 200);
        assert!(matches!(
            session.handshake_kind(),
            Some(HandshakeKind::Full | HandshakeKind::FullWithHelloRetryRequest)
        ));
    }
}
