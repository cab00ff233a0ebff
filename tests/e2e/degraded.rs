//! Limits of inotify that are used up: it serves all the same, says how it looks instead, and recovers.
//! The limits are those of a user namespace made for the test, so that nobody else feels them.

use std::process::Command;
use std::time::Duration;

use tlsidecar::demo::volume::Order;

use crate::namespace::{may_not_limit, tell_not_applicable};
use crate::patience::{SOON, now};
use crate::secret::Scene;
use crate::sidecar::Sidecar;

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

    /// How an operator knows it.
    fn sysctl(self) -> &'static str {
        match self {
            Self::Instances => "fs.inotify.max_user_instances",
            Self::Watches => "fs.inotify.max_user_watches",
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

/// A sidecar that cannot watch, its volume, and a rotation that it finds by looking every second.
fn rotation_without_events(limit: InotifyLimit, count: u32, afterwards: impl FnOnce(&mut Scene)) {
    if let Some(reason) = may_not_limit() {
        tell_not_applicable(&format!("{limit:?} of inotify used up"), &reason);
        return;
    }
    let mut scene = Scene::new(Order::LinksLast, |serve| {
        serve.with("--reload-interval", "1s").answering().limited(&limit.set_to(count))
    });
    let told = scene.sidecar.log.all(0, |line| line.text("message").starts_with("watching by polling"));
    assert_eq!(told.len(), 1, "it says once that it polls");
    assert!(told[0].text("reasons").contains(limit.sysctl()), "{}", told[0]);
    let watcher = &scene.sidecar.status()["sets"][0]["watcher"];
    assert_eq!(watcher["mode"], "polling", "{watcher:#}");
    assert!(watcher["reasons"].to_string().contains(limit.sysctl()), "{watcher:#}");
    eprintln!("limits: {limit:?} {count}: /status says polling, because of {}", watcher["reasons"]);
    let swap = scene.swap(2);
    scene.sidecar.line("certificate changed");
    eprintln!(
        "limits: {limit:?} {count}: a rotation was found by looking after {:.2?}",
        now() - swap.renamed
    );
    assert!(scene.serves(2));
    // Looking is all it has: nothing was missed by events.
    assert_eq!(scene.sidecar.metric("tlsidecar_rotations_found_by_timer_total"), Some(0.0));
    afterwards(&mut scene);
}

/// The limit is lifted: after at most `patience` it says that it watches, and follows the next swap by an event.
fn returns_to_events(limit: InotifyLimit, patience: Duration, scene: &mut Scene) {
    let mark = scene.sidecar.log.mark();
    limit.lift(&scene.sidecar);
    let lifted = now();
    let watching = scene.sidecar.log.wait(mark, patience, |line| line.says("watching"));
    assert!(watching.is_some(), "it does not watch although it could");
    eprintln!("limits: {limit:?}: it watched {:.2?} after the limit was lifted", now() - lifted);
    assert_eq!(scene.sidecar.metric("tlsidecar_watch_mode{mode=\"polling\"}"), Some(0.0));
    scene.swap(3);
    let changed = scene.sidecar.line_after(mark, "certificate changed");
    assert_eq!(changed.text("trigger"), "event", "{changed}");
}

#[test]
fn without_an_inotify_instance_it_polls_until_there_is_one() {
    /// It is asked for once a minute.
    const A_MINUTE_AND_MORE: Duration = Duration::from_secs(75);
    rotation_without_events(InotifyLimit::Instances, 0, |scene| {
        assert_eq!(scene.sidecar.kernel().inotify_instances(), 0);
        returns_to_events(InotifyLimit::Instances, A_MINUTE_AND_MORE, scene);
        assert_eq!(scene.sidecar.kernel().inotify_instances(), 1);
    });
}

#[test]
fn without_enough_watches_it_polls_until_there_are() {
    rotation_without_events(InotifyLimit::Watches, 3, |scene| {
        returns_to_events(InotifyLimit::Watches, SOON, scene);
        assert!(scene.sidecar.kernel().inotify_watches() > 3);
    });
}
