//! A log that nobody reads: standard error is a pipe, full to the brim.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};

use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, pipe};

use crate::material::{Generations, PlainPair, serial, write_in_place};
use crate::patience::{SOON, until};
use crate::upstream::{Script, Upstream};

/// Killed and reaped whatever becomes of the test.
struct Reaped(Child);

impl Drop for Reaped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// As small as a pipe can be.
fn small_pipe() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = pipe().unwrap();
    fcntl(writer.as_fd(), FcntlArg::F_SETPIPE_SZ(4096)).unwrap();
    (reader, writer)
}

#[test]
fn a_log_that_nobody_reads_keeps_nobody_waiting() {
    let generations = Generations::new();
    let pair = PlainPair::of(&generations.leaf(1));
    let upstream = Upstream::tcp(Script::Echo);
    let (reader, writer) = small_pipe();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tlsidecar"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--log-level", "trace"]);
    command.args(["--upstream", &upstream.address()]);
    command.arg("--cert").arg(pair.certificate()).arg("--key").arg(pair.key());
    command.stdin(Stdio::null()).stderr(writer);
    let mut sidecar = Reaped(command.spawn().unwrap());
    // The parent's copy of the writing end, so that only the sidecar can be waiting to write.
    drop(command);
    let mut log = BufReader::new(File::from(reader)).lines();
    let listening = log.find_map(|line| line.ok().filter(|line| line.contains("\"listening\""))).unwrap();
    let line: serde_json::Value = serde_json::from_str(&listening).unwrap();
    let address: SocketAddr = line["address"].as_str().unwrap().parse().unwrap();

    let trust = generations.trust();
    for _ in 0..100 {
        assert_eq!(trust.served_serial(address).unwrap(), serial(1));
    }
    write_in_place(pair.folder.path(), &generations.leaf(2));
    assert!(until(SOON, || trust.served_serial(address).unwrap() == serial(2)), "the rotation is not served");
    kill(Pid::from_raw(sidecar.0.id().cast_signed()), Signal::SIGTERM).unwrap();
    assert!(until(SOON, || sidecar.0.try_wait().unwrap().is_some()), "it does not end");
    assert_eq!(sidecar.0.wait().unwrap().code(), Some(0));
}
