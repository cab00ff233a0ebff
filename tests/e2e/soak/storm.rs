//! Swaps faster than anybody can follow: what is served keeps up, skips what is past, and ends with the last one.

use std::time::Duration;

use tlsidecar::demo::authority::Leaf;
use tlsidecar::demo::volume::{Order, Swap};

use crate::figures::{Durations, Report};
use crate::log::Line;
use crate::material::{payload, scaled, serial};
use crate::patience::{QUIET, SOON, now, pause, until};
use crate::probe::Prober;
use crate::secret::Scene;
use crate::sidecar::Serve;

const INTERVAL: Duration = Duration::from_millis(1);
/// Swaps of a short burst, and how many bursts.
const BURST: u64 = 50;
const BURSTS: u64 = 20;

/// Swaps once a millisecond; the last swap. A swap that is late is not made up for by later ones.
fn storm(scene: &mut Scene, leaves: &[Leaf]) -> Swap {
    let mut last = None;
    for leaf in leaves {
        let next = now() + INTERVAL;
        last = Some(scene.volume.write(&payload(leaf)).unwrap());
        pause(next.saturating_duration_since(now()));
    }
    last.unwrap()
}

/// From the last rename to the end of the first handshake with what it published.
fn last_one_served(scene: &Scene, last: &Swap, number: u64) -> Duration {
    let (trust, end) = (scene.generations.trust(), now() + SOON);
    while trust.served_serial(scene.sidecar.address()).unwrap() != serial(number) {
        assert!(now() < end, "{number} is not served");
    }
    now() - last.renaming
}

#[test]
fn ten_thousand_swaps_a_millisecond_apart_end_with_the_last_one() {
    let mut report = Report::of("storm");
    let mut scene = Scene::new(Order::LinksLast, |serve: Serve| serve.by_events_only().answering());
    let swaps = scaled(10_000, 200);
    let leaves: Vec<Leaf> =
        (2..=swaps + 1 + BURST * BURSTS).map(|number| scene.generations.leaf(number)).collect();
    let (long, short) = leaves.split_at(usize::try_from(swaps).unwrap());
    let prober = Prober::start(scene.generations.trust(), scene.sidecar.address());
    let began = now();
    let last = storm(&mut scene, long);
    let lasted = now() - began;
    let took = last_one_served(&scene, &last, swaps + 1);
    let handshakes = prober.finish();
    check(&handshakes.into_iter().map(|handshake| handshake.outcome).collect::<Vec<_>>());
    report.figure(format_args!("{swaps} swaps in {lasted:.2?}; the last one was served after {took:.2?}"));
    tell_generations(&report, &scene, swaps);
    report.goal("last one served after", took, Duration::from_millis(50));

    let bursts: Durations = (1..)
        .zip(short.chunks(usize::try_from(BURST).unwrap()))
        .map(|(burst, leaves)| {
            pause(QUIET);
            let last = storm(&mut scene, leaves);
            last_one_served(&scene, &last, swaps + 1 + burst * BURST)
        })
        .collect();
    report.figure(format_args!("last one of a burst of {BURST} served after: {bursts}"));
    comes_to_rest(&report, &scene);
    drop(scene);
    report.finish();
}

/// Every handshake succeeded, which a pair that does not match cannot, and none went back to an older certificate.
fn check(outcomes: &[Result<String, String>]) {
    let mut newest = 1;
    for outcome in outcomes {
        let served = outcome.as_ref().unwrap_or_else(|error| panic!("a handshake failed: {error}"));
        let served = u64::from_str_radix(served, 16).unwrap();
        assert!(served >= newest, "{served} was served after {newest}");
        newest = served;
    }
    eprintln!("storm: {} handshakes meanwhile, 0 failed, none with an older certificate", outcomes.len());
}

fn tell_generations(report: &Report, scene: &Scene, swaps: u64) {
    let number = |line: &Line| u64::from_str_radix(&line.text("serial"), 16).unwrap();
    let reached = || scene.sidecar.log.all(0, |line| line.says("certificate changed"));
    assert!(until(SOON, || reached().last().is_some_and(|line| number(line) == swaps + 1)));
    let published: Vec<u64> = reached().iter().map(number).collect();
    assert!(published.windows(2).all(|pair| pair[0] < pair[1]), "published out of order: {published:?}");
    report.figure(format_args!("{} generations were published for {swaps} swaps", published.len()));
    let told = scene.sidecar.log.all(0, |line| line.text("level") == "WARN");
    assert!(told.is_empty(), "{told:?}");
}

fn comes_to_rest(report: &Report, scene: &Scene) {
    // What follows the last handshake may still run.
    pause(QUIET);
    let kernel = scene.sidecar.kernel();
    let before = kernel.cpu_ticks();
    pause(Duration::from_secs(3));
    let ticks = kernel.cpu_ticks() - before;
    assert!(ticks <= 2, "{ticks} ticks of 10 ms in 3 s after the last swap");
    report.figure(format_args!("CPU in 3 s of silence afterwards: {ticks} ticks of 10 ms"));
    report.figure(format_args!(
        "looks at the files: {:?}",
        scene.sidecar.metric("tlsidecar_looks_total{trigger=\"event\"}")
    ));
    assert_eq!(scene.sidecar.metric("tlsidecar_rotations_found_by_timer_total"), Some(0.0));
}
