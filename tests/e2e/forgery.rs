//! Names of directories and of certificates in the log for people: they can neither begin a line, draw over a terminal
//! nor change the direction of text.

use std::fs;
use std::process::{Child, Command, Stdio};

use tlsidecar::demo::authority::{Authority, Profile};

use crate::log::Log;
use crate::material::folder;
use crate::patience::{SOON, wall_clock};

/// What a writer of names may try; the NUL and the slash are all that a directory's name can't have.
const FORGED: &str =
    "a\n1999-01-01T00:00:00.000000Z ERROR forged\r\u{1b}[2J\u{9b}31m\u{202e}b\u{2066}\u{200f}\u{2028}";

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both may fail only because it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn names_from_outside_forge_no_line_of_the_log() {
    let folder = folder();
    let inside = folder.path().join(FORGED);
    fs::create_dir(&inside).unwrap();
    let mut authority = Authority::new("root", wall_clock()).unwrap();
    let ascii: String = FORGED.chars().filter(char::is_ascii).collect();
    let profile = Profile { names: vec!["localhost".to_owned(), ascii], ..authority.profile() };
    let leaf = authority.issue_as(&profile).unwrap();
    fs::write(inside.join("tls.crt"), &leaf.chain_pem).unwrap();
    fs::write(inside.join("tls.key"), &leaf.key_pem).unwrap();
    let upstream = format!("unix:{}", inside.join("app").display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_tlsidecar"));
    command.args(["serve", "--listen=127.0.0.1:0", "--log-format=text", "--upstream", &upstream]);
    command.arg("--cert").arg(inside.join("tls.crt")).arg("--key").arg(inside.join("tls.key"));
    let mut running = Running(command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap());
    let log = Log::follow(running.0.stderr.take().unwrap());
    let listening = log.wait(0, SOON, |line| line.to_string().contains("listening"));
    assert!(listening.is_some(), "{log}");

    let lines: Vec<String> = log.all(0, |_| true).iter().map(ToString::to_string).collect();
    for wanted in ["configuration read", "certificate loaded", "watching"] {
        let told =
            lines.iter().find(|line| line.contains(wanted)).unwrap_or_else(|| panic!("{wanted}: {log}"));
        assert!(told.contains("forged"), "the name is there, escaped: {told}");
    }
    let obeyed = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    for line in &lines {
        assert!(!line.contains(obeyed), "{line:?}");
        let level = line.split_whitespace().nth(1).unwrap_or_default();
        assert!(["INFO", "WARN"].contains(&level) && !line.starts_with("1999-01-01"), "{line:?}");
    }
}
