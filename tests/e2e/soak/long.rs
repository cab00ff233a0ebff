//! A long life of rotations must leave nothing behind: no descriptor, no kernel watch, no memory, no old generation.

use std::time::Duration;

use tlsidecar::demo::volume::Order;

use crate::dice::dice;
use crate::figures::Report;
use crate::material::scaled;
use crate::patience::{QUIET, SOON, pause, until};
use crate::probe::Pump;
use crate::secret::Scene;
use crate::sidecar::Serve;

/// More than this much more memory than after the first ten rotations is a leak: a generation takes some kilobytes.
const GROWN_KB_MAX: u64 = 512;
/// Connections under load; each may have moved its buffers about.
const CONNECTIONS: usize = 32;
const GROWN_LOADED_KB_MAX: u64 = 4096;

/// What rotations might leave behind, and the memory.
fn belongings(scene: &Scene) -> ((usize, usize, usize), u64) {
    let kernel = scene.sidecar.kernel();
    ((kernel.descriptors(), kernel.inotify_watches(), kernel.inotify_instances()), kernel.resident_kb())
}

fn compare(report: &Report, scene: &Scene, before: ((usize, usize, usize), u64), grown_kb_max: u64) {
    let same = until(SOON, || belongings(scene).0 == before.0);
    let after = belongings(scene);
    report.figure(format_args!(
        "descriptors, kernel watches, inotify instances: {:?}, then {:?}",
        before.0, after.0
    ));
    report.figure(format_args!("resident memory: {} kB, then {} kB", before.1, after.1));
    assert!(same, "{:?} became {:?}", before.0, after.0);
    let grown_kb = after.1.saturating_sub(before.1);
    assert!(grown_kb <= grown_kb_max, "{grown_kb} kB more than after the first rotations");
    assert_eq!(scene.sidecar.metric("tlsidecar_live_generations"), Some(1.0));
    assert_eq!(scene.sidecar.metric("tlsidecar_rotations_found_by_timer_total"), Some(0.0));
    assert_eq!(scene.sidecar.metric("tlsidecar_watch_overflows_total"), Some(0.0));
}

#[test]
fn many_rotations_leave_nothing_behind() {
    let report = Report::of("long, idle");
    let mut scene = Scene::new(Order::LinksLast, |serve: Serve| serve.by_events_only().answering());
    let rotations = scaled(1_000, 60);
    let mut rotate = |numbers: std::ops::RangeInclusive<u64>| {
        for number in numbers {
            scene.swap(number);
            assert!(scene.serves(number), "{number} is not served");
        }
        // A connection that just ended may hold its descriptors for a moment.
        pause(QUIET);
        belongings(&scene)
    };
    let before = rotate(2..=11);
    rotate(12..=rotations + 1);
    report.figure(format_args!("{rotations} rotations, each seen on the wire"));
    compare(&report, &scene, before, GROWN_KB_MAX);
    report.finish();
}

#[test]
fn many_rotations_under_load_leave_nothing_behind() {
    let (report, mut dice) = (Report::of("long, loaded"), dice("long, loaded"));
    let mut scene = Scene::new(Order::LinksLast, |serve: Serve| serve.by_events_only().answering());
    let (trust, address) = (scene.generations.trust(), scene.sidecar.address());
    let rotations = scaled(5_000, 60);
    let mut rotate = |numbers: std::ops::RangeInclusive<u64>| {
        let pump = Pump::start(&trust, address, CONNECTIONS);
        for number in numbers {
            scene.swap(number);
            pause(Duration::from_millis(dice.below(40) as u64));
            if number % 10 == 1 {
                assert!(scene.serves(number), "{number} is not served");
            }
        }
        let pumped = pump.finish().expect("a connection that pumped broke");
        pause(QUIET);
        (pumped, belongings(&scene))
    };
    let (_, before) = rotate(2..=11);
    let (pumped, _) = rotate(12..=rotations + 1);
    report.figure(format_args!("{rotations} rotations, {} MB pumped meanwhile", pumped / 1_000_000));
    report.figure(format_args!("{} generations were published", scene.sidecar.generation()));
    compare(&report, &scene, before, GROWN_LOADED_KB_MAX);
    report.finish();
}
