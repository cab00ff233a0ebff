//! A secret volume is swapped while clients come and go: each new handshake soon gets what is on disk, and no client
//! notices anything else.

use std::time::Duration;

use tlsidecar::demo::volume::Order;

use crate::material::{Generations, PlainPair, serial, write_in_place};
use crate::patience::{QUIET, SOON, now, pause, until};
use crate::probe::{Handshake, Prober, Talker};
use crate::secret::Scene;
use crate::sidecar::Serve;
use crate::upstream::{Script, Upstream};

const SWAPS: u64 = 20;
const BETWEEN_SWAPS: Duration = Duration::from_millis(300);

/// Every handshake succeeded, none went back to an older certificate, and all that began after a line of the log that
/// announced a certificate got that one or a newer one.
fn check_handshakes(handshakes: &[Handshake], scene: &Scene) {
    let changes = scene.sidecar.log.all(0, |line| line.says("certificate changed"));
    let mut newest = 1;
    for handshake in handshakes {
        let served = handshake.outcome.as_ref().unwrap_or_else(|error| panic!("a handshake failed: {error}"));
        let served = u64::from_str_radix(served, 16).unwrap();
        assert!(served >= newest, "{served} was served after {newest}");
        newest = served;
        let announced = changes.iter().filter(|line| line.seen < handshake.began).count() as u64;
        assert!(served > announced, "{served} was served after {announced} changes were announced");
    }
    assert!(handshakes.last().is_some_and(|last| last.ended > handshakes[0].began));
}

fn twenty_swaps(order: Order, reload_interval: &str) {
    let mut scene = Scene::new(order, |serve| serve.with("--reload-interval", reload_interval));
    let trust = scene.generations.trust();
    let talker = Talker::start(&trust, scene.sidecar.address());
    let prober = Prober::start(trust, scene.sidecar.address());
    for number in 2..=SWAPS + 1 {
        pause(BETWEEN_SWAPS);
        scene.swap(number);
    }
    assert!(scene.serves(SWAPS + 1), "the last certificate is not served");
    check_handshakes(&prober.finish(), &scene);
    let echoed = talker.finish().expect("the old connection broke");
    assert!(echoed > SWAPS, "only {echoed} messages came back");
    // The line that tells of the last one may be written after a client has seen it.
    assert!(until(SOON, || scene.sidecar.generation() > SWAPS));
    assert_eq!(scene.sidecar.generation(), SWAPS + 1, "one generation a swap");
}

#[test]
fn twenty_swaps_with_links_made_last_fail_no_handshake_and_spare_an_old_connection() {
    twenty_swaps(Order::LinksLast, "60s");
}

#[test]
fn twenty_swaps_with_links_made_first_fail_no_handshake_and_spare_an_old_connection() {
    twenty_swaps(Order::LinksFirst, "60s");
}

#[test]
fn twenty_swaps_are_followed_by_events_alone_with_links_made_last() {
    twenty_swaps(Order::LinksLast, "0");
}

#[test]
fn twenty_swaps_are_followed_by_events_alone_with_links_made_first() {
    twenty_swaps(Order::LinksFirst, "0");
}

#[test]
fn a_change_is_told_with_old_and_new_serial() {
    let mut scene = Scene::new(Order::LinksLast, Serve::by_events_only);
    let loaded = scene.sidecar.line("certificate loaded");
    assert_eq!(crate::client::canonical_serial(&loaded.text("serial")), serial(1));
    assert!(loaded.text("names").contains("localhost"), "{loaded}");
    assert!(!loaded.text("not_after").is_empty(), "{loaded}");
    scene.swap(0xab_cdef);
    let changed = scene.sidecar.line("certificate changed");
    assert_eq!(crate::client::canonical_serial(&changed.text("previous_serial")), serial(1));
    assert_eq!(crate::client::canonical_serial(&changed.text("serial")), serial(0xab_cdef));
    for field in ["not_after", "previous_not_after", "trigger", "took_us"] {
        assert!(!changed.text(field).is_empty(), "{field} is missing: {changed}");
    }
    assert_eq!((loaded.number("generation"), changed.number("generation")), (Some(1), Some(2)));
    assert!(scene.sidecar.log.all(0, |line| !line.is_json_object()).is_empty(), "a line is not JSON");
}

#[test]
fn a_swap_of_equal_content_is_no_change() {
    let mut scene = Scene::new(Order::LinksLast, Serve::by_events_only);
    let mark = scene.sidecar.log.mark();
    for _ in 0..5 {
        scene.swap(1);
        pause(Duration::from_millis(60));
    }
    pause(QUIET);
    assert_eq!(scene.sidecar.generation(), 1);
    let told = scene.sidecar.log.all(mark, crate::log::Line::is_above_debug);
    assert!(told.is_empty(), "{told:?}");
    scene.swap(2);
    assert!(scene.serves(2));
}

#[test]
fn watches_descriptors_and_instances_stay_the_same_over_swaps() {
    let mut scene = Scene::new(Order::LinksLast, Serve::by_events_only);
    scene.swap(2);
    assert!(scene.serves(2));
    // A connection that just ended may hold its descriptors for a moment.
    pause(QUIET);
    let kernel = scene.sidecar.kernel();
    let count = || (kernel.inotify_instances(), kernel.inotify_watches(), kernel.descriptors());
    let before = count();
    assert_eq!(before.0, 1, "one inotify descriptor for the process");
    for number in 3..=12 {
        scene.swap(number);
        assert!(scene.serves(number));
    }
    assert!(until(SOON, || count() == before), "{:?} became {:?}", before, count());
}

#[test]
fn plain_files_written_in_place_are_followed() {
    let generations = Generations::new();
    let pair = PlainPair::of(&generations.leaf(1));
    let upstream = Upstream::tcp(Script::Echo);
    let sidecar = Serve::new(&upstream.address(), &pair.certificate(), &pair.key()).by_events_only().ready();
    let began = now();
    write_in_place(pair.folder.path(), &generations.leaf(2));
    let changed = sidecar.line("certificate changed");
    assert!(changed.seen >= began);
    assert_eq!(generations.trust().served_serial(sidecar.address()).unwrap(), serial(2));
    assert_eq!(sidecar.generation(), 2, "nothing half-written was put in force");
}
