//! Bulk: beside slow readers it costs neither memory nor time, and beside rotations nothing is lost or late.

use std::io::Read;
use std::time::{Duration, Instant};

use crate::client::{Client, End};
use crate::material::scaled;
use crate::patience::{now, pause};
use crate::pattern::Pattern;
use crate::probe::Endless;
use crate::scene::Scene;
use crate::upstream::{Script, Upstream};

/// What one connection may hold: four buffers of 65 KiB, and a little for its state.
const CONNECTION_KB: u64 = 300;

/// What a worker lends besides while few connections are at work: sixteen buffers of 520 KiB.
const LARGE_BUFFERS_KB: u64 = 16 * 520;

#[test]
fn slow_readers_cost_little_memory_and_no_time() {
    let (readers, seconds) = (20, scaled(30, 4));
    // Much more than they read, and than the sockets on the way hold.
    let upstream = Upstream::tcp(Script::Exchange { seed: 9, length: 1_000_000_000 });
    let scene = Scene::before(&upstream.address(), &[]);
    let before_kb = scene.kernel().resident_kb();
    let clients: Vec<Client> = (0..readers).map(|_| scene.connect()).collect();
    let slow = Endless::start(move |going_on| {
        let mut clients = clients;
        while going_on() {
            clients.iter_mut().for_each(|client| client.read_exact(&mut [0; 256]).unwrap());
            pause(Duration::from_millis(250));
        }
    });
    // What the sockets hold goes through at full speed first.
    pause(Duration::from_secs(2));
    let ticks = scene.kernel().cpu_ticks();
    let mut most_kb = 0;
    for _ in 0..seconds {
        pause(Duration::from_secs(1));
        most_kb = most_kb.max(scene.kernel().resident_kb());
    }
    let spent = scene.kernel().cpu_ticks() - ticks;
    let held_kb = most_kb.saturating_sub(before_kb);
    eprintln!("{readers} readers of 1 KB/s: {held_kb} kB, {spent} ticks of 10 ms in {seconds} s");
    assert!(held_kb <= readers * CONNECTION_KB + LARGE_BUFFERS_KB, "{held_kb} kB for {readers} connections");
    assert!(spent <= 2 * seconds, "{spent} ticks of 10 ms in {seconds} s");
    slow.finish();
}

/// Sends a pattern while it receives another, connection after connection.
fn pump(scene: &Scene, length: u64) -> Endless<u64> {
    let (trust, address) = (scene.trust.clone(), scene.address());
    let expected = Pattern::new(62).write_to(&mut std::io::sink(), length).unwrap();
    Endless::start(move |going_on| {
        let mut transfers = 0;
        while going_on() || transfers == 0 {
            let mut client = trust.connect(address).unwrap();
            let mut sender = client.sender();
            let sending = std::thread::spawn(move || {
                Pattern::new(61).write_to(&mut sender, length).unwrap();
                sender.end_with_notify().unwrap();
            });
            assert_eq!(client.hash_rest(), (expected.clone(), End::Notified));
            sending.join().unwrap();
            transfers += 1;
        }
        transfers
    })
}

/// Echoes small messages over one connection; when each began and how long it took.
fn keep_alive(scene: &Scene) -> Endless<Vec<(Instant, Duration)>> {
    let mut client = scene.connect();
    Endless::start(move |going_on| {
        let mut took = Vec::new();
        while going_on() {
            let began = now();
            client.echo(b"a small request").unwrap();
            took.push((began, began.elapsed()));
            pause(Duration::from_millis(2));
        }
        took
    })
}

fn p99(took: &[(Instant, Duration)]) -> Duration {
    let mut sorted: Vec<_> = took.iter().map(|(_, took)| *took).collect();
    sorted.sort_unstable();
    sorted.get(sorted.len().saturating_sub(1) * 99 / 100).copied().unwrap_or_default()
}

/// Rotations come in so many blocks.
const BLOCKS: u64 = 4;

#[test]
fn rotations_in_the_middle_of_transfers_cost_no_byte_and_no_connection() {
    let (rotations, pumps, length) = (scaled(200, 20), scaled(10, 3), scaled(20_000_000, 2_000_000));
    let upstream = Upstream::tcp(Script::ExchangeOrEcho { seed: 62, length });
    let mut scene = Scene::before(&upstream.address(), &[("--workers", "2")]);
    let small = keep_alive(&scene);
    let pumping: Vec<_> = (0..pumps).map(|_| pump(&scene, length)).collect();
    // Calm and rotations take turns, so that what else this machine does meets both.
    let mut rotating = Vec::new();
    for block in 0..BLOCKS {
        pause(Duration::from_millis(scaled(5_000, 300)));
        let begin = now();
        for number in 0..rotations / BLOCKS {
            scene.rotate(2 + block * (rotations / BLOCKS) + number);
            pause(Duration::from_millis(scaled(100, 20)));
        }
        rotating.push(begin..now());
    }
    let transfers: u64 = pumping.into_iter().map(Endless::finish).sum();
    let (during, calm): (Vec<_>, Vec<_>) =
        small.finish().into_iter().partition(|(at, _)| rotating.iter().any(|span| span.contains(at)));
    eprintln!(
        "{transfers} transfers, {rotations} rotations; p99 of small requests {:?} without, {:?} beside rotations",
        p99(&calm),
        p99(&during)
    );
    let sent = Pattern::new(61).write_to(&mut std::io::sink(), length).unwrap();
    let received = (0..=transfers).filter(|_| upstream.report().unwrap() == sent).count() as u64;
    assert_eq!(received, transfers, "all but the small requests have the hash of what was sent");
    assert_eq!(scene.sidecar.generation(), rotations + 1);
    scene.expect_metric("tlsidecar_connections_open", 0.0);
}
