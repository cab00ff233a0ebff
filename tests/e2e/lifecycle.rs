//! Start, wait, reload and end: what signals do, and what a sidecar without a certificate does.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpStream;

use nix::sys::signal::Signal;
use tlsidecar::demo::authority::Leaf;
use tlsidecar::demo::volume::{Order, Volume};

use crate::client::End;
use crate::log::Line;
use crate::mapping::Mapping;
use crate::material::{Generations, PlainPair, folder, payload, serial, write_in_place};
use crate::patience::{QUIET, SOON, pause, until};
use crate::sidecar::{Serve, Sidecar};
use crate::upstream::{Script, Upstream};

fn refuses(sidecar: &Sidecar) -> bool {
    TcpStream::connect(sidecar.address()).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

/// The same pair in longer files, so that a mapping of them has room for a later one: signatures differ in length.
fn with_room(mut leaf: Leaf) -> Leaf {
    leaf.chain_pem.push_str(&"\n".repeat(64));
    leaf.key_pem.push_str(&"\n".repeat(64));
    leaf
}

/// A sidecar that serves plain files in front of an echo.
struct Scene {
    sidecar: Sidecar,
    generations: Generations,
    pair: PlainPair,
    _upstream: Upstream,
}

impl Scene {
    fn with(flags: &[(&str, &str)]) -> Self {
        let generations = Generations::new();
        let pair = PlainPair::of(&with_room(generations.leaf(1)));
        let upstream = Upstream::tcp(Script::Echo);
        let serve = Serve::new(&upstream.address(), &pair.certificate(), &pair.key());
        let serve = flags.iter().fold(serve, |serve, (flag, value)| serve.with(flag, value));
        Self { sidecar: serve.ready(), generations, pair, _upstream: upstream }
    }
}

#[test]
fn a_volume_that_fills_late_is_waited_for() {
    let folder = folder();
    let generations = Generations::new();
    let mut volume = Volume::create(folder.path().join("secret"), Order::LinksLast).unwrap();
    let upstream = Upstream::tcp(Script::Echo);
    let serve = Serve::new(&upstream.address(), &volume.path("tls.crt"), &volume.path("tls.key"));
    let mut sidecar = serve.by_events_only().start();
    sidecar.line("waiting for a certificate");
    pause(QUIET);
    assert!(refuses(&sidecar), "it accepts without a certificate");
    assert!(sidecar.is_running());
    volume.write(&payload(&generations.leaf(1))).unwrap();
    let listening = sidecar.line("listening");
    assert_eq!(listening.text("address"), sidecar.address().to_string());
    assert_eq!(generations.trust().served_serial(sidecar.address()).unwrap(), serial(1));
    volume.write(&payload(&generations.leaf(2))).unwrap();
    sidecar.line("certificate changed");
    assert_eq!(generations.trust().served_serial(sidecar.address()).unwrap(), serial(2));
}

#[test]
fn directories_that_do_not_exist_yet_are_waited_for() {
    let folder = folder();
    let generations = Generations::new();
    let deep = folder.path().join("a/b/c");
    let upstream = Upstream::tcp(Script::Echo);
    let serve = Serve::new(&upstream.address(), &deep.join("tls.crt"), &deep.join("tls.key"));
    let sidecar = serve.by_events_only().start();
    sidecar.line("waiting for a certificate");
    fs::create_dir_all(&deep).unwrap();
    write_in_place(&deep, &generations.leaf(1));
    sidecar.line("listening");
    assert_eq!(generations.trust().served_serial(sidecar.address()).unwrap(), serial(1));
}

/// Writes the next pair so that no event tells of it: through mappings that stay.
fn store_silently(scene: &Scene, number: u64) -> [Mapping; 2] {
    let leaf = scene.generations.leaf(number);
    let files = [(scene.pair.certificate(), leaf.chain_pem), (scene.pair.key(), leaf.key_pem)];
    files.map(|(path, text)| {
        let mut mapping = Mapping::of(&path);
        mapping.store(text.as_bytes());
        mapping
    })
}

#[test]
fn sighup_looks_at_what_no_event_told() {
    let scene = Scene::with(&[("--reload-interval", "0")]);
    let trust = scene.generations.trust();
    let mappings = store_silently(&scene, 2);
    pause(QUIET);
    assert_eq!(trust.served_serial(scene.sidecar.address()).unwrap(), serial(1));
    scene.sidecar.signal(Signal::SIGHUP);
    let changed = scene.sidecar.line("certificate changed");
    assert!(changed.text("trigger").contains("signal"), "{changed}");
    assert_eq!(trust.served_serial(scene.sidecar.address()).unwrap(), serial(2));
    drop(mappings);
}

#[test]
fn the_timer_finds_what_no_event_told() {
    let scene = Scene::with(&[("--reload-interval", "1s"), ("--admin", "127.0.0.1:0")]);
    let mappings = store_silently(&scene, 2);
    let changed = scene.sidecar.line("certificate changed");
    assert!(changed.text("trigger").contains("timer"), "{changed}");
    // Events should have told, as far as it knows.
    assert_eq!(scene.sidecar.metric("tlsidecar_rotations_found_by_timer_total"), Some(1.0));
    let watcher = &scene.sidecar.status()["sets"][0]["watcher"];
    assert_eq!(watcher["mode"], "polling", "{watcher:#}");
    drop(mappings);
}

#[test]
fn sighup_without_a_change_changes_nothing() {
    let mut scene = Scene::with(&[]);
    let mut client = scene.generations.trust().connect(scene.sidecar.address()).unwrap();
    for _ in 0..5 {
        scene.sidecar.signal(Signal::SIGHUP);
        client.echo(b"through it all").unwrap();
    }
    pause(QUIET);
    assert_eq!(scene.sidecar.generation(), 1);
    assert!(scene.sidecar.is_running());
}

/// Both signals that end it let open connections finish, take no new ones, and count as success.
fn drains(signal: Signal) {
    let mut scene = Scene::with(&[]);
    let mut client = scene.generations.trust().connect(scene.sidecar.address()).unwrap();
    client.echo(b"before").unwrap();
    scene.sidecar.signal(signal);
    assert!(until(SOON, || refuses(&scene.sidecar)), "it still accepts");
    client.echo(b"meanwhile").unwrap();
    assert!(scene.sidecar.is_running());
    client.end_with_notify().unwrap();
    assert_eq!(client.read_rest(), (Vec::new(), End::Notified));
    assert_eq!(scene.sidecar.exit_code(SOON), 0);
}

#[test]
fn sigterm_lets_open_connections_end() {
    drains(Signal::SIGTERM);
}

#[test]
fn sigint_lets_open_connections_end() {
    drains(Signal::SIGINT);
}

#[test]
fn sigterm_without_connections_ends_at_once() {
    let mut scene = Scene::with(&[]);
    scene.sidecar.signal(Signal::SIGTERM);
    assert_eq!(scene.sidecar.exit_code(SOON), 0);
}

#[test]
fn a_drain_that_takes_too_long_cuts_and_fails() {
    let mut scene = Scene::with(&[("--drain-timeout", "1s")]);
    let mut client = scene.generations.trust().connect(scene.sidecar.address()).unwrap();
    client.echo(b"before").unwrap();
    scene.sidecar.signal(Signal::SIGTERM);
    assert_eq!(scene.sidecar.exit_code(SOON), 1);
    assert_ne!(client.read_rest().1, End::Silent);
}

#[test]
fn a_second_sigterm_waits_no_longer() {
    let mut scene = Scene::with(&[]);
    let mut client = scene.generations.trust().connect(scene.sidecar.address()).unwrap();
    client.echo(b"before").unwrap();
    scene.sidecar.signal(Signal::SIGTERM);
    scene.sidecar.line("draining");
    assert!(scene.sidecar.is_running());
    scene.sidecar.signal(Signal::SIGTERM);
    assert_eq!(scene.sidecar.exit_code(SOON), 1);
}

#[test]
fn a_rotation_during_a_drain_does_no_harm() {
    let mut scene = Scene::with(&[]);
    let mut client = scene.generations.trust().connect(scene.sidecar.address()).unwrap();
    client.echo(b"before").unwrap();
    scene.sidecar.signal(Signal::SIGTERM);
    assert!(until(SOON, || refuses(&scene.sidecar)));
    write_in_place(scene.pair.folder.path(), &scene.generations.leaf(2));
    pause(QUIET);
    client.echo(b"after").unwrap();
    drop(client);
    assert_eq!(scene.sidecar.exit_code(SOON), 0);
}

#[test]
fn sigterm_ends_the_wait_for_a_certificate() {
    let folder = folder();
    let absent = folder.path().join("absent");
    let mut sidecar = Serve::new("127.0.0.1:9", &absent.join("tls.crt"), &absent.join("tls.key")).start();
    sidecar.line("waiting for a certificate");
    sidecar.signal(Signal::SIGTERM);
    assert_eq!(sidecar.exit_code(SOON), 0);
}

#[test]
fn the_log_never_shows_a_key() {
    let scene = Scene::with(&[("--log-level", "debug")]);
    write_in_place(scene.pair.folder.path(), &scene.generations.leaf(2));
    scene.sidecar.line("certificate changed");
    let secret = scene.generations.leaf(2).key_pem;
    let middle = secret.lines().nth(1).unwrap();
    let shown = |line: &Line| line.to_string().contains(middle) || line.to_string().contains("PRIVATE KEY");
    assert!(scene.sidecar.log.all(0, shown).is_empty());
}

#[test]
fn a_signal_in_the_first_moment_is_answered_and_not_fatal() {
    for signal in [Signal::SIGHUP, Signal::SIGTERM] {
        let generations = Generations::new();
        let pair = PlainPair::of(&generations.leaf(1));
        let mut sidecar = Serve::new("127.0.0.1:9", &pair.certificate(), &pair.key()).start();
        sidecar.line("configuration read");
        sidecar.signal(signal);
        if signal == Signal::SIGHUP {
            sidecar.line("SIGHUP: looking at the files now");
            assert!(sidecar.is_running());
        } else {
            assert_eq!(sidecar.exit_code(SOON), 0);
        }
    }
}

#[test]
fn clients_that_never_said_a_word_do_not_hold_a_drain_up() {
    let mut scene = Scene::with(&[("--drain-timeout", "60s")]);
    let silent: Vec<_> = (0..5).map(|_| TcpStream::connect(scene.sidecar.address()).unwrap()).collect();
    // An answer to a later client says that the earlier ones were let in.
    assert_eq!(scene.generations.trust().served_serial(scene.sidecar.address()).unwrap(), serial(1));
    scene.sidecar.signal(Signal::SIGTERM);
    assert_eq!(scene.sidecar.exit_code(SOON), 0);
    drop(silent);
}
