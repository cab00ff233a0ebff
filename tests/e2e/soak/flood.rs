//! Noise that a watcher must hear through: a flood of names beside the volume, a storm of touches on its files. A rotation
//! is served all the same, and clients do not wait.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tlsidecar::demo::volume::Order;

use crate::client::Trust;
use crate::figures::{Durations, Report};
use crate::material::{folder, scaled, serial, write_in_place};
use crate::patience::{QUIET, SOON, now, pause, until, wall_clock};
use crate::probe::{Endless, Prober};
use crate::secret::Scene;
use crate::sidecar::Serve;

/// A rename within a watched directory is two events.
const EVENTS_A_RENAME: u64 = 2;
const RENAMES_A_MILLISECOND: u64 = 40;

/// How often something happened.
#[derive(Debug)]
struct Rate {
    happened: u64,
    lasted: Duration,
}

impl Rate {
    fn a_second(&self) -> u64 {
        (self.happened as f64 / self.lasted.as_secs_f64()) as u64
    }
}

/// Does `work` again and again, so many times a millisecond on average, on a thread of its own.
fn paced(times: u64, mut work: impl FnMut() + Send + 'static) -> Endless<Rate> {
    Endless::start(move |going_on| {
        let (began, mut happened) = (now(), 0);
        while going_on() {
            let due = (now() - began).as_micros() as u64 * times / 1000;
            (happened..due).for_each(|_| work());
            happened = due;
            pause(Duration::from_millis(1));
        }
        Rate { happened, lasted: now() - began }
    })
}

/// Names that have nothing to do with the volume change in the directory that holds it.
fn flood(directory: &Path) -> Endless<Rate> {
    let [one, other] = ["one", "other"].map(|name| directory.join(name));
    fs::write(&one, b"").unwrap();
    let mut there = false;
    paced(RENAMES_A_MILLISECOND, move || {
        let (from, to) = if there { (&other, &one) } else { (&one, &other) };
        fs::rename(from, to).unwrap();
        there = !there;
    })
}

/// The files of the pair get new times without a change.
fn touches(files: [PathBuf; 2]) -> Endless<Rate> {
    paced(1, move || {
        for file in &files {
            // Between two generations there may be none.
            let _ = File::open(file).and_then(|file| file.set_modified(wall_clock()));
        }
    })
}

/// How long new clients wait for their handshake during so long.
fn handshakes(trust: &Trust, scene: &Scene, length: Duration) -> Durations {
    let prober = Prober::start(trust.clone(), scene.sidecar.address());
    pause(length);
    let handshakes = prober.finish();
    let failed = handshakes.iter().find(|handshake| handshake.outcome.is_err());
    assert!(failed.is_none(), "{failed:?}");
    handshakes.iter().map(|handshake| handshake.ended - handshake.began).collect()
}

/// From a swap to the first handshake with what it published, several times.
fn rotations(scene: &mut Scene, numbers: std::ops::Range<u64>) -> Durations {
    let trust = scene.generations.trust();
    let mut took = Durations::default();
    for number in numbers {
        pause(Duration::from_millis(200));
        let swap = scene.swap(number);
        let end = now() + SOON;
        while trust.served_serial(scene.sidecar.address()).unwrap() != serial(number) {
            assert!(now() < end, "{number} is not served");
        }
        took.add(now() - swap.renaming);
    }
    took
}

#[test]
fn a_flood_of_other_names_delays_neither_a_rotation_nor_a_client() {
    let mut report = Report::of("flood");
    let folder = folder();
    let directory = folder.path().to_owned();
    let mut scene =
        Scene::within(folder, Order::LinksLast, |serve: Serve| serve.by_events_only().answering());
    let (trust, length) = (scene.generations.trust(), Duration::from_secs(scaled(10, 1)));
    let quiet = handshakes(&trust, &scene, length);
    let ticks = scene.sidecar.kernel().cpu_ticks();
    let flood = flood(&directory);
    let (began, flooded) = (now(), handshakes(&trust, &scene, length));
    let took = rotations(&mut scene, 2..2 + scaled(100, 5));
    let lasted = now() - began;
    let rate = flood.finish().a_second() * EVENTS_A_RENAME;
    let ticks = scene.sidecar.kernel().cpu_ticks() - ticks;
    report.figure(format_args!("{rate} events a second for {lasted:.2?}"));
    report.figure(format_args!("handshakes before: {quiet}"));
    report.figure(format_args!("handshakes during: {flooded}"));
    report.figure(format_args!("rename to first new handshake during: {took}"));
    report.figure(format_args!(
        "CPU of the sidecar: {:.2} of one",
        ticks as f64 / 100.0 / lasted.as_secs_f64()
    ));
    report.figure(format_args!("overflows: {:?}", scene.sidecar.metric("tlsidecar_watch_overflows_total")));
    report.goal("worst rotation", took.at(1000), Duration::from_millis(100));
    report.goal("median handshake, as a ratio", ratio(flooded.median(), quiet.median()), 2.0);
    assert_eq!(scene.sidecar.metric("tlsidecar_rotations_found_by_timer_total"), Some(0.0));
    drop(scene);
    report.finish();
}

fn ratio(one: Duration, other: Duration) -> f64 {
    one.as_secs_f64() / other.as_secs_f64()
}

#[test]
fn a_storm_of_touches_hides_no_rotation() {
    let mut report = Report::of("touches");
    let mut scene = Scene::new(Order::LinksLast, |serve: Serve| serve.by_events_only().answering());
    let (trust, length) = (scene.generations.trust(), Duration::from_secs(scaled(10, 1)));
    let before = handshakes(&trust, &scene, length);
    let storm = touches(["tls.crt", "tls.key"].map(|name| scene.volume.path(name)));
    let during = handshakes(&trust, &scene, length);
    let swaps = scaled(100, 5);
    let swapped = rotations(&mut scene, 2..2 + swaps);
    let written: Durations = (2 + swaps..2 + swaps + scaled(20, 2))
        .map(|number| {
            let began = now();
            write_in_place(scene.volume.root(), &scene.generations.leaf(number));
            assert!(scene.serves(number), "{number}, written in place, is not served");
            now() - began
        })
        .collect();
    let rate = storm.finish();
    report.figure(format_args!("{} touches of both files a second", rate.a_second()));
    report.figure(format_args!("handshakes before: {before}"));
    report.figure(format_args!("handshakes during: {during}"));
    report.figure(format_args!("rename to first new handshake during: {swapped}"));
    report.figure(format_args!("written in place to first new handshake during: {written}"));
    // Files that are touched after their swap may not be whole, so they settle as those written in place do.
    report.goal("worst swap", swapped.at(1000), Duration::from_millis(1500));
    report.goal("worst pair written in place", written.at(1000), Duration::from_millis(1500));
    report.goal("median handshake, as a ratio", ratio(during.median(), before.median()), 2.0);
    comes_to_rest(&report, &scene);
    drop(scene);
    report.finish();
}

fn comes_to_rest(report: &Report, scene: &Scene) {
    pause(QUIET * 3);
    let before = scene.sidecar.kernel().cpu_ticks();
    pause(Duration::from_secs(2));
    let ticks = scene.sidecar.kernel().cpu_ticks() - before;
    report.figure(format_args!("CPU in 2 s of silence afterwards: {ticks} ticks of 10 ms"));
    assert!(until(QUIET, || ticks <= 2), "{ticks} ticks of 10 ms in 2 s after the last touch");
}
