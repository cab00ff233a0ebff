//! Limits of how many come in: what is too much waits or is reset, is counted and told, and is let in as soon as it may.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::mpsc::channel;
use std::time::Duration;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, socket};

use crate::client::{Client, End, Trust};
use crate::log::Line;
use crate::patience::{QUIET, SOON, now, pause, until};
use crate::scene::Scene;
use crate::upstream::{Script, Upstream};

fn reached(limit: &str) -> String {
    format!("tlsidecar_limits_reached_total{{limit=\"{limit}\"}}")
}

fn paused(limit: &str) -> String {
    format!("tlsidecar_accepting_paused_workers{{limit=\"{limit}\"}}")
}

/// The lines that tell of a limit.
fn told_of(scene: &Scene, limit: &str) -> Vec<Line> {
    let of_limit = |line: &Line| line.text("message").contains("limit is") && line.text("limit") == limit;
    scene.sidecar.log.all(0, of_limit)
}

/// That a limit that lasts was told once, in a warning.
fn was_told(scene: &Scene, limit: &str) {
    assert!(until(SOON, || !told_of(scene, limit).is_empty()), "{limit} is not told");
    let told = told_of(scene, limit);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].text("level").eq_ignore_ascii_case("warn"), "{}", told[0]);
}

/// Connects and echoes on a thread of its own; each that has been served says so and stays.
struct Crowd {
    served: std::sync::mpsc::Receiver<Result<Client, String>>,
}

impl Crowd {
    fn of(count: usize, trust: &Trust, address: SocketAddr) -> Self {
        let (done, served) = channel();
        for number in 0..count {
            let (trust, done) = (trust.clone(), done.clone());
            std::thread::spawn(move || {
                let outcome = trust.connect(address).and_then(|mut client| {
                    client.echo(format!("client {number}").as_bytes())?;
                    Ok(client)
                });
                // The test may have seen enough.
                let _ = done.send(outcome.map_err(|error| error.to_string()));
            });
        }
        Self { served }
    }

    fn next(&self) -> Client {
        self.served.recv_timeout(SOON).expect("nobody else is served").unwrap()
    }

    fn nobody_else(&self) {
        if let Ok(outcome) = self.served.recv_timeout(QUIET) {
            panic!("one too many is served: {outcome:?}");
        }
    }
}

#[test]
fn clients_beyond_a_rate_wait_and_are_all_served() {
    let (rate, clients) = (20, 70);
    let upstream = Upstream::tcp(Script::Echo);
    let began = now();
    let scene = Scene::before(&upstream.address(), &[("--accept-rate", "20")]);
    let crowd = Crowd::of(clients, &scene.trust, scene.address());
    let mut open = Vec::new();
    for count in 1..=clients {
        open.push(crowd.next());
        // A second's worth at once, and then so many a second; later is always possible.
        let most = f64::from(rate) * (1.0 + began.elapsed().as_secs_f64());
        assert!(count as f64 <= most, "{count} were accepted, not {most} at most");
    }
    assert!(scene.metric(&reached("accept_rate")) >= 1.0);
    assert_eq!(scene.metric("tlsidecar_connections_accepted_total"), clients as f64);
    was_told(&scene, "accept_rate");
    open.iter_mut().for_each(|client| client.echo(b"not limited any more").unwrap());
}

#[test]
fn waiting_for_a_rate_costs_nothing() {
    let upstream = Upstream::tcp(Script::Echo);
    let scene = Scene::before(&upstream.address(), &[("--accept-rate", "1")]);
    let waiting: Vec<TcpStream> = (0..50).map(|_| scene.bare()).collect();
    scene.expect_metric(&paused("accept_rate"), 1.0);
    let spent = scene.ticks_of_a_second();
    assert!(spent <= 3, "{spent} ticks of 10 ms in a second");
    drop(waiting);
}

/// A connection from an address of this host of the test's choice.
fn from(source: [u8; 4], address: SocketAddr) -> TcpStream {
    let [a, b, c, d] = source;
    let fd: OwnedFd = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
    bind(fd.as_raw_fd(), &SockaddrIn::new(a, b, c, d, 0)).unwrap();
    connect(fd.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, address.port())).unwrap();
    fd.into()
}

#[test]
fn a_client_with_too_many_connections_is_reset_and_others_are_not() {
    let upstream = Upstream::tcp(Script::Echo);
    let scene =
        Scene::before(&upstream.address(), &[("--max-connections-per-client", "3"), ("--workers", "2")]);
    let mut open: Vec<Client> = (0..3).map(|_| scene.connect()).collect();
    for _ in 0..20 {
        let mut refused = scene.bare();
        let error = refused.read(&mut [0]).expect_err("it was not reset");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
    let mut neighbour = scene.trust.over(from([127, 0, 0, 2], scene.address())).unwrap();
    neighbour.echo(b"I am somebody else").unwrap();
    open.iter_mut().for_each(|client| client.echo(b"we were first").unwrap());
    let refused = "tlsidecar_connections_refused_total{limit=\"client_connections\"}";
    assert_eq!((scene.metric(refused), scene.metric(&reached("client_connections"))), (20.0, 1.0));
    was_told(&scene, "client_connections");
    drop(open.pop());
    assert!(until(SOON, || scene.trust.connect(scene.address()).is_ok()), "its place is not free again");
    assert_eq!(told_of(&scene, "client_connections").len(), 1);
}

/// Clients that have their connections and clients that wait, with the kernel's choice of the worker they wait for.
fn each_place_is_taken_again(workers: &str) {
    let (places, clients) = (6, 24);
    let upstream = Upstream::tcp(Script::Echo);
    let scene = Scene::before(&upstream.address(), &[("--max-connections", "6"), ("--workers", workers)]);
    let crowd = Crowd::of(clients, &scene.trust, scene.address());
    let mut open: Vec<Client> = (0..places).map(|_| crowd.next()).collect();
    crowd.nobody_else();
    assert_eq!(scene.metric("tlsidecar_connections_open"), 6.0);
    assert!(scene.sum("tlsidecar_accepting_paused_workers") >= 1.0);
    was_told(&scene, "connections");
    // One at a time, then some at once.
    for freed in [1, 1, 1, 6, 2, 4, 3] {
        drop(open.drain(..freed));
        open.extend((0..freed).map(|_| crowd.next()));
    }
    scene.expect_metric("tlsidecar_connections_open", 6.0);
    scene.rests();
}

#[test]
fn a_place_that_gets_free_is_taken_by_a_client_that_waits() {
    each_place_is_taken_again("1");
}

#[test]
fn a_place_that_gets_free_is_taken_by_a_client_that_waits_for_whichever_worker() {
    each_place_is_taken_again("4");
}

#[test]
fn handshakes_are_limited_over_all_workers_and_connections_are_not() {
    let upstream = Upstream::tcp(Script::Echo);
    let scene = Scene::before(
        &upstream.address(),
        &[("--max-handshakes", "3"), ("--workers", "3"), ("--handshake-timeout", "1h")],
    );
    let mut open: Vec<Client> = (0..9).map(|_| scene.connect()).collect();
    let mut silent: Vec<TcpStream> = (0..3).map(|_| scene.bare()).collect();
    scene.expect_metric("tlsidecar_handshakes_open", 3.0);
    let crowd = Crowd::of(3, &scene.trust, scene.address());
    crowd.nobody_else();
    assert_eq!(scene.metric("tlsidecar_handshakes_open"), 3.0);
    assert!(scene.metric(&reached("handshakes")) >= 1.0);
    drop(silent.pop());
    let late: Vec<Client> = (0..3).map(|_| crowd.next()).collect();
    open.iter_mut().for_each(|client| client.echo(b"nothing happened here").unwrap());
    drop(late);
}

#[test]
fn a_limit_that_nobody_waits_for_is_not_reached() {
    let upstream = Upstream::tcp(Script::Echo);
    let scene = Scene::before(&upstream.address(), &[("--max-connections", "2")]);
    let mut open: Vec<Client> = (0..2).map(|_| scene.connect()).collect();
    open.iter_mut().for_each(|client| client.echo(b"just enough room").unwrap());
    assert_eq!((scene.metric(&reached("connections")), scene.metric(&paused("connections"))), (0.0, 0.0));
    let mut third = scene.bare();
    scene.expect_metric(&paused("connections"), 1.0);
    third.write_all(b"x").unwrap();
    drop(open.pop());
    scene.expect_metric(&paused("connections"), 0.0);
}

#[test]
fn connections_of_an_age_end_properly_and_not_all_at_once() {
    let upstream = Upstream::tcp(Script::Echo);
    let scene = Scene::before(&upstream.address(), &[("--max-connection-age", "4s")]);
    let began = now();
    let connect = |_| {
        let (trust, address) = (scene.trust.clone(), scene.address());
        std::thread::spawn(move || {
            let end = trust.connect(address).unwrap().read_rest();
            (end, began.elapsed())
        })
    };
    let connecting: Vec<_> = (0..30).map(connect).collect();
    let ends: Vec<_> = connecting.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert!(ends.iter().all(|(end, _)| *end == (Vec::new(), End::Notified)), "{ends:?}");
    let (first, last) =
        (ends.iter().map(|(_, at)| at).min().unwrap(), ends.iter().map(|(_, at)| at).max().unwrap());
    assert!(*first >= Duration::from_millis(3600), "one ended after {first:?}");
    assert!(*last - *first > Duration::from_millis(150), "all ended within {:?}", *last - *first);
    scene.expect_metric("tlsidecar_connections_closed_total{reason=\"maximum_age\"}", 30.0);
}

#[test]
fn a_busy_connection_of_an_age_does_not_look_complete() {
    let upstream = Upstream::tcp(Script::Exchange { seed: 5, length: 1_000_000_000 });
    let scene = Scene::before(&upstream.address(), &[("--max-connection-age", "1s")]);
    let mut client = scene.connect();
    assert_eq!(client.hash_rest().1, End::Broken);
    scene.expect_metric("tlsidecar_connections_closed_total{reason=\"maximum_age\"}", 1.0);
}

#[test]
fn the_end_of_a_limit_is_told_too() {
    let upstream = Upstream::tcp(Script::Echo);
    let scene = Scene::before(&upstream.address(), &[("--max-connections", "1")]);
    let first = scene.connect();
    let waiting = scene.bare();
    was_told(&scene, "connections");
    drop(first);
    drop(waiting);
    let over = |line: &Line| line.says("a limit is no longer reached") && line.text("limit") == "connections";
    assert!(scene.sidecar.log.wait(0, SOON * 2, over).is_some(), "its end is not told");
    pause(QUIET);
    scene.rests();
}
