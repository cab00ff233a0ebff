//! The sidecar as a child process: its flags, its log, its signals, its end.
//! It never outlives the test, and a failing test prints the end of the log.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Seek};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::asking::{Answer, ask_at};
use crate::log::{Line, Log};
use crate::patience::{SOON, until};
use crate::procfs::Proc;

const RUN_LIMIT: Duration = Duration::from_secs(60);

/// A program with arguments, and without the sidecar's options from this process's environment.
fn command(program: impl AsRef<OsStr>, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Command {
    let mut command = Command::new(program);
    command.args(arguments.into_iter().map(Into::into));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TLSIDECAR_") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}

/// The binary under test.
fn binary() -> PathBuf {
    std::env::var_os("TLSIDECAR_E2E_BINARY")
        .map_or_else(|| env!("CARGO_BIN_EXE_tlsidecar").into(), PathBuf::from)
}

/// What a command that ended left behind.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs the binary to its end, with settings from the environment; one that does not end in time is killed.
pub(crate) fn run(environment: &[(&str, &str)], arguments: &[&str]) -> Finished {
    let (mut stdout, mut stderr) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    let mut command = command(binary(), arguments);
    command.envs(environment.iter().copied());
    command.stdout(stdout.try_clone().unwrap()).stderr(stderr.try_clone().unwrap());
    let mut child = command.spawn().unwrap();
    if !until(RUN_LIMIT, || child.try_wait().unwrap().is_some()) {
        child.kill().unwrap();
    }
    let code = child.wait().unwrap().code();
    Finished { code, stdout: whole(&mut stdout), stderr: whole(&mut stderr) }
}

fn whole(file: &mut File) -> String {
    let mut text = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    text
}

/// A `serve` command line in the making: port zero, JSON lines, and what a test adds.
#[derive(Debug)]
pub(crate) struct Serve {
    arguments: Vec<OsString>,
    environment: Vec<(String, String)>,
    before: Option<Before>,
}

/// A line for the shell that becomes the sidecar.
#[derive(Debug)]
enum Before {
    /// Here, with the rights there are.
    Here(String),
    /// In a user namespace of its own, as root there.
    Apart(String),
}

impl Serve {
    pub(crate) fn new(upstream: &str, certificate: &Path, key: &Path) -> Self {
        let arguments: [OsString; 11] = [
            "serve".into(),
            "--listen".into(),
            "127.0.0.1:0".into(),
            "--upstream".into(),
            upstream.into(),
            "--cert".into(),
            certificate.into(),
            "--key".into(),
            key.into(),
            "--log-format".into(),
            "json".into(),
        ];
        Self { arguments: arguments.into(), environment: Vec::new(), before: None }
    }

    /// A command line all of the caller's own; the log must come out as JSON all the same.
    pub(crate) fn with_arguments(arguments: &[&str]) -> Self {
        let arguments = ["serve"].iter().chain(arguments).map(OsString::from).collect();
        Self { arguments, environment: Vec::new(), before: None }
    }

    pub(crate) fn in_environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    pub(crate) fn with(mut self, flag: &str, value: &str) -> Self {
        self.arguments.extend([flag.into(), value.into()]);
        self
    }

    /// Events alone may find a change: the safety net is off.
    pub(crate) fn by_events_only(self) -> Self {
        self.with("--reload-interval", "0")
    }

    /// With an admin endpoint at a port of its own, for [`Sidecar::ask`].
    pub(crate) fn answering(self) -> Self {
        self.with("--admin", "127.0.0.1:0")
    }

    /// Starts it and waits until it has taken its port, whether or not it listens yet.
    pub(crate) fn start(self) -> Sidecar {
        let command = match &self.before {
            None => command(binary(), &self.arguments),
            Some(before) => {
                let (line, mut command) = match before {
                    Before::Here(line) => (line, command("sh", ["-c"])),
                    Before::Apart(line) => (line, command("unshare", ["-U", "-r", "sh", "-c"])),
                };
                command.arg(format!("{line} && exec \"$0\" \"$@\""));
                command.arg(binary()).args(&self.arguments);
                command
            }
        };
        self.spawn(command)
    }

    /// The same as user nobody, from a copy of the binary in `folder`: the build may lie where only its owner can go.
    pub(crate) fn start_as_nobody(self, folder: &Path) -> Sidecar {
        const NOBODY: u32 = 65_534;
        let copy = folder.join("tlsidecar");
        // By another process: a child that a thread forks meanwhile would hold the copy open for writing.
        let copied = Command::new("cp").arg(binary()).arg(&copy).status().unwrap();
        assert!(copied.success());
        let mut command = Command::new(copy);
        command.args(&self.arguments).stdin(Stdio::null()).uid(NOBODY).gid(NOBODY);
        self.spawn(command)
    }

    /// Starts it in a user namespace of its own, after a line for the shell has run there, with itself as root.
    pub(crate) fn limited(mut self, line: &str) -> Self {
        self.before = Some(Before::Apart(line.to_owned()));
        self
    }

    /// Starts it with so many descriptors at most.
    pub(crate) fn with_descriptors(mut self, most: usize) -> Self {
        self.before = Some(Before::Here(format!("ulimit -n {most}")));
        self
    }

    fn spawn(self, mut command: Command) -> Sidecar {
        command.envs(self.environment).stderr(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        let log = Log::follow(child.stderr.take().unwrap());
        let mut sidecar = Sidecar { child, log, address: ([127, 0, 0, 1], 0).into() };
        sidecar.address = sidecar.line("bound").text("address").parse().unwrap();
        sidecar
    }

    /// Starts it with a certificate in place, and waits until it serves.
    pub(crate) fn ready(self) -> Sidecar {
        let sidecar = self.start();
        sidecar.line("listening");
        sidecar
    }
}

/// A running sidecar.
#[derive(Debug)]
pub(crate) struct Sidecar {
    child: Child,
    pub(crate) log: Arc<Log>,
    address: SocketAddr,
}

impl Sidecar {
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn kernel(&self) -> Proc {
        Proc(self.child.id())
    }

    /// The first line with this message, since the start.
    pub(crate) fn line(&self, message: &str) -> Line {
        self.line_after(0, message)
    }

    /// The first line with this message after a mark in the log.
    pub(crate) fn line_after(&self, mark: usize, message: &str) -> Line {
        self.log
            .wait(mark, SOON, |line| line.says(message))
            .unwrap_or_else(|| panic!("no line {message:?} within {SOON:?}"))
    }

    /// The number of the generation in force, as the log tells it; 0 before the first.
    pub(crate) fn generation(&self) -> u64 {
        let numbers =
            self.log.all(0, |line| line.says("certificate loaded") || line.says("certificate changed"));
        numbers.last().map_or(0, |line| line.number("generation").unwrap())
    }

    /// What its admin endpoint answers; it was started with [`Serve::answering`].
    pub(crate) fn ask(&self, path: &str) -> Answer {
        let answer = ask_at(&self.line("admin endpoint").text("address"), path);
        assert_eq!(answer.code, "200", "{}", answer.head);
        answer
    }

    pub(crate) fn status(&self) -> Value {
        serde_json::from_str(&self.ask("/status").body).unwrap()
    }

    /// The value of a series among its metrics.
    pub(crate) fn metric(&self, series: &str) -> Option<f64> {
        self.ask("/metrics").metric(series)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).unwrap();
        kill(Pid::from_raw(pid), signal).unwrap();
    }

    /// Changes how many descriptors it may have from now on.
    pub(crate) fn limit_descriptors(&self, most: usize) {
        let (pid, limit) = (format!("--pid={}", self.child.id()), format!("--nofile={most}:"));
        assert!(Command::new("prlimit").args([pid, limit]).status().unwrap().success());
    }

    /// Stops it for as long as `meanwhile` takes, so that it finds all of that at once.
    pub(crate) fn frozen<T>(&self, meanwhile: impl FnOnce() -> T) -> T {
        self.signal(Signal::SIGSTOP);
        assert!(until(SOON, || self.kernel().is_stopped()));
        let outcome = meanwhile();
        self.signal(Signal::SIGCONT);
        outcome
    }

    /// The exit code, once it has ended by itself.
    pub(crate) fn exit_code(&mut self, limit: Duration) -> i32 {
        let mut status = None;
        until(limit, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let status = status.unwrap_or_else(|| panic!("still running after {limit:?}"));
        status.code().unwrap_or_else(|| panic!("ended by a signal: {status}"))
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        // Both may fail only because the child is gone already, which is what they are for.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the log of the sidecar:\n{}", self.log);
        }
    }
}
