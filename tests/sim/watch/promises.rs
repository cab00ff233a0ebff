//! What the watcher promises beside serving what is on disk: how soon, how often it looks, and what it tells.

use std::time::Duration;

use tlsidecar::watch::{Publication, Trigger};

use super::change::{Change, path};
use super::driver::Delivery;
use super::stories::{Teller, Turns};

fn told(story: &str) -> Teller {
    let mut teller = Teller::new(Turns::AfterEachChange, Delivery::AsTheyCome);
    teller.tell(story);
    teller
}

#[test]
fn an_atomic_publication_is_taken_without_waiting() {
    let rows = [
        ("a volume's swap", "mkdir /v/c; swap /v/c 1; start; swap /v/c 2"),
        ("the old order of links", "mkdir /v/c; swap-old /v/c 1; start; swap-old /v/c 2"),
        (
            "a link to a release",
            "mkdir /v/1 /v/2; put /v/1 1; put /v/2 2; ln 1 /v/c; start; wait 2000; lnf 2 /v/c",
        ),
        (
            "a link made to a release that is there",
            "mkdir /v/1 /v/2; put /v/1 1; put /v/2 2; ln 1 /v/c; start; wait 2000; rm /v/c; ln 2 /v/c",
        ),
        ("an exchanged directory", "mkdir /v/c /n; put /v/c 1; put /n 2; start; wait 9; xchg /v/c /n"),
        ("a renamed ancestor", "mkdir /v/c /n/c; put /v/c 1; put /n/c 2; start; wait 9; mv /v /o; mv /n /v"),
        ("a renamed directory", "mkdir /v/c /n; put /v/c 1; put /n 2; start; wait 9; mv /v/c /o; mv /n /v/c"),
    ];
    for (name, story) in rows {
        let mut teller = told(story);
        assert_eq!(teller.driver().served(), Some(2), "{name}");
        assert_eq!(teller.driver().publications(), [Publication::Found, Publication::Atomic], "{name}");
        assert_eq!(teller.driver().commits[1].trigger, Trigger::Event, "{name}");
    }
}

#[test]
fn a_change_file_by_file_is_taken_after_quiet_time() {
    let rows = [
        ("in place", "mkdir /v/c; put /v/c 1; start; put /v/c 2"),
        ("by rename", "mkdir /v/c; put /v/c 1; start; rename /v/c 2"),
        ("in the directory of a generation", "mkdir /v/c; swap /v/c 1; start; put /v/c/..data 2"),
        (
            "in the directory of the second generation",
            "mkdir /v/c; swap /v/c 9; start; swap /v/c 1; put /v/c/..data 2",
        ),
        ("in a directory made anew", "mkdir /v/c; put /v/c 1; start; rm /v/c; mkdir /v/c; put /v/c 2"),
        (
            "into a directory that is already linked",
            "mkdir /v/c /v/n; put /v/c 1; start; rm /v/c; ln n /v/c; put /v/n 2",
        ),
    ];
    for (name, story) in rows {
        let mut teller = told(story);
        teller.driver().advance(45);
        assert_eq!(teller.driver().served(), Some(1), "{name}");
        teller.driver().advance(10);
        assert_eq!(teller.driver().served(), Some(2), "{name}");
        assert_eq!(teller.driver().publications().last(), Some(&Publication::Settled), "{name}");
    }
}

#[test]
fn a_change_between_two_looks_that_is_not_one_look_up_settles_too() {
    let rows = [
        ("in place", "mkdir /v/c; put /v/c 1; start; put /v/c 2"),
        ("by rename", "mkdir /v/c; put /v/c 1; start; rename /v/c 2"),
        (
            "in the directory of the second generation",
            "mkdir /v/c; swap /v/c 9; start; swap /v/c 1; wait 0; put /v/c/..data 2",
        ),
        (
            "in a directory made anew",
            "mkdir /v/c; put /v/c 1; start; wait 0; rm /v/c; mkdir /v/c; put /v/c 2",
        ),
        (
            "by two links",
            "mkdir /v/c /v/1 /v/2; put /v/1 1; put /v/2 2; ln 1 /v/a; ln 1 /v/b; start /v/a/tls.crt /v/b/tls.key; \
             wait 0; lnf 2 /v/a; lnf 2 /v/b",
        ),
    ];
    for (name, story) in rows {
        let mut teller = Teller::new(Turns::WhileWaiting, Delivery::AsTheyCome);
        teller.tell(story);
        teller.tell("wait 45");
        assert_eq!(teller.driver().served(), Some(1), "{name}");
        teller.tell("wait 10");
        assert_eq!(teller.driver().served(), Some(2), "{name}");
    }
}

#[test]
fn where_a_path_breaks_is_told() {
    let rows = [
        ("start", "/v does not exist"),
        ("mkdir /v; start", "/v/c does not exist"),
        ("mkdir /v/c; swap /v/c 1; rm /v/c/..data; start", "/v/c/..data does not exist"),
        ("mkdir /v; crt /v/c 1; start", "/v/c is not a directory"),
        ("mkdir /v/c/tls.crt; start", "/v/c/tls.crt is a directory, not a file"),
        ("mkdir /v/c; fifo /v/c/tls.crt; start", "/v/c/tls.crt is not a regular file"),
        ("mkdir /v; ln d /v/c; ln c /v/d; start", "/v/c is one symbolic link too many"),
        ("mkdir /v/c; seal /v/c; start", "/v/c/tls.crt may not be looked up: permission denied"),
        ("mkdir /v /w/x; ln ../w/x/../y /v/c; start", "/w/y does not exist"),
    ];
    for (story, expected) in rows {
        assert_eq!(told(story).driver().unresolved[0], expected, "{story}");
    }
}

#[test]
fn files_just_written_at_start_are_given_time() {
    let mut teller = Teller::new(Turns::AfterEachChange, Delivery::AsTheyCome);
    teller.tell("mkdir /v/c; start; put /v/c 1");
    assert_eq!(teller.driver().served(), None);
    teller.driver().advance(60);
    assert_eq!(teller.driver().publications(), [Publication::Settled]);
}

#[test]
fn events_without_end_do_not_delay_a_change_for_ever() {
    let mut teller = told("mkdir /v/c; put /v/c 1; start; put /v/c 2");
    for _ in 0..1500 {
        teller.apply(&Change::Touch(path("/v/c/tls.crt")));
    }
    assert_eq!(teller.driver().served(), Some(2));
    assert_eq!(teller.driver().publications(), [Publication::Found, Publication::Storm]);
    assert!(teller.driver().passes < 90, "{} passes for 1500 events", teller.driver().passes);
}

#[test]
fn nothing_happens_while_nothing_happens() {
    let mut teller = told("mkdir /v/c; swap /v/c 1; start; swap /v/c 2; wait 2000");
    let passes = teller.driver().passes;
    teller.driver().advance(3_600_000);
    assert_eq!(teller.driver().passes, passes);
    assert_eq!(teller.driver().watcher.deadline(), None);
}

#[test]
fn events_about_other_names_cause_no_look() {
    let mut teller = told("mkdir /v/c; put /v/c 1; start; wait 2000");
    let passes = teller.driver().passes;
    teller.tell("noise /v/c 500; noise /v 500; noise / 500");
    assert_eq!(teller.driver().passes, passes);
}

#[test]
fn a_lost_event_causes_one_look() {
    let mut teller = told("mkdir /v/c; put /v/c 1; start; wait 2000; limit 4");
    let passes = teller.driver().passes;
    teller.turns = Turns::WhileWaiting;
    teller.tell("noise /v 50; wait 2000");
    assert_eq!(teller.driver().passes, passes + 1);
}

#[test]
fn a_cycle_of_rotations_leaves_no_watch_behind() {
    let mut teller = told("mkdir /v/c; swap /v/c 1; start; wait 2000");
    let watches = teller.driver().watcher.watch_count();
    for generation in 2..200 {
        teller.tell(&format!("swap /v/c {generation}; rm /v/c/..dated_{}; wait 100", generation - 1));
        assert_eq!(teller.driver().watcher.watch_count(), watches);
        teller.driver().assert_watches_exact();
    }
    assert_eq!(teller.driver().commits.len(), 199);
}

#[test]
fn the_timer_finds_what_no_event_tells_and_says_so() {
    let mut teller = Teller::new(Turns::AfterEachChange, Delivery::AsTheyCome);
    teller.interval = Some(Duration::from_secs(60));
    teller.tell("mkdir /v/c; put /v/c 1; start; want 1; store /v/c 2; wait 50000; want 1; missed 0; wait 20000; want 2");
    teller.tell("missed 1; mode polling; wait 3700000; mode events; put /v/c 3; want 3; missed 1");
    assert_eq!(teller.driver().commits[1].trigger, Trigger::Timer);
}

#[test]
fn the_timer_keeps_its_pace() {
    let mut teller = Teller::new(Turns::AfterEachChange, Delivery::AsTheyCome);
    teller.interval = Some(Duration::from_secs(60));
    teller.tell("mkdir /v/c; put /v/c 1; start; wait 2000");
    let passes = teller.driver().passes;
    teller.tell("wait 6000000");
    let looks = teller.driver().passes - passes;
    assert!((90..=112).contains(&looks), "{looks} looks in a hundred minutes");
}

#[test]
fn a_failure_is_tried_again_at_growing_pauses() {
    let mut teller = Teller::new(Turns::AfterEachChange, Delivery::AsTheyCome);
    teller.interval = Some(Duration::from_secs(60));
    teller.tell("mkdir /v/c; put /v/c 1; start; wait 2000; key /v/c/tls.key 7");
    let passes = teller.driver().passes;
    teller.tell("wait 10000");
    let early = teller.driver().passes - passes;
    assert!((10..=16).contains(&early), "{early} looks in ten seconds");
    teller.tell("wait 100000");
    let late = teller.driver().passes - passes - early;
    assert!((17..=24).contains(&late), "{late} looks in a hundred seconds");
}

#[test]
fn a_signal_looks_at_once() {
    let mut teller = told("mkdir /v/c; put /v/c 1; start; wait 2000; store /v/c 2; wait 10000; want 1");
    let now = teller.driver().now();
    teller.driver().watcher.look_now(Trigger::Signal, now);
    teller.tell("want 2; missed 0");
    assert_eq!(teller.driver().commits[1].trigger, Trigger::Signal);
}

#[test]
fn a_single_file_mount_is_named_but_not_polled() {
    let mut teller =
        told("mkdir /v/c /h; put /v/c 1; put /h 1; bind /h/tls.crt /v/c/tls.crt; start; want 1; mode events");
    let reasons: Vec<_> = teller.driver().watcher.reasons().map(ToString::to_string).collect();
    assert_eq!(reasons.len(), 1);
    assert!(reasons[0].starts_with("/v/c/tls.crt is mounted as a single file"), "{reasons:?}");
}

#[test]
fn a_link_the_kernel_reads_otherwise_is_followed_its_way() {
    // Here the walk is misled by a mount that only whole paths cross, as one that appears when it is used.
    let mut teller = told("mkdir /v/c; put /v/c 1; start; wait 2000");
    teller.driver().world.detour = Some((path("/v/c/tls.crt"), path("/n/tls.crt")));
    teller.tell("mkdir /n; crt /n/tls.crt 2; key /v/c/tls.key 2; want 2; mode polling");
    teller.driver().world.detour = None;
    teller.tell("crt /v/c/tls.crt 2; want 2; mode events");
}

#[test]
fn our_own_limits_are_named_as_such_and_answered_by_polling() {
    let reasons = |teller: &mut Teller| -> Vec<String> {
        teller.driver().watcher.reasons().map(ToString::to_string).collect()
    };
    let deep = |name: &str, count: usize| format!("/{name}").repeat(count);
    let at = deep("d", 256);
    let mut teller = told(&format!("mkdir {at}; put {at} 1; start {at}"));
    let told_reasons = reasons(&mut teller);
    assert_eq!(told_reasons.len(), 2, "{told_reasons:?}");
    let is_named = |reason: &String| reason.contains("takes more than 256 look-ups");
    assert!(told_reasons.iter().all(is_named), "{told_reasons:?}");
    teller.tell(&format!("want 1; mode polling; put {at} 2; wait 6000; want 2; missed 0"));

    let at = deep("d", 255);
    let mut teller = told(&format!("mkdir {at}; put {at} 1; start {at}; want 1; mode events"));
    assert_eq!(reasons(&mut teller).len(), 0);

    let (one, other) = (deep("d", 255), deep("e", 255));
    let story = format!(
        "mkdir {one} {other}; put {one} 1; put {other} 1; start {one}/tls.crt {other}/tls.key; want 1; mode polling"
    );
    assert_eq!(reasons(&mut told(&story)), ["the paths take more than the 512 watches that are held"]);
}

#[test]
fn watched_directories_are_told() {
    let mut teller = told("mkdir /v/c; swap /v/c 1; start; wait 100");
    let expected: [&[u8]; 4] = [b"/", b"/v", b"/v/c", b"/v/c/..dated_1"];
    assert_eq!(teller.driver().watcher.directories(), expected);
    assert_eq!(teller.driver().watcher.watch_count(), 6);
}
