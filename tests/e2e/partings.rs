//! How connections end when one side is slow, gone or rude, and how the process ends while there are some.

use std::io::{Read, Write};
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::sys::socket::{setsockopt, sockopt};

use crate::client::{Client, End};
use crate::material::scaled;
use crate::patience::{SOON, now, pause, until};
use crate::pattern::{Hash, Pattern};
use crate::scene::Scene;
use crate::upstream::{Script, Upstream};

fn pattern_hash(seed: u64, length: u64) -> Hash {
    Pattern::new(seed).write_to(&mut std::io::sink(), length).unwrap()
}

#[test]
fn a_reply_that_takes_longer_than_any_timer_but_is_never_silent_for_long_arrives() {
    let (timer, delay) = (Duration::from_secs(scaled(120, 2)), Duration::from_secs(scaled(90, 1)));
    let (length, parts) = (scaled(50_000_000, 2_000_000), scaled(50, 5));
    let pause = Duration::from_millis(scaled(1_000, 700));
    let script = Script::ReplySlowlyAfterEnd { delay, seed: 31, length, parts, pause };
    let upstream = Upstream::tcp(script);
    let flag = format!("{}s", timer.as_secs());
    let scene = Scene::before(&upstream.address(), &[("--half-close-timeout", &flag)]);
    let began = now();
    let mut client = scene.connect();
    client.wait_for_bytes(2 * timer);
    client.write_all(b"the request").unwrap();
    client.end_with_notify().unwrap();
    assert_eq!(client.hash_rest(), (pattern_hash(31, length), End::Notified));
    eprintln!("{length} bytes within {:?} after a silence of {delay:?}", began.elapsed());
    assert!(began.elapsed() > timer, "it was not slower than the timer");
    drop(client);
    scene.expect_metric("tlsidecar_connections_closed_total{reason=\"finished\"}", 1.0);
}

#[test]
fn a_reader_that_is_slower_than_any_timer_but_never_stops_gets_the_whole_reply() {
    // So much more than the kernel's buffers hold that for seconds there is no room to write another byte.
    let (length, piece, pieces) = (12_000_000, 20_000, 40);
    let upstream = Upstream::tcp(Script::ReplyAfterEnd { delay: Duration::ZERO, seed: 5, length });
    let scene = Scene::before(&upstream.address(), &[("--half-close-timeout", "1s")]);
    let socket = scene.bare();
    // A larger one tells the sender less often that there is room.
    setsockopt(&socket, sockopt::RcvBuf, &65_536).unwrap();
    let mut client = scene.trust.over(socket).unwrap();
    client.write_all(b"the request").unwrap();
    client.end_with_notify().unwrap();
    let mut got = vec![0; piece * pieces];
    for part in got.chunks_mut(piece) {
        client.read_exact(part).unwrap();
        pause(Duration::from_millis(100));
    }
    let (rest, end) = client.read_rest();
    got.extend(rest);
    let mut sent = Vec::new();
    Pattern::new(5).write_to(&mut sent, length).unwrap();
    assert_eq!((got.len(), end), (sent.len(), End::Notified));
    assert!(got == sent, "the reply has changed on its way");
}

#[test]
fn a_peer_that_is_gone_after_its_end_is_given_up_by_a_timer() {
    let (delay, length) = (Duration::from_secs(3600), 1);
    let upstream = Upstream::tcp(Script::ReplyAfterEnd { delay, seed: 1, length });
    let scene = Scene::before(&upstream.address(), &[("--half-close-timeout", "1s")]);
    let descriptors = scene.kernel().descriptors();
    let mut clients: Vec<Client> = (0..20).map(|_| scene.connect()).collect();
    for client in &mut clients {
        client.write_all(b"the request").unwrap();
        client.end_with_notify().unwrap();
    }
    scene.expect_metric("tlsidecar_connections_closed_total{reason=\"half_close_timeout\"}", 20.0);
    assert!(until(SOON, || scene.kernel().descriptors() <= descriptors), "descriptors were left open");
    for mut client in clients {
        assert_eq!(client.read_rest().1, End::Broken, "what was cut must not look complete");
    }
}

/// Resets in the middle of transfers, of which nothing is left and nothing is told.
fn resets(script: Script, times: u64, cut: impl Fn(Client)) -> Scene {
    let upstream = Upstream::tcp(script);
    let scene = Scene::before(&upstream.address(), &[]);
    cut(scene.connect());
    assert!(until(SOON, || scene.metric("tlsidecar_connections_open") == 0.0));
    let (mark, descriptors) = (scene.sidecar.log.mark(), scene.kernel().descriptors());
    for _ in 0..times {
        cut(scene.connect());
    }
    assert!(until(SOON, || scene.metric("tlsidecar_connections_open") == 0.0));
    let left = || scene.kernel().descriptors();
    assert!(until(SOON, || left() <= descriptors), "{descriptors} descriptors became {}", left());
    assert!(scene.told(mark).is_empty(), "{:?}", scene.told(mark));
    scene.rests();
    scene
}

#[test]
fn resets_of_clients_in_the_middle_of_transfers_leave_nothing_behind() {
    let times = scaled(500, 60);
    let scene = resets(Script::Exchange { seed: 4, length: 50_000_000 }, times, |mut client| {
        client.write_all(b"and a request").unwrap();
        client.read_exact(&mut [0; 50_000]).unwrap();
        client.reset();
    });
    scene.expect_metric("tlsidecar_connections_closed_total{reason=\"client_reset\"}", times as f64 + 1.0);
}

#[test]
fn resets_of_the_upstream_in_the_middle_of_transfers_leave_nothing_behind() {
    let times = scaled(500, 60);
    let scene = resets(Script::ResetAfter { length: 300_000 }, times, |mut client| {
        client.read_exact(&mut [0; 50_000]).unwrap();
        client.write_all(b"x").unwrap();
        assert_eq!(client.read_rest().1, End::Broken);
    });
    scene.expect_metric("tlsidecar_connections_closed_total{reason=\"upstream_reset\"}", times as f64 + 1.0);
}

/// 200 connections in the middle of something, half of which end by themselves within 2 seconds.
fn ends_with_200_connections(drain_timeout: &str, others_end: bool) -> (i32, Vec<End>) {
    let upstream = Upstream::tcp(Script::Echo);
    let mut scene = Scene::before(
        &upstream.address(),
        &[("--workers", "2"), ("--drain-timeout", drain_timeout), ("--drain-delay", "300ms")],
    );
    let mut clients: Vec<Client> = (0..200).map(|_| scene.connect()).collect();
    clients.iter_mut().for_each(|client| client.echo(b"in the middle").unwrap());
    assert!(scene.is_ready());
    scene.sidecar.signal(Signal::SIGTERM);
    assert!(until(SOON, || !scene.is_ready()), "it is still ready");
    // Whoever has not heard of it yet is served.
    scene.connect().echo(b"am I late?").unwrap();
    assert!(scene.sidecar.log.all(0, |line| line.says("draining")).is_empty(), "the delay was over too soon");
    scene.sidecar.line("draining");
    assert!(until(SOON, || scene.trust.connect(scene.address()).is_err()), "it still accepts");
    let mut ends = Vec::new();
    let mut leave = |client: &mut Client| {
        client.echo(b"almost done").unwrap();
        client.end_with_notify().unwrap();
        ends.push(client.read_rest().1);
    };
    let began = now();
    for client in clients.iter_mut().take(100) {
        leave(client);
        pause(Duration::from_millis(15));
    }
    eprintln!("100 of 200 ended within {:?}", began.elapsed());
    if others_end {
        clients.iter_mut().skip(100).for_each(&mut leave);
    }
    let code = scene.sidecar.exit_code(SOON);
    if !others_end {
        ends.extend(clients.iter_mut().skip(100).map(|client| client.read_rest().1));
    }
    (code, ends)
}

#[test]
fn a_process_whose_connections_all_end_in_time_ends_well() {
    let (code, ends) = ends_with_200_connections("30s", true);
    assert_eq!((code, ends), (0, vec![End::Notified; 200]));
}

#[test]
fn a_process_that_cuts_connections_says_so_to_them_and_in_its_exit_code() {
    let (code, ends) = ends_with_200_connections("3s", false);
    // Those that were cut were at rest, so nothing of theirs was lost, and they are told that it is the end.
    assert_eq!((code, ends), (1, vec![End::Notified; 200]));
}

#[test]
fn a_second_signal_ends_the_delay_before_a_drain_too() {
    let upstream = Upstream::tcp(Script::Echo);
    let mut scene = Scene::before(&upstream.address(), &[("--drain-delay", "1h")]);
    scene.sidecar.signal(Signal::SIGTERM);
    scene.sidecar.line("no longer ready, still accepting");
    scene.still_echoes();
    scene.sidecar.signal(Signal::SIGTERM);
    scene.sidecar.exit_code(SOON);
}
