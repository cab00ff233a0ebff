//! A running sidecar, its files and its admin endpoint. Knows no behaviour.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant, SystemTime};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;
use tlsidecar::demo::authority::{Authority, Leaf};
use tlsidecar::demo::client::Client;
use tlsidecar::demo::upstream::Upstream;
use tlsidecar::demo::volume::{Order, Volume};

use crate::asking::{Answer, ask_at, connect};

/// How long to wait for what should come at once, on a machine that is busy with other things.
pub(crate) const SOON: Duration = Duration::from_secs(20);

#[expect(clippy::disallowed_methods, reason = "the clock of the tests is read here alone")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Asks until there is an answer, or fails with `what`.
#[expect(clippy::disallowed_methods, reason = "the one bounded poll that all waits go through")]
pub(crate) fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let end = now() + SOON;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(now() < end, "still waiting: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A pause that is part of what a client does.
#[expect(clippy::disallowed_methods, reason = "the client's own slowness is what is tested")]
pub(crate) fn pause(length: Duration) {
    std::thread::sleep(length);
}

/// A sidecar over a secret volume, which ends with this value.
pub(crate) struct Sidecar {
    child: Child,
    lines: Receiver<Value>,
    pub(crate) admin: String,
    pub(crate) volume: Volume,
    authority: Authority,
    _upstream: Upstream,
    pub(crate) folder: TempDir,
}

impl Sidecar {
    /// With an empty volume, answering at a port of 127.0.0.1.
    pub(crate) fn start(flags: &[&str]) -> Self {
        let sidecar = Self::start_at("127.0.0.1:0", flags);
        // An answer tells that the files have been looked at for the first time.
        assert_eq!(sidecar.ask("/livez").code, "200");
        sidecar
    }

    /// With an empty volume, answering at `admin`, in which `%` stands for a folder of its own.
    pub(crate) fn start_at(admin: &str, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let volume = Volume::create(folder.path().join("tls"), Order::LinksLast).unwrap();
        let upstream = Upstream::start().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_tlsidecar"))
            .args(["serve", "--listen=127.0.0.1:0", "--log-format=json"])
            .arg(format!("--upstream={}", upstream.address()))
            .arg(format!("--cert={}", volume.path("tls.crt").display()))
            .arg(format!("--key={}", volume.path("tls.key").display()))
            .arg(format!("--admin={}", admin.replace('%', folder.path().to_str().unwrap())))
            .args(flags)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let values = stderr.lines().map_while(Result::ok).flat_map(|line| serde_json::from_str(&line));
            values.take_while(|value: &Value| sender.send(value.clone()).is_ok()).for_each(drop);
        });
        let authority = Authority::new("root", wall()).unwrap();
        let admin = String::new();
        let mut sidecar = Self { child, lines, admin, volume, authority, _upstream: upstream, folder };
        sidecar.admin = sidecar.line("admin endpoint")["address"].as_str().unwrap().to_owned();
        sidecar
    }

    /// The next line of the log that says `message`.
    pub(crate) fn line(&self, message: &str) -> Value {
        loop {
            let line = self.lines.recv_timeout(SOON).unwrap_or_else(|_| panic!("no line says {message}"));
            if line["message"] == message {
                return line;
            }
        }
    }

    /// Puts a new certificate in force, and waits until it is served.
    pub(crate) fn rotate(&mut self) -> Leaf {
        let leaf = self.authority.issue().unwrap();
        let pair = [("tls.crt", leaf.chain_pem.as_bytes()), ("tls.key", leaf.key_pem.as_bytes())];
        self.volume.write(&pair).unwrap();
        let serial = serial(&leaf);
        until("the new certificate is served", || {
            let certificate = &self.status()["sets"][0]["in_force"]["certificate"];
            (certificate["serial"] == serial.as_str()).then_some(())
        });
        leaf
    }

    /// Where TLS clients connect, once they may.
    pub(crate) fn listening(&self) -> SocketAddr {
        self.line("listening")["address"].as_str().unwrap().parse().unwrap()
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.authority.root_der()).unwrap()
    }

    pub(crate) fn connect(&self) -> TcpStream {
        connect(&self.admin)
    }

    /// What comes back for these bytes until the end.
    pub(crate) fn send(&self, bytes: &[u8]) -> Answer {
        let mut stream = self.connect();
        stream.write_all(bytes).unwrap();
        Answer::read(&mut stream).unwrap()
    }

    pub(crate) fn ask(&self, path: &str) -> Answer {
        ask_at(&self.admin, path)
    }

    pub(crate) fn status(&self) -> Value {
        serde_json::from_str(&self.ask("/status").body).unwrap()
    }

    /// The value of a series, as it stands in `/metrics`.
    pub(crate) fn metric(&self, series: &str) -> Option<f64> {
        self.ask("/metrics").metric(series)
    }

    /// Waits until a series has a value.
    pub(crate) fn metric_becomes(&self, series: &str, value: f64) {
        until(&format!("{series} is {value}"), || (self.metric(series) == Some(value)).then_some(()));
    }

    pub(crate) fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    pub(crate) fn terminate(&self) {
        kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGTERM).unwrap();
    }

    /// The exit code, once there is one.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        until("the process ends", || self.child.try_wait().unwrap()).code()
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The serial of a leaf as the status has it.
pub(crate) fn serial(leaf: &Leaf) -> String {
    let hex = format!("{:X}", leaf.serial);
    if hex.len() % 2 == 1 { format!("0{hex}") } else { hex }
}

#[expect(clippy::disallowed_methods, reason = "certificates count their lives from the calendar")]
fn wall() -> SystemTime {
    SystemTime::now()
}
