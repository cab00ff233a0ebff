//! Descriptors that run out: clients wait, everything else goes on, and they are let in as soon as there are some again.

use std::net::TcpStream;
use std::time::Duration;

use crate::client::{Client, End};
use crate::log::Line;
use crate::material::serial;
use crate::patience::{SOON, now, until};
use crate::scene::Scene;
use crate::sidecar::Serve;
use crate::upstream::{Script, Upstream};

/// With this limit the reserve leaves descriptors for so many connections.
const DESCRIPTORS: usize = 64;
const CONNECTIONS: usize = (DESCRIPTORS - 32 - 3 - 17) / 2;

const PAUSED: &str = "tlsidecar_accepting_paused_workers{limit=\"descriptors\"}";

/// All connections taken that there are descriptors for, more clients than that, and each admin client silent.
struct Besieged {
    scene: Scene,
    open: Vec<Client>,
    waiting: Vec<TcpStream>,
    _asking: Vec<TcpStream>,
    _upstream: Upstream,
}

impl Besieged {
    fn new() -> Self {
        let upstream = Upstream::tcp(Script::Echo);
        let mut scene = Scene::with(&upstream.address(), |serve: Serve| serve.with_descriptors(DESCRIPTORS));
        // What is read for the first time now need not be possible for the first time below.
        scene.rotate(2);
        let open = (0..CONNECTIONS)
            .map(|_| {
                let mut client = scene.connect();
                client.echo(b"one of those with room").unwrap();
                client
            })
            .collect();
        let waiting = (0..40).map(|_| scene.bare()).collect();
        // As many as are answered at once, and they ask nothing.
        let asking = (0..16).map(|_| scene.bare_admin()).collect();
        scene.expect_metric(PAUSED, 1.0);
        Self { scene, open, waiting, _asking: asking, _upstream: upstream }
    }
}

#[test]
fn with_all_descriptors_taken_it_reloads_answers_and_rests() {
    let Besieged { mut scene, mut open, waiting, _asking, _upstream } = Besieged::new();
    assert_eq!(scene.metric("tlsidecar_connections_open"), CONNECTIONS as f64);
    let told = scene.sidecar.log.all(0, |line: &Line| line.text("limit") == "descriptors");
    assert_eq!(told.len(), 1, "{told:?}");
    for number in 3..=8 {
        scene.rotate(number);
        assert!(scene.is_ready());
        assert_eq!(scene.metric(PAUSED), 1.0);
    }
    let (_, status) = scene.ask("/status").unwrap();
    assert!(status.contains("\"equals_served\": true"), "{status}");
    open.iter_mut().for_each(|client| client.echo(b"still here").unwrap());
    scene.rests();
    // Whoever waited gets what is in force when it is let in.
    drop((open, waiting));
    let began = now();
    let mut client = scene.connect();
    assert!(began.elapsed() < Duration::from_secs(1), "let in after {:?}", began.elapsed());
    assert_eq!(client.serial(), serial(8));
    client.echo(b"room again").unwrap();
    assert!(until(SOON, || scene.metric(PAUSED) == 0.0));
}

#[test]
fn a_client_that_waited_for_a_descriptor_is_served() {
    let Besieged { scene, mut open, waiting, _asking, _upstream } = Besieged::new();
    drop(waiting);
    let (trust, address) = (scene.trust.clone(), scene.address());
    let late = std::thread::spawn(move || trust.connect(address).and_then(|mut client| client.echo(b"late")));
    scene.expect_metric(PAUSED, 1.0);
    let left = open.pop().unwrap();
    let began = now();
    drop(left);
    late.join().unwrap().unwrap();
    assert!(began.elapsed() < Duration::from_secs(1), "served after {:?}", began.elapsed());
}

#[test]
fn when_the_system_refuses_a_descriptor_it_pauses_and_goes_on_by_itself() {
    let upstream = Upstream::tcp(Script::Echo);
    let scene = Scene::before(&upstream.address(), &[]);
    let mut open: Vec<Client> = (0..4).map(|_| scene.connect()).collect();
    open.iter_mut().for_each(|client| client.echo(b"before").unwrap());
    // Fewer than it has: the reserve itself is gone, as when the whole system has no more.
    scene.sidecar.limit_descriptors(8);
    let mark = scene.sidecar.log.mark();
    let (trust, address) = (scene.trust.clone(), scene.address());
    let late = std::thread::spawn(move || trust.connect(address).and_then(|mut client| client.echo(b"late")));
    let reached = scene.sidecar.log.wait(mark, SOON, |line| line.text("limit") == "descriptors");
    assert!(reached.is_some_and(|line| line.text("level").eq_ignore_ascii_case("warn")));
    scene.rests();
    open.iter_mut().for_each(|client| client.echo(b"meanwhile").unwrap());
    assert_eq!(scene.told(mark).len(), 1, "it is told once: {:?}", scene.told(mark));
    scene.sidecar.limit_descriptors(1000);
    let began = now();
    late.join().unwrap().unwrap();
    assert!(began.elapsed() < Duration::from_secs(1), "served after {:?}", began.elapsed());
    assert!(until(SOON, || scene.metric(PAUSED) == 0.0));
}

#[test]
fn without_a_descriptor_for_the_upstream_a_client_is_told_and_nobody_else_notices() {
    let upstream = Upstream::tcp(Script::Echo);
    let scene = Scene::before(&upstream.address(), &[]);
    let mut old = scene.connect();
    old.echo(b"before").unwrap();
    // One more for the client, none for its upstream.
    scene.sidecar.limit_descriptors(scene.kernel().descriptor_limit_with_free(1));
    let mut client = scene.connect();
    assert_eq!(client.read_rest(), (Vec::new(), End::Notified));
    old.echo(b"meanwhile").unwrap();
    scene.sidecar.limit_descriptors(1000);
    scene.still_echoes();
    scene.expect_metric("tlsidecar_connections_closed_total{reason=\"exhausted\"}", 1.0);
    assert!(until(SOON, || scene.metric("tlsidecar_connections_open") == 1.0));
    let told = scene.sidecar.log.all(0, |line| line.is_above_debug() && line.text("limit") == "descriptors");
    assert_eq!(told.len(), 1, "{told:?}");
}
