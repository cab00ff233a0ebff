//! A swap at any moment of a start must not be missed, and a long life of swaps must leave nothing behind.

use std::time::Duration;

use tlsidecar::demo::volume::{Order, Volume};

use crate::material::{Generations, folder, payload, scaled, serial};
use crate::patience::{QUIET, SOON, pause, until};
use crate::sidecar::Serve;
use crate::upstream::{Script, Upstream};

/// Within this time a start has opened its watches and read its first pair.
const START: Duration = Duration::from_millis(60);

#[test]
fn a_swap_at_any_moment_of_the_start_is_served() {
    let generations = Generations::new();
    let trust = generations.trust();
    let (old, new) = (generations.leaf(1), generations.leaf(2));
    let upstream = Upstream::tcp(Script::Echo);
    let rounds = u32::try_from(scaled(3_000, 24)).unwrap();
    for round in 0..rounds {
        let folder = folder();
        let order = if round % 2 == 0 { Order::LinksLast } else { Order::LinksFirst };
        let mut volume = Volume::create(folder.path().join("secret"), order).unwrap();
        volume.write(&payload(&old)).unwrap();
        let serve = Serve::new(&upstream.address(), &volume.path("tls.crt"), &volume.path("tls.key"));
        let sidecar = std::thread::scope(|scope| {
            scope.spawn(|| {
                // The moments are spread evenly over the start: every round another one.
                pause(START * round / rounds);
                volume.write(&payload(&new)).unwrap();
            });
            serve.by_events_only().ready()
        });
        let served = until(SOON, || trust.served_serial(sidecar.address()).unwrap() == serial(2));
        assert!(served, "round {round} of {rounds} is stale");
    }
}

#[test]
fn many_rotations_leave_nothing_behind() {
    let folder = folder();
    let generations = Generations::new();
    let trust = generations.trust();
    let mut volume = Volume::create(folder.path().join("secret"), Order::LinksLast).unwrap();
    volume.write(&payload(&generations.leaf(1))).unwrap();
    let upstream = Upstream::tcp(Script::Echo);
    let serve = Serve::new(&upstream.address(), &volume.path("tls.crt"), &volume.path("tls.key"));
    let sidecar = serve.by_events_only().ready();
    let kernel = sidecar.kernel();
    let mut rotate = |numbers: std::ops::RangeInclusive<u64>| {
        for number in numbers {
            volume.write(&payload(&generations.leaf(number))).unwrap();
            assert!(until(SOON, || trust.served_serial(sidecar.address()).unwrap() == serial(number)));
        }
    };
    rotate(2..=50);
    // A connection that just ended may hold its descriptors for a moment.
    pause(QUIET);
    let count = || (kernel.descriptors(), kernel.inotify_watches(), kernel.inotify_instances());
    let (before, resident_kb) = (count(), kernel.resident_kb());
    rotate(51..=scaled(1_000, 200));
    assert!(until(SOON, || count() == before), "{before:?} became {:?}", count());
    let grown_kb = kernel.resident_kb().saturating_sub(resident_kb);
    assert!(grown_kb < 1024, "{grown_kb} kB more than after fifty rotations");
}
