//! Several workers are one service: one certificate at a time, one set of sessions, one end.

use std::time::Duration;

use nix::sys::signal::Signal;
use rustls::SupportedProtocolVersion;
use rustls::version::{TLS12, TLS13};

use crate::client::{Client, End, Trust};
use crate::material::{scaled, serial};
use crate::patience::{SOON, until};
use crate::probe::{Prober, Talker};
use crate::scene::Scene;
use crate::upstream::{Script, Upstream};

const WORKERS: usize = 4;

fn scene(upstream: &Upstream, more: &[(&str, &str)]) -> Scene {
    let flags = [&[("--workers", "4")], more].concat();
    Scene::before(&upstream.address(), &flags)
}

#[test]
fn after_a_publication_no_worker_greets_anybody_with_the_old_certificate() {
    let upstream = Upstream::tcp(Script::Echo);
    let mut scene = scene(&upstream, &[]);
    let rotations = scaled(100, 15);
    let probers: Vec<Prober> = (0..3).map(|_| Prober::start(scene.trust.clone(), scene.address())).collect();
    let talker = Talker::start(&scene.trust, scene.address());
    for number in 2..=rotations + 1 {
        scene.rotate(number);
        // So many that none of the workers is left out.
        for _ in 0..40 {
            assert_eq!(scene.trust.served_serial(scene.address()).unwrap(), serial(number));
        }
    }
    assert_eq!(scene.kernel().threads_with_switches(50), WORKERS, "some worker has had no clients");
    for prober in probers {
        for handshake in prober.finish() {
            handshake.outcome.unwrap();
        }
    }
    talker.finish().expect("an old connection broke");
}

/// Each connection brings the ticket of the one before it, to whichever worker the kernel chooses.
fn sessions_are_resumed_by_every_worker(version: &'static SupportedProtocolVersion) {
    let upstream = Upstream::tcp(Script::Echo);
    let mut scene = scene(&upstream, &[]);
    let trust = Trust::resuming(&scene.generations.root_pem(), version);
    let connections = scaled(1_000, 100);
    let resumed = |scene: &Scene| {
        let one = |_: &u64| {
            let mut client = trust.connect(scene.address()).unwrap();
            client.echo(b"ticket, please").unwrap();
            client.is_resumed()
        };
        (0..connections).filter(one).count() as u64
    };
    let before = resumed(&scene);
    scene.rotate(2);
    let after = resumed(&scene);
    eprintln!("{:?}: {before} and, after a rotation, {after} of {connections} resumed", version.version);
    assert!(before >= connections * 95 / 100, "{before} of {connections}");
    assert!(after >= connections * 95 / 100, "{after} of {connections} after a rotation");
    let label = if version.version == TLS13.version { "TLSv1_3" } else { "TLSv1_2" };
    let counted =
        scene.metric(&format!("tlsidecar_handshakes_total{{version=\"{label}\",session=\"resumed\"}}"));
    assert_eq!(counted, (before + after) as f64);
}

#[test]
fn sessions_of_tls_1_2_are_resumed_by_every_worker() {
    sessions_are_resumed_by_every_worker(&TLS12);
}

#[test]
fn sessions_of_tls_1_3_are_resumed_by_every_worker() {
    sessions_are_resumed_by_every_worker(&TLS13);
}

#[test]
fn a_drain_waits_for_the_connections_of_every_worker_and_answers_until_the_last() {
    let upstream = Upstream::tcp(Script::Echo);
    let mut scene = scene(&upstream, &[]);
    let mut clients: Vec<Client> = (0..40).map(|_| scene.connect()).collect();
    scene.sidecar.signal(Signal::SIGTERM);
    assert!(until(SOON, || scene.trust.connect(scene.address()).is_err()), "it still accepts");
    while let Some(mut client) = clients.pop() {
        assert!(!scene.is_ready());
        assert_eq!(scene.ask("/livez").map(|(code, _)| code).as_deref(), Some("200"));
        client.echo(b"let me finish").unwrap();
        client.end_with_notify().unwrap();
        assert_eq!(client.read_rest(), (Vec::new(), End::Notified));
    }
    assert_eq!(scene.sidecar.exit_code(SOON), 0);
}

#[test]
fn a_second_signal_is_heard_while_only_other_workers_have_connections() {
    let upstream = Upstream::tcp(Script::Echo);
    // Eight starts: with the only connection of each, the first worker is most likely without one in some.
    for _ in 0..8 {
        let mut scene = scene(&upstream, &[]);
        let mut client = scene.connect();
        client.echo(b"before").unwrap();
        scene.sidecar.signal(Signal::SIGTERM);
        scene.sidecar.line("draining");
        assert!(!until(Duration::from_millis(50), || !scene.sidecar.is_running()), "it did not wait");
        scene.sidecar.signal(Signal::SIGTERM);
        assert_eq!(scene.sidecar.exit_code(Duration::from_secs(5)), 1);
    }
}

#[test]
fn automatic_workers_are_as_many_as_processors() {
    let upstream = Upstream::tcp(Script::Echo);
    let scene = Scene::before(&upstream.address(), &[("--workers", "auto")]);
    let processors = std::thread::available_parallelism().unwrap().get().min(8);
    assert_eq!(scene.metric("tlsidecar_workers"), processors as f64);
    // One more writes the log.
    assert_eq!(scene.kernel().threads(), processors + 1);
}
