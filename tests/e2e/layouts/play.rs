//! Plays one row in a folder of its own, with a sidecar that events alone may wake.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use nix::sys::signal::Signal;
use tlsidecar::demo::authority::Leaf;
use tlsidecar::demo::volume::{Step, Volume};

use super::case::{Case, Extent, Manner, Needs, Op, Sight};
use super::writers::{self, Flood};
use crate::client::canonical_serial;
use crate::log::Line;
use crate::material::{Generations, payload, serial, write_in_place};
use crate::patience::{QUIET, SOON, pause, until};
use crate::sidecar::{Serve, Sidecar};
use crate::upstream::{Script, Upstream};

/// More than any layout here needs; a watcher that forgets to take watches away exceeds it.
const MOST_WATCHES: usize = 40;

/// A row under way.
pub(super) struct Play<'a> {
    folder: &'a Path,
    case: &'a Case,
    generations: &'a Generations,
    // Before the upstream: the order is that of the ends.
    sidecar: Option<Sidecar>,
    upstream: Upstream,
    held: Vec<File>,
    floods: Vec<Flood>,
    served: Vec<u64>,
    watches: Option<usize>,
}

impl<'a> Play<'a> {
    pub(super) fn new(folder: &'a Path, case: &'a Case, generations: &'a Generations) -> Self {
        let upstream = Upstream::tcp(Script::Echo);
        Self {
            folder,
            case,
            generations,
            sidecar: None,
            upstream,
            held: Vec::new(),
            floods: Vec::new(),
            served: Vec::new(),
            watches: None,
        }
    }

    /// Performs all steps; a step that does not come true panics.
    pub(super) fn run(mut self) {
        for (number, step) in self.case.steps.iter().enumerate() {
            // Shown only when the row fails: which step it was.
            eprintln!("{}: step {number}: {step:?}", self.case.name);
            self.perform(*step);
        }
        let watches = self.sidecar().kernel().inotify_watches();
        assert!(watches <= MOST_WATCHES, "{watches} watches are left");
        let wanted: Vec<String> = self.served.iter().map(|number| serial(*number)).collect();
        let published =
            || -> Vec<String> { self.sidecar().log.all(0, is_publication).iter().map(serial_of).collect() };
        // A client may see a certificate before its line has been read.
        until(QUIET, || published().len() >= wanted.len());
        assert_eq!(published(), wanted, "what was put in force one after the other");
    }

    fn perform(&mut self, step: Op) {
        match step {
            Op::Run(line) => shell(self.folder, line),
            Op::Put(manner, folder, number) => self.put(manner, &self.path(folder), &self.leaf(number)),
            Op::Chain(path, number) => fs::write(self.path(path), self.leaf(number).chain_pem).unwrap(),
            Op::Key(path, number) => fs::write(self.path(path), self.leaf(number).key_pem).unwrap(),
            Op::Swap(order, extent, folder, number) => {
                let volume = Volume::create(self.path(folder), order).unwrap();
                swap(volume, extent, &self.leaf(number));
            }
            Op::Exchange(one, other) => exchange(&self.path(one), &self.path(other)),
            Op::Churn(folder, count) => writers::churn(&self.path(folder), count),
            Op::Flood(folder) => self.floods.push(Flood::start(self.path(folder))),
            Op::Wait(milliseconds) => pause(Duration::from_millis(milliseconds)),
            Op::Start => self.start(),
            Op::Freeze => self.sidecar().signal(Signal::SIGSTOP),
            Op::Thaw => self.sidecar().signal(Signal::SIGCONT),
            Op::See(sight) => self.see(sight),
        }
    }

    fn put(&mut self, manner: Manner, folder: &Path, leaf: &Leaf) {
        match manner {
            Manner::InPlace => write_in_place(folder, leaf),
            Manner::Padded => writers::put_padded(folder, leaf),
            Manner::Slowly => writers::put_slowly(folder, leaf),
            Manner::Holding => self.held.extend(writers::put_and_hold(folder, leaf)),
            Manner::Mapped => writers::put_mapped(folder, leaf),
            Manner::Unnamed => writers::put_unnamed(folder, leaf),
            Manner::InParts => writers::put_in_parts(folder, leaf),
        }
    }

    fn see(&mut self, sight: Sight) {
        match sight {
            Sight::Serves(number) => self.serves(number),
            Sight::Keeps(number) => {
                let changed = until(QUIET, || self.handshake().unwrap() != serial(number));
                assert!(!changed, "something else than {number} is served");
            }
            Sight::Refuses => {
                let error = self.handshake().expect_err("it accepts without a certificate");
                assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused, "{error}");
            }
            Sight::SameWatches => {
                let now = self.sidecar().kernel().inotify_watches();
                assert_eq!(now, self.watches.unwrap_or(now), "watches came or went");
                self.watches = Some(now);
            }
            Sight::Warnings(most) => {
                let warnings = self.sidecar().log.all(0, |line| line.text("level") == "WARN");
                assert!((1..=most).contains(&warnings.len()), "warnings: {warnings:?}");
            }
        }
    }

    fn start(&mut self) {
        let (certificate, key) = (self.path(self.case.certificate), self.path(self.case.key));
        let serve = Serve::new(&self.upstream.address(), &certificate, &key).by_events_only();
        let serve = serve.with("--log-level", "debug");
        self.sidecar = Some(match self.case.needs {
            Needs::Nobody => serve.start_as_nobody(self.folder),
            Needs::Nothing | Needs::Mounts | Needs::Tool(_) => serve.start(),
        });
    }

    fn serves(&mut self, number: u64) {
        self.check_disk(number);
        let before = self.served.last().map(|before| serial(*before));
        let wanted = serial(number);
        let served = until(SOON, || match self.handshake() {
            Ok(served) if served == wanted => true,
            Ok(served) => {
                assert_eq!(Some(served), before, "neither the old nor the new one");
                false
            }
            Err(error) => {
                assert!(before.is_none(), "a handshake failed: {error}");
                false
            }
        });
        assert!(served, "{number} is not served");
        if before != Some(wanted) {
            self.served.push(number);
        }
    }

    /// That the row itself is right: the paths lead to this generation.
    fn check_disk(&self, number: u64) {
        let leaf = self.leaf(number);
        for (path, wanted) in [(self.case.certificate, leaf.chain_pem), (self.case.key, leaf.key_pem)] {
            let found = fs::read_to_string(self.path(path)).unwrap();
            assert_eq!(found.trim_end(), wanted.trim_end(), "{path} is not of generation {number}");
        }
    }

    /// The serial that a new client sees, who must get a whole chain.
    fn handshake(&self) -> io::Result<String> {
        let client = self.generations.trust().connect(self.sidecar().address())?;
        assert_eq!(client.chain_length(), 2, "the chain is incomplete");
        Ok(client.serial())
    }

    fn sidecar(&self) -> &Sidecar {
        self.sidecar.as_ref().expect("the row starts no sidecar")
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.folder.join(relative)
    }

    fn leaf(&self, number: u64) -> Leaf {
        self.generations.leaf(number)
    }
}

fn is_publication(line: &Line) -> bool {
    line.says("certificate loaded") || line.says("certificate changed")
}

fn serial_of(line: &Line) -> String {
    canonical_serial(&line.text("serial"))
}

fn swap(mut volume: Volume, extent: Extent, leaf: &Leaf) {
    let both = payload(leaf);
    let [(_, chain), (_, key)] = both;
    let nested = [("a/tls.crt", chain), ("a/tls.key", key)];
    let (files, last) = match extent {
        Extent::Whole => (both.as_slice(), Step::Removal),
        Extent::KeepingOld => (both.as_slice(), Step::Unlinks),
        Extent::Closed => {
            volume = volume.with_file_mode(0o600);
            (both.as_slice(), Step::Removal)
        }
        Extent::Crashed => (both.as_slice(), Step::Files),
        Extent::Nested => (nested.as_slice(), Step::Removal),
        Extent::ChainAlone => (&both[..1], Step::Removal),
        Extent::KeyAlone => (&both[1..], Step::Removal),
    };
    volume.write_until(files, last).unwrap();
}

fn shell(folder: &Path, line: &str) {
    let ran = Command::new("sh").args(["-ec", line]).current_dir(folder).output().unwrap();
    assert!(ran.status.success(), "{line}: {}", String::from_utf8_lossy(&ran.stderr));
}

fn exchange(one: &Path, other: &Path) {
    renameat2(AT_FDCWD, one, AT_FDCWD, other, RenameFlags::RENAME_EXCHANGE).unwrap();
}
