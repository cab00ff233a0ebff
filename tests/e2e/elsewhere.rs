//! Files that are reached through another process, whose directories are not those of the same names here.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::client::canonical_serial;
use crate::material::{Generations, PlainPair, serial, write_in_place};
use crate::patience::pause;
use crate::sidecar::Serve;
use crate::upstream::{Script, Upstream};

/// Files that have not changed for so long are taken at the first look.
const AT_REST: Duration = Duration::from_millis(1200);

/// A process that sees the second folder under the name of the first.
struct Elsewhere(Child);

impl Elsewhere {
    fn new(shown: &PlainPair, hidden: &PlainPair) -> Option<Self> {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-ec", "mount --bind \"$0\" \"$1\"; echo ready; exec sleep 1000"]);
        command.args([shown.folder.path(), hidden.folder.path()]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
        let mut elsewhere = Self(child);
        let mut line = String::new();
        BufReader::new(elsewhere.0.stdout.take()?).read_line(&mut line).ok()?;
        (line == "ready\n").then_some(elsewhere)
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        // Both may fail only because it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn through_the_root_of_a_process_its_own_files_are_served_from_the_first_moment() {
    let generations = Generations::new();
    let (here, there) = (PlainPair::of(&generations.leaf(1)), PlainPair::of(&generations.leaf(2)));
    let Some(elsewhere) = Elsewhere::new(&there, &here) else {
        eprintln!("not applicable: no mount namespace of its own");
        return;
    };
    let through = |path: PathBuf| PathBuf::from(format!("/proc/{}/root{}", elsewhere.0.id(), path.display()));
    pause(AT_REST);
    let upstream = Upstream::tcp(Script::Echo);
    let serve = Serve::new(&upstream.address(), &through(here.certificate()), &through(here.key()));
    let sidecar = serve.ready();
    let trust = generations.trust();
    assert_eq!(trust.served_serial(sidecar.address()).unwrap(), serial(2));
    let loaded = sidecar.line("certificate loaded").text("serial");
    assert_eq!(canonical_serial(&loaded), serial(2), "it began with the files of the same names here");
    let told = sidecar.log.all(0, |line| line.text("message").starts_with("watching by polling"));
    assert!(told[0].text("reasons").contains("is on proc"), "{}", told[0]);

    write_in_place(there.folder.path(), &generations.leaf(3));
    let changed = sidecar.line("certificate changed");
    assert_eq!(changed.text("trigger"), "event", "what lies behind the link is watched");
    assert_eq!(trust.served_serial(sidecar.address()).unwrap(), serial(3));
}
