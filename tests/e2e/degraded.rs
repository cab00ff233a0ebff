//! Limits of inotify that are used up: it serves all the same, says how it looks instead, and recovers.
//! The limits are those of a user namespace made for the test, so that nobody else feels them.

use std::process::{Command, Stdio};

use tlsidecar::demo::volume::{Order, Volume};

use crate::material::{Generations, folder, payload, serial};
use crate::sidecar::{Serve, Sidecar};
use crate::upstream::{Script, Upstream};

/// One of the kernel's limits per user and user namespace.
#[derive(Clone, Copy, Debug)]
pub(crate) enum InotifyLimit {
    Instances,
    Watches,
}

impl InotifyLimit {
    fn path(self) -> &'static str {
        match self {
            Self::Instances => "/proc/sys/user/max_inotify_instances",
            Self::Watches => "/proc/sys/user/max_inotify_watches",
        }
    }

    /// A shell line that sets it in the namespace it runs in.
    pub(crate) fn set_to(self, count: u32) -> String {
        format!("echo {count} > {}", self.path())
    }

    /// Sets it in the namespace of a running sidecar.
    fn lift(self, sidecar: &Sidecar) {
        let target = format!("--target={}", sidecar.kernel().0);
        let line = self.set_to(10_000);
        let lifted =
            Command::new("nsenter").args([&target, "--user", "--", "sh", "-c", &line]).status().unwrap();
        assert!(lifted.success());
    }
}

fn may_limit() -> bool {
    let tried = Command::new("unshare").args(["-U", "-r", "true"]).stderr(Stdio::null()).status();
    let may = tried.is_ok_and(|status| status.success());
    if !may {
        eprintln!("not applicable: no user namespace of its own");
    }
    may
}

/// A sidecar that cannot watch, its volume, and a rotation that it finds by looking every second.
fn rotation_without_events(limit: InotifyLimit, count: u32, afterwards: impl FnOnce(&Sidecar)) {
    if !may_limit() {
        return;
    }
    let folder = folder();
    let generations = Generations::new();
    let mut volume = Volume::create(folder.path().join("secret"), Order::LinksLast).unwrap();
    volume.write(&payload(&generations.leaf(1))).unwrap();
    let upstream = Upstream::tcp(Script::Echo);
    let serve = Serve::new(&upstream.address(), &volume.path("tls.crt"), &volume.path("tls.key"));
    let sidecar = serve.with("--reload-interval", "1s").limited(&limit.set_to(count)).ready();
    let told = sidecar.log.all(0, |line| line.text("message").starts_with("watching by polling"));
    assert_eq!(told.len(), 1, "it says once that it polls");
    assert!(!told[0].text("reasons").is_empty(), "{}", told[0]);
    volume.write(&payload(&generations.leaf(2))).unwrap();
    sidecar.line("certificate changed");
    assert_eq!(generations.trust().served_serial(sidecar.address()).unwrap(), serial(2));
    afterwards(&sidecar);
}

#[test]
fn without_an_inotify_instance_it_polls() {
    rotation_without_events(InotifyLimit::Instances, 0, |sidecar| {
        assert_eq!(sidecar.kernel().inotify_instances(), 0);
    });
}

#[test]
fn without_enough_watches_it_polls_until_there_are() {
    rotation_without_events(InotifyLimit::Watches, 3, |sidecar| {
        let mark = sidecar.log.mark();
        InotifyLimit::Watches.lift(sidecar);
        sidecar.line_after(mark, "watching");
        assert!(sidecar.kernel().inotify_watches() > 3);
    });
}
