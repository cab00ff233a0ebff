//! Many clients that want no service, beside some that do: the latter notice nothing, and nothing is left of the former.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use tlsidecar::sys::process::raise_descriptor_limit;

use crate::material::scaled;
use crate::patience::{SOON, now, pause, until};
use crate::probe::Endless;
use crate::scene::Scene;
use crate::upstream::{Script, Upstream};

/// One in so many takes longer.
const PERCENTILE: usize = 99;

/// Makes connections one after the other, each with a full handshake and an echo; how long each took.
fn good_clients(scene: &Scene) -> Vec<Endless<Result<Vec<Duration>, String>>> {
    let start = |_| {
        let (trust, address) = (scene.trust.clone(), scene.address());
        Endless::start(move |going_on| {
            let mut took = Vec::new();
            while going_on() {
                let began = now();
                let served = trust.connect(address).and_then(|mut client| client.echo(b"served as ever"));
                served.map_err(|error| format!("good client {}: {error}", took.len()))?;
                took.push(began.elapsed());
                pause(Duration::from_millis(10));
            }
            Ok(took)
        })
    };
    (0..2).map(start).collect()
}

/// All of their times, in order.
fn times(clients: Vec<Endless<Result<Vec<Duration>, String>>>) -> Vec<Duration> {
    let mut all: Vec<_> = clients.into_iter().flat_map(|client| client.finish().unwrap()).collect();
    all.sort_unstable();
    all
}

fn percentile(sorted: &[Duration]) -> Duration {
    sorted[(sorted.len() - 1) * PERCENTILE / 100]
}

/// Those that want nothing, in the numbers of a test.
struct Flood {
    silent: Vec<TcpStream>,
    garbage: Vec<TcpStream>,
    dripping: Vec<TcpStream>,
    hello: Vec<u8>,
}

impl Flood {
    fn of(scene: &Scene, silent: u64, others: u64) -> Self {
        let connect = |count: u64| -> Vec<TcpStream> { (0..count).map(|_| scene.bare()).collect() };
        let hello = scene.trust.hello();
        Self { silent: connect(silent), garbage: connect(others), dripping: connect(others), hello }
    }

    fn len(&self) -> usize {
        self.silent.len() + self.garbage.len() + self.dripping.len()
    }

    fn send_garbage(&mut self) {
        for (number, socket) in self.garbage.iter_mut().enumerate() {
            let bytes: Vec<u8> = (0..2000_usize).map(|at| (at * 31 + number * 7 + 1) as u8 | 0x80).collect();
            socket.write_all(&bytes).unwrap();
        }
    }

    /// One more byte of each hello; whoever is sent away meanwhile stays so.
    fn drip(&mut self, second: usize) {
        for socket in &mut self.dripping {
            let _ = socket.write_all(&self.hello[second..=second]);
        }
    }

    /// That each has been let go.
    fn ends(mut self) {
        for socket in self.silent.iter_mut().chain(&mut self.garbage).chain(&mut self.dripping) {
            let mut answer = Vec::new();
            // A reset is an end too; a time-out is none.
            if let Err(error) = socket.read_to_end(&mut answer) {
                assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
            }
        }
    }
}

#[test]
fn good_clients_are_served_beside_thousands_that_want_nothing() {
    raise_descriptor_limit().unwrap();
    let timeout = Duration::from_secs(scaled(10, 3));
    let (silent, others) = (scaled(2_000, 300), scaled(200, 40));
    let upstream = Upstream::tcp(Script::Echo);
    let flag = format!("{}s", timeout.as_secs());
    let scene = Scene::before(&upstream.address(), &[("--handshake-timeout", &flag)]);
    let clients = good_clients(&scene);
    pause(Duration::from_secs(scaled(5, 1)));
    let calm = times(clients);
    let (mark, before_kb) = (scene.sidecar.log.mark(), scene.kernel().resident_kb());
    let mut grown_kb = Vec::new();
    let mut beside = Vec::new();
    for round in 0..scaled(6, 3) as usize {
        let mut flood = Flood::of(&scene, silent, others);
        let all_there = now();
        let clients = good_clients(&scene);
        flood.send_garbage();
        let mut most_kb = 0;
        for second in 0..timeout.as_secs() as usize {
            flood.drip(second);
            most_kb = most_kb.max(scene.kernel().resident_kb());
            pause(Duration::from_secs(1));
        }
        beside.extend(times(clients));
        let back = until(SOON, || scene.metric("tlsidecar_connections_open") == 0.0);
        let took = all_there.elapsed();
        assert!(back, "slots are still taken after {took:?}");
        let limit = timeout + Duration::from_secs(scaled(1, 3));
        assert!(took <= limit, "all slots are free {took:?} after the last came, not {limit:?}");
        grown_kb.push(most_kb.saturating_sub(before_kb));
        eprintln!(
            "round {round}: {} clients, {} kB more, all gone after {took:?}",
            flood.len(),
            grown_kb[round]
        );
        flood.ends();
    }
    beside.sort_unstable();
    eprintln!(
        "handshake and echo, p99: {:?} of {} without a flood, {:?} of {} with it",
        percentile(&calm),
        calm.len(),
        percentile(&beside),
        beside.len()
    );
    assert!(beside.len() > calm.len(), "only {} were served", beside.len());
    let each = grown_kb[0] / (silent + 2 * others);
    assert!(each <= 16, "{each} kB for each client of a flood");
    // After the second the allocator has what it needs.
    assert!(grown_kb.last() <= Some(&(grown_kb[1] + 1024)), "each flood takes more: {grown_kb:?} kB");
    let rounds = grown_kb.len() as f64;
    check_counts(&scene, rounds * silent as f64, rounds * others as f64);
    assert!(scene.told(mark).is_empty(), "{:?}", scene.told(mark));
    scene.rests();
}

#[test]
fn clients_that_stop_within_a_record_hold_little_memory() {
    raise_descriptor_limit().unwrap();
    let count = scaled(2_000, 400);
    let upstream = Upstream::tcp(Script::Echo);
    let scene = Scene::before(&upstream.address(), &[]);
    scene.still_echoes();
    let received = "tlsidecar_socket_bytes_total{peer=\"client\",direction=\"received\"}";
    let (before_kb, before) = (scene.kernel().resident_kb(), scene.metric(received));
    let hello = scene.trust.hello();
    let crowd: Vec<TcpStream> = (0..count)
        .map(|_| {
            let mut socket = scene.bare();
            socket.write_all(&hello[..100]).unwrap();
            socket
        })
        .collect();
    scene.expect_metric(received, before + 100.0 * count as f64);
    let each = scene.kernel().resident_kb().saturating_sub(before_kb) / count;
    assert!(each <= 16, "{each} kB for each");
    scene.still_echoes();
    drop(crowd);
}

fn check_counts(scene: &Scene, silent: f64, others: f64) {
    let failed = |kind: &str| scene.metric(&format!("tlsidecar_handshake_failures_total{{kind=\"{kind}\"}}"));
    assert_eq!(failed("not_tls"), others);
    assert_eq!(failed("handshake_timeout"), silent + others);
}

#[test]
fn probes_of_a_kubelet_are_counted_and_not_worth_a_line() {
    let upstream = Upstream::tcp(Script::Echo);
    let scene = Scene::before(&upstream.address(), &[("--workers", "2")]);
    let (mark, descriptors) = (scene.sidecar.log.mark(), scene.kernel().descriptors());
    for _ in 0..100 {
        drop(scene.bare());
    }
    scene.expect_metric("tlsidecar_tcp_probes_total", 100.0);
    assert_eq!(scene.sum("tlsidecar_handshake_failures_total"), 0.0);
    assert!(scene.told(mark).is_empty(), "{:?}", scene.told(mark));
    assert!(until(SOON, || scene.kernel().descriptors() <= descriptors), "descriptors were left open");
}
