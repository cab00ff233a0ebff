//! How soon a swapped volume is in force, and how soon a new client sees it: idle, and beside connections that pump.

use std::ffi::OsString;
use std::time::Duration;

use tlsidecar::demo;
use tlsidecar::demo::volume::{Order, Volume};

use crate::client::canonical_serial;
use crate::dice::{Dice, dice};
use crate::figures::{Durations, Report};
use crate::material::{Generations, memory_folder, payload, scaled, serial};
use crate::patience::{SOON, now, pause, until};
use crate::probe::Pump;
use crate::secret::Scene;
use crate::sidecar::Serve;
use crate::upstream::{Script, Upstream};

const CONNECTIONS: usize = 32;

/// What goes on meanwhile.
#[derive(Clone, Copy, Debug)]
enum Load {
    Idle,
    Pumping,
}

impl Load {
    fn start(self, trust: &crate::client::Trust, address: std::net::SocketAddr) -> Option<Pump> {
        match self {
            Self::Idle => None,
            Self::Pumping => Some(Pump::start(trust, address, CONNECTIONS)),
        }
    }
}

/// A kubelet swaps seldom; this is often enough for a long run, and not so often that the watcher spaces its looks.
fn pause_between(dice: &mut Dice) {
    pause(Duration::from_millis(200 + dice.below(50) as u64));
}

fn tell_pumped(report: &Report, pump: Option<Pump>) {
    if let Some(pump) = pump {
        let bytes = pump.finish().expect("a connection that pumped broke");
        report.figure(format_args!("{CONNECTIONS} connections pumped {} MB meanwhile", bytes / 1_000_000));
    }
}

/// The server in this process, which knows to the microsecond when it published.
fn publications(run: &'static str, load: Load, goal: Duration) {
    let (mut report, mut dice) = (Report::of(run), dice(run));
    let (folder, generations) = (memory_folder(), Generations::new());
    let mut volume = Volume::create(folder.path().join("secret"), Order::LinksLast).unwrap();
    volume.write(&payload(&generations.leaf(1))).unwrap();
    let upstream = Upstream::tcp(Script::Echo);
    let front = demo::serve(&arguments(&upstream, &volume)).unwrap();
    let serves = |number| {
        let current = (front.current)();
        current.filter(|current| canonical_serial(&current.serial) == serial(number))
    };
    assert!(until(SOON, || serves(1).is_some()));
    let pump = load.start(&generations.trust(), (front.address)().unwrap());
    let mut took = Durations::default();
    for number in 2..=scaled(1_000, 10) + 1 {
        pause_between(&mut dice);
        let swap = volume.write(&payload(&generations.leaf(number))).unwrap();
        assert!(until(SOON, || serves(number).is_some()), "{number} is not served");
        took.add(serves(number).unwrap().published.saturating_duration_since(swap.renaming));
    }
    tell_pumped(&report, pump);
    report.figure(format_args!("rename to published: {took}"));
    report.goal("p99 of rename to published", took.at(990), goal);
    (front.drain)();
    front.ended.recv_timeout(SOON).unwrap();
    report.finish();
}

fn arguments(upstream: &Upstream, volume: &Volume) -> Vec<OsString> {
    let flag = |name: &str, value: OsString| [name.into(), value];
    ["tlsidecar".into(), "serve".into()]
        .into_iter()
        .chain(flag("--listen", "127.0.0.1:0".into()))
        .chain(flag("--upstream", upstream.address().into()))
        .chain(flag("--cert", volume.path("tls.crt").into()))
        .chain(flag("--key", volume.path("tls.key").into()))
        .chain(flag("--reload-interval", "0".into()))
        .collect()
}

/// The binary, and clients that connect from the moment of the rename on until they see the new certificate.
fn handshakes(run: &'static str, load: Load, goal: Duration) {
    let (mut report, mut dice) = (Report::of(run), dice(run));
    let mut scene = Scene::new(Order::LinksLast, Serve::by_events_only);
    let (trust, address) = (scene.generations.trust(), scene.sidecar.address());
    let pump = load.start(&trust, address);
    let swaps = scaled(1_000, 10);
    let (mut took, mut count) = (Durations::default(), 0);
    for number in 2..=swaps + 1 {
        pause_between(&mut dice);
        let swap = scene.swap(number);
        let (end, mut served) = (now() + SOON, String::new());
        while served != serial(number) {
            assert!(now() < end, "{served} is served after {number} was published");
            // A handshake that fails ends the run.
            served = trust.served_serial(address).unwrap();
            count += 1;
        }
        took.add(now() - swap.renaming);
    }
    tell_pumped(&report, pump);
    report.figure(format_args!("{count} handshakes, 0 failed"));
    report.figure(format_args!("rename to first new handshake: {took}"));
    // A client may see a certificate before its line has been read.
    assert!(until(SOON, || scene.sidecar.generation() > swaps));
    let changes = scene.sidecar.log.all(0, |line| line.says("certificate changed"));
    let noticed = changes.iter().filter_map(|line| line.number("took_us")).map(Duration::from_micros);
    report.figure(format_args!("notice to published, by the log: {}", noticed.collect::<Durations>()));
    assert_eq!(changes.len() as u64, swaps, "one generation a swap");
    assert!(changes.iter().all(|line| line.text("publication") == "atomic"));
    report.goal("p99 of rename to first new handshake", took.at(990), goal);
    drop(scene);
    report.finish();
}

#[test]
fn a_swap_is_published_at_once() {
    publications("publication, idle", Load::Idle, Duration::from_millis(1));
}

#[test]
fn a_swap_is_published_at_once_under_load() {
    publications("publication, loaded", Load::Pumping, Duration::from_millis(10));
}

#[test]
fn a_swap_is_on_the_wire_at_once() {
    handshakes("handshake, idle", Load::Idle, Duration::from_millis(5));
}

#[test]
fn a_swap_is_on_the_wire_at_once_under_load() {
    handshakes("handshake, loaded", Load::Pumping, Duration::from_millis(10));
}
