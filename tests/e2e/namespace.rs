//! What a test may take from the machine without anybody else feeling it: mounts and limits of its own; and why not.

use std::io::Write;
use std::process::{Command, Stdio};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

/// Tells that a test can't be made here, and why, also to those who see no output of tests that pass.
pub(crate) fn tell_not_applicable(test: &str, reason: &str) {
    let _ = writeln!(std::io::stderr(), "not applicable  {test}: {reason}");
}

/// Why a thread can't have mounts of its own here.
pub(crate) fn may_not_mount() -> Option<String> {
    let tried = std::thread::spawn(|| unshare(CloneFlags::CLONE_NEWNS)).join().unwrap();
    tried.err().map(|errno| format!("no mount namespace of its own: {errno}"))
}

/// Gives this thread, and the processes it starts, mounts that nobody else sees.
pub(crate) fn own_mounts() {
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    let nothing = None::<&str>;
    mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing).unwrap();
}

/// Why a process can't have limits of its own here.
pub(crate) fn may_not_limit() -> Option<String> {
    let tried = Command::new("unshare").args(["-U", "-r", "true"]).stderr(Stdio::null()).status();
    let may = tried.is_ok_and(|status| status.success());
    (!may).then(|| "no user namespace of its own".to_owned())
}

/// Why a program can't be used here.
pub(crate) fn why_no_tool(name: &str) -> Option<String> {
    let found = Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    found.is_err().then(|| format!("{name} is not installed"))
}
