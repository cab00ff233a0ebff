//! Clients of every bad manner, an upstream that comes and goes, and rotations, all at once: good clients are served
//! whenever there is an upstream, and when the noise is over nothing is left of it.

use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use tlsidecar::demo::volume::{Order, Volume};

use crate::client::Trust;
use crate::dice::{Dice, dice};
use crate::figures::Report;
use crate::material::{Generations, folder, payload, scaled};
use crate::patience::{QUIET, SOON, now, pause, until};
use crate::probe::Endless;
use crate::sidecar::{Serve, Sidecar};
use crate::upstream::{Script, Upstream};

/// Connections that each of the bad clients keeps open.
const OPEN: usize = 200;
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(1);
/// Connections leave buffers behind in the allocator; ten times as many of them leave no more.
const GROWN_KB_MAX: u64 = 8 * 1024;

/// What a client does that never completes a handshake.
#[derive(Clone, Copy, Debug)]
enum Manner {
    Silence,
    /// The beginning of a ClientHello that never goes on.
    Beginning,
    Garbage,
    Reset,
}

const MANNERS: [Manner; 4] = [Manner::Silence, Manner::Beginning, Manner::Garbage, Manner::Reset];

fn misbehave(manner: Manner, address: SocketAddr) -> std::io::Result<Option<TcpStream>> {
    let mut socket = TcpStream::connect(address)?;
    match manner {
        Manner::Silence => {}
        Manner::Beginning => socket.write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")?,
        Manner::Garbage => socket.write_all(b"no TLS at all\r\n\r\n")?,
        Manner::Reset => {
            setsockopt(&socket, sockopt::Linger, &libc::linger { l_onoff: 1, l_linger: 0 })?;
            return Ok(None);
        }
    }
    Ok(Some(socket))
}

/// Opens connections without an end, and keeps some of them; how many, and those that are still open on this side.
fn bad_clients(address: SocketAddr, mut dice: Dice) -> Endless<(usize, Vec<TcpStream>)> {
    Endless::start(move |going_on| {
        let (mut held, mut count) = (Vec::new(), 0);
        while going_on() {
            count += 1;
            // A sidecar that has had enough may reset what was sent to it.
            if let Ok(Some(socket)) = misbehave(dice.pick(&MANNERS), address) {
                held.push(socket);
            }
            if held.len() > OPEN {
                held.swap_remove(dice.below(OPEN));
            }
            pause(Duration::from_millis(1));
        }
        (count, held)
    })
}

/// What became of a good client's attempts.
#[derive(Debug, Default)]
struct Attempts {
    echoed: usize,
    /// The handshake was good; then the upstream was not there.
    abandoned: usize,
    /// There was no handshake.
    failed: Vec<String>,
}

fn good_client(trust: Trust, address: SocketAddr) -> Endless<Attempts> {
    Endless::start(move |going_on| {
        let mut attempts = Attempts::default();
        while going_on() {
            match trust.connect(address) {
                Ok(mut client) => match client.echo(b"a small request") {
                    Ok(()) => attempts.echoed += 1,
                    Err(error) => {
                        assert_ne!(error.kind(), ErrorKind::InvalidData, "another's bytes");
                        attempts.abandoned += 1;
                    }
                },
                Err(error) => attempts.failed.push(error.to_string()),
            }
            pause(Duration::from_millis(1));
        }
        attempts
    })
}

/// An upstream that is there for a while and gone for a while; how often.
fn flapping_upstream(path: PathBuf, mut dice: Dice) -> Endless<usize> {
    Endless::start(move |going_on| {
        let mut count = 0;
        while going_on() {
            let upstream = upstream(&path);
            pause(Duration::from_millis(50 + dice.below(300) as u64));
            drop(upstream);
            pause(Duration::from_millis(dice.below(100) as u64));
            count += 1;
        }
        count
    })
}

fn upstream(path: &Path) -> Upstream {
    // The socket of the one before.
    let _ = std::fs::remove_file(path);
    Upstream::unix(path, Script::Echo)
}

fn rotations(mut volume: Volume, generations: Generations) -> Endless<u64> {
    Endless::start(move |going_on| {
        let mut number = 1;
        while going_on() {
            number += 1;
            volume.write(&payload(&generations.leaf(number))).unwrap();
            pause(Duration::from_millis(200));
        }
        number
    })
}

#[test]
fn bad_clients_and_a_flapping_upstream_leave_nothing_behind() {
    let (mut report, mut dice) = (Report::of("churn"), dice("churn"));
    let (folder, generations) = (folder(), Generations::new());
    let mut volume = Volume::create(folder.path().join("secret"), Order::LinksLast).unwrap();
    volume.write(&payload(&generations.leaf(1))).unwrap();
    let socket = folder.path().join("upstream.sock");
    let sidecar =
        Serve::new(&format!("unix:{}", socket.display()), &volume.path("tls.crt"), &volume.path("tls.key"))
            .with("--handshake-timeout", &format!("{}s", HANDSHAKE_TIMEOUT.as_secs()))
            .answering()
            .ready();
    let trust = generations.trust();
    let mut noise = |report: &Report, seconds| noise(report, &sidecar, &trust, (&socket, &mut dice), seconds);
    let held = noise(&report, 1);
    let before = at_rest(&mut report, &sidecar);
    drop(held);
    let rotating = rotations(volume, generations);
    let held = noise(&report, scaled(60, 3));
    let rotated = rotating.finish();
    let after = at_rest(&mut report, &sidecar);
    drop(held);
    report.figure(format_args!("{rotated} generations; descriptors {}, then {}", before.0, after.0));
    report.figure(format_args!("resident memory: {} kB, then {} kB", before.1, after.1));
    assert_eq!(before.0, after.0, "descriptors were left behind");
    assert!(after.1 <= before.1 + GROWN_KB_MAX);
    let told = sidecar.log.all(0, |line| {
        let level = line.text("level");
        (level == "WARN" || level == "ERROR") && !line.says("the upstream can't be reached")
    });
    assert!(told.is_empty(), "{told:?}");
    assert_eq!(sidecar.metric("tlsidecar_connections_closed_total{reason=\"bug\"}"), Some(0.0));
    let _upstream = upstream(&socket);
    (0..20).for_each(|_| trust.connect(sidecar.address()).unwrap().echo(b"as if nothing had been").unwrap());
    report.figure("20 of 20 clients are served afterwards");
    report.finish();
}

/// Everybody at once, for so long; what the bad clients still hold.
fn noise(
    report: &Report,
    sidecar: &Sidecar,
    trust: &Trust,
    (socket, dice): (&Path, &mut Dice),
    seconds: u64,
) -> Vec<TcpStream> {
    let flapping = flapping_upstream(socket.to_owned(), Dice::new(dice.below(usize::MAX) as u64));
    let bad = bad_clients(sidecar.address(), Dice::new(dice.below(usize::MAX) as u64));
    let good = [(); 2].map(|()| good_client(trust.clone(), sidecar.address()));
    pause(Duration::from_secs(seconds));
    let attempts = good.map(Endless::finish);
    let ((bad, held), flapped) = (bad.finish(), flapping.finish());
    for Attempts { echoed, abandoned, failed } in attempts {
        report.figure(format_args!(
            "good client: {echoed} echoed, {abandoned} without an upstream, {} failed",
            failed.len()
        ));
        assert!(failed.is_empty(), "{failed:?}");
        assert!(echoed > 0);
    }
    report.figure(format_args!("bad clients: {bad} connections; the upstream went {flapped} times"));
    held
}

/// Descriptors and memory once all connections are over, which those that are held do not become by themselves.
fn at_rest(report: &mut Report, sidecar: &Sidecar) -> (usize, u64) {
    let open = || sidecar.metric("tlsidecar_connections_open").unwrap();
    let (began, held) = (now(), open());
    assert!(until(SOON, || open() == 0.0), "{} connections are open", open());
    report.figure(format_args!("{held} connections were open when the noise ended"));
    report.goal("all of them gone after", now() - began, HANDSHAKE_TIMEOUT + Duration::from_secs(1));
    // The question itself takes a descriptor.
    pause(QUIET);
    (sidecar.kernel().descriptors(), sidecar.kernel().resident_kb())
}
