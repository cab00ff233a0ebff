//! A swap at any moment of a start must not be missed.

use std::time::Duration;

use tempfile::TempDir;
use tlsidecar::demo::volume::{Order, Volume};

use crate::figures::Report;
use crate::material::{Generations, folder, payload, scaled, serial};
use crate::patience::{SOON, now, pause, until};
use crate::sidecar::Serve;
use crate::upstream::{Script, Upstream};

/// Files that are younger are given time at a start, and a swap within that time is hard to miss.
const OLD_ENOUGH: Duration = Duration::from_millis(1100);
/// Volumes that grow old together.
const BATCH: u32 = 50;
/// Starts without a swap, to see how long one takes.
const UNDISTURBED: u32 = 3;

/// A volume that has held generation 1 for a while.
struct Prepared {
    volume: Volume,
    _folder: TempDir,
}

fn prepared(count: u32, generations: &Generations) -> Vec<Prepared> {
    let old = generations.leaf(1);
    let prepare = |number: u32| {
        let folder = folder();
        let order = if number.is_multiple_of(2) { Order::LinksLast } else { Order::LinksFirst };
        let mut volume = Volume::create(folder.path().join("secret"), order).unwrap();
        volume.write(&payload(&old)).unwrap();
        Prepared { volume, _folder: folder }
    };
    let all = (0..count).map(prepare).collect();
    pause(OLD_ENOUGH);
    all
}

fn serve(upstream: &Upstream, volume: &Volume) -> Serve {
    Serve::new(&upstream.address(), &volume.path("tls.crt"), &volume.path("tls.key")).by_events_only()
}

/// How long a start takes here, from the spawn until it listens: the longest of a few.
fn length_of_a_start(upstream: &Upstream, generations: &Generations) -> Duration {
    let starts = prepared(UNDISTURBED, generations).into_iter().map(|prepared| {
        let began = now();
        serve(upstream, &prepared.volume).ready().line("listening").seen - began
    });
    starts.max().unwrap()
}

#[test]
fn a_swap_at_any_moment_of_the_start_is_served() {
    let generations = Generations::new();
    let trust = generations.trust();
    let new = generations.leaf(2);
    let upstream = Upstream::tcp(Script::Echo);
    let rounds = u32::try_from(scaled(3_000, 24)).unwrap();
    let (start, mut at_once) = (length_of_a_start(&upstream, &generations), 0);
    let mut volumes = Vec::new();
    for round in 0..rounds {
        if volumes.is_empty() {
            volumes = prepared(BATCH.min(rounds), &generations);
        }
        let mut prepared = volumes.pop().unwrap();
        let serve = serve(&upstream, &prepared.volume);
        let sidecar = std::thread::scope(|scope| {
            scope.spawn(|| {
                // The moments are spread evenly over the start: every round another one.
                pause(start * round / rounds);
                prepared.volume.write(&payload(&new)).unwrap();
            });
            serve.ready()
        });
        let served = until(SOON, || trust.served_serial(sidecar.address()).unwrap() == serial(2));
        assert!(served, "round {round} of {rounds} is stale");
        at_once += u32::from(sidecar.generation() == 1);
    }
    let mut report = Report::of("starts");
    report.figure(format_args!("{rounds} swaps during starts of {start:.2?}, 0 stale"));
    report.figure(format_args!(
        "{at_once} starts found the new pair at once, {} by an event",
        rounds - at_once
    ));
    // Where one of the two hardly happens, the moments were not those of a start.
    report.goal("a twentieth of all, found in the rarer way:", rounds / 20, at_once.min(rounds - at_once));
    report.finish();
}
