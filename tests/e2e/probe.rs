//! Clients that never stop while a test does something: one opens connections, one keeps a connection busy, one pumps.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::client::{Client, Trust};
use crate::patience::{now, pause};

const INTERVAL: Duration = Duration::from_millis(5);

/// One handshake of a probe.
#[derive(Clone, Debug)]
pub(crate) struct Handshake {
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
    /// The serial that was served, or what went wrong.
    pub(crate) outcome: Result<String, String>,
}

/// A thread that runs until it is asked for its result.
#[derive(Debug)]
pub(crate) struct Endless<T> {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<T>,
}

impl<T: Send + 'static> Endless<T> {
    pub(crate) fn start(work: impl FnOnce(&dyn Fn() -> bool) -> T + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = std::thread::spawn(move || work(&|| !seen.load(Ordering::SeqCst)));
        Self { stop, thread }
    }

    pub(crate) fn finish(self) -> T {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().unwrap()
    }
}

/// Makes a new connection every few milliseconds and notes what certificate it got.
#[derive(Debug)]
pub(crate) struct Prober(Endless<Vec<Handshake>>);

impl Prober {
    pub(crate) fn start(trust: Trust, address: SocketAddr) -> Self {
        Self(Endless::start(move |going_on| {
            let mut handshakes = Vec::new();
            while going_on() {
                let began = now();
                let outcome = trust.served_serial(address).map_err(|error| error.to_string());
                handshakes.push(Handshake { began, ended: now(), outcome });
                pause(INTERVAL);
            }
            handshakes
        }))
    }

    pub(crate) fn finish(self) -> Vec<Handshake> {
        self.0.finish()
    }
}

/// Keeps one connection echoing, each message different from the one before.
#[derive(Debug)]
pub(crate) struct Talker(Endless<Result<u64, String>>);

impl Talker {
    /// Connects before it returns, so that the connection is older than whatever follows.
    pub(crate) fn start(trust: &Trust, address: SocketAddr) -> Self {
        let mut client = trust.connect(address).unwrap();
        Self(Endless::start(move |going_on| {
            let mut number = 0_u64;
            while going_on() {
                let message = format!("message {number}").repeat(1 + (number % 97) as usize);
                client.echo(message.as_bytes()).map_err(|error| format!("message {number}: {error}"))?;
                number += 1;
                pause(INTERVAL);
            }
            Ok(number)
        }))
    }

    /// How many messages came back, or what went wrong with the first that did not.
    pub(crate) fn finish(self) -> Result<u64, String> {
        self.0.finish()
    }
}

/// Bytes under way on each connection of a [`Pump`]: less than the buffers between take, so that nobody waits for itself.
const PUMPED_BYTES: usize = 64 * 1024;

/// Sends a block on many connections of an echo and takes all of them back, again and again, as fast as it can.
#[derive(Debug)]
pub(crate) struct Pump(Endless<Result<u64, String>>);

impl Pump {
    /// Connects before it returns.
    pub(crate) fn start(trust: &Trust, address: SocketAddr, connections: usize) -> Self {
        let mut clients: Vec<Client> = (0..connections).map(|_| trust.connect(address).unwrap()).collect();
        Self(Endless::start(move |going_on| {
            let (mut block, mut pumped) = (vec![0; PUMPED_BYTES], 0);
            while going_on() {
                for client in &mut clients {
                    client.write_all(&block).map_err(|error| format!("after {pumped} bytes: {error}"))?;
                }
                for client in &mut clients {
                    client
                        .read_exact(&mut block)
                        .map_err(|error| format!("after {pumped} bytes: {error}"))?;
                    pumped += block.len() as u64;
                }
            }
            Ok(pumped)
        }))
    }

    /// How many bytes came back, or what went wrong.
    pub(crate) fn finish(self) -> Result<u64, String> {
        self.0.finish()
    }
}
