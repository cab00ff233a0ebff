//! A swap at any moment of a start must not be missed.

use std::time::Duration;

use tlsidecar::demo::volume::{Order, Volume};

use crate::figures::Report;
use crate::material::{Generations, folder, payload, scaled, serial};
use crate::patience::{SOON, now, pause, until};
use crate::secret::Scene;
use crate::sidecar::Serve;
use crate::upstream::{Script, Upstream};

/// How long a start takes here, from the spawn until it listens: the longest of a few.
fn length_of_a_start() -> Duration {
    let starts = (0..3).map(|_| {
        let began = now();
        let scene = Scene::new(Order::LinksLast, Serve::by_events_only);
        scene.sidecar.line("listening").seen - began
    });
    starts.max().unwrap()
}

#[test]
fn a_swap_at_any_moment_of_the_start_is_served() {
    let generations = Generations::new();
    let trust = generations.trust();
    let (old, new) = (generations.leaf(1), generations.leaf(2));
    let upstream = Upstream::tcp(Script::Echo);
    let rounds = u32::try_from(scaled(3_000, 24)).unwrap();
    let (start, mut at_once) = (length_of_a_start(), 0);
    for round in 0..rounds {
        let folder = folder();
        let order = if round % 2 == 0 { Order::LinksLast } else { Order::LinksFirst };
        let mut volume = Volume::create(folder.path().join("secret"), order).unwrap();
        volume.write(&payload(&old)).unwrap();
        let serve = Serve::new(&upstream.address(), &volume.path("tls.crt"), &volume.path("tls.key"));
        let sidecar = std::thread::scope(|scope| {
            scope.spawn(|| {
                // The moments are spread evenly over the start: every round another one.
                pause(start * round / rounds);
                volume.write(&payload(&new)).unwrap();
            });
            serve.by_events_only().ready()
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
    // Where one of the two never happens, the moments were not those of a start.
    report.goal(
        "starts of the rarer kind: a twentieth of all, or",
        rounds / 20,
        at_once.min(rounds - at_once),
    );
    report.finish();
}
