//! A file system that somebody else changes without an event here: it is known for what it is, and looked at more often.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tlsidecar::demo::volume::{Order, Volume};

use crate::material::{Generations, folder, kind_of_file_system, payload, serial};
use crate::namespace::{may_not_mount, own_mounts, tell_not_applicable, why_no_tool};
use crate::patience::{SOON, until};
use crate::sidecar::Serve;
use crate::upstream::{Script, Upstream};

/// Looks are five seconds apart, and what FUSE knows of a file may be a second old.
const A_FEW_LOOKS: Duration = Duration::from_secs(20);

/// A directory seen through FUSE, in this thread's mounts, until dropped.
struct Mirror(Child);

impl Mirror {
    fn of(backing: &Path, seen: &Path) -> Self {
        let mut command = Command::new("bindfs");
        command.arg("-f").args([backing, seen]).stdin(Stdio::null());
        let mirror = Self(command.spawn().unwrap());
        assert!(until(SOON, || kind_of_file_system(seen) == "fuse"), "bindfs mounts nothing");
        mirror
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        // The mount goes with it, and it may have gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn why_not() -> Option<String> {
    let no_device = || (!Path::new("/dev/fuse").exists()).then(|| "there is no /dev/fuse".to_owned());
    may_not_mount().or_else(|| why_no_tool("bindfs")).or_else(no_device)
}

#[test]
fn a_change_behind_a_fuse_mount_is_found_by_the_timer_and_is_no_fault_of_the_events() {
    if let Some(reason) = why_not() {
        tell_not_applicable("a change behind a FUSE mount", &reason);
        return;
    }
    // A thread of its own: its mounts end with it.
    std::thread::spawn(followed_through_fuse).join().unwrap();
}

fn followed_through_fuse() {
    own_mounts();
    let folder = folder();
    let [backing, seen] = ["backing", "seen"].map(|name| folder.path().join(name));
    fs::create_dir(&seen).unwrap();
    let generations = Generations::new();
    let mut volume = Volume::create(&backing, Order::LinksLast).unwrap();
    volume.write(&payload(&generations.leaf(1))).unwrap();
    let mirror = Mirror::of(&backing, &seen);
    let upstream = Upstream::tcp(Script::Echo);
    let serve = Serve::new(&upstream.address(), &seen.join("tls.crt"), &seen.join("tls.key"));
    let sidecar = serve.answering().ready();
    let watcher = &sidecar.status()["sets"][0]["watcher"];
    assert_eq!(watcher["mode"], "polling", "{watcher:#}");
    assert!(watcher["reasons"].to_string().contains("fuse"), "{watcher:#}");
    volume.write(&payload(&generations.leaf(2))).unwrap();
    let changed = sidecar.log.wait(0, A_FEW_LOOKS, |line| line.says("certificate changed")).unwrap();
    assert!(["timer", "retry"].contains(&changed.text("trigger").as_str()), "{changed}");
    assert_eq!(generations.trust().served_serial(sidecar.address()).unwrap(), serial(2));
    assert_eq!(sidecar.metric("tlsidecar_rotations_found_by_timer_total"), Some(0.0));
    drop(sidecar);
    drop(mirror);
}
