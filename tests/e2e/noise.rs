//! What touches a volume without changing it must not be noticed: permissions, owners, reads, idle time.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tlsidecar::demo::volume::{Order, Volume};

use crate::log::Line;
use crate::material::{Generations, PlainPair, folder, payload};
use crate::patience::{QUIET, pause};
use crate::sidecar::Serve;
use crate::upstream::{Script, Upstream};

const ROUNDS: usize = 10;

/// The volume, the directory in force and its files.
fn parts(volume: &Volume) -> Vec<PathBuf> {
    let data = fs::canonicalize(volume.path("..data")).unwrap();
    vec![volume.root().to_owned(), data.clone(), data.join("tls.crt"), data.join("tls.key")]
}

fn change_mode(path: &Path) {
    let mode = fs::metadata(path).unwrap().permissions().mode();
    fs::set_permissions(path, Permissions::from_mode(mode ^ 0o010)).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn change_owner(path: &Path) {
    let owned = fs::metadata(path).unwrap();
    // To the same owner it is an event all the same; a real change of group needs privileges.
    chown(path, Some(owned.uid()), Some(owned.gid())).unwrap();
    if chown(path, None, Some(65_534)).is_ok() {
        chown(path, None, Some(owned.gid())).unwrap();
    }
}

/// Runs `noise` beside a sidecar and asserts that it says and changes nothing.
fn stays_silent(noise: impl Fn(&Volume, &[(&str, &[u8])])) {
    let folder = folder();
    let generations = Generations::new();
    let leaf = generations.leaf(1);
    let mut volume = Volume::create(folder.path().join("secret"), Order::LinksLast).unwrap();
    volume.write(&payload(&leaf)).unwrap();
    let upstream = Upstream::tcp(Script::Echo);
    let serve = Serve::new(&upstream.address(), &volume.path("tls.crt"), &volume.path("tls.key"));
    let sidecar = serve.by_events_only().with("--log-level", "debug").ready();
    sidecar.line("watching");
    let mark = sidecar.log.mark();
    noise(&volume, &payload(&leaf));
    pause(QUIET);
    let told = sidecar.log.all(mark, Line::is_above_debug);
    assert!(told.is_empty(), "{told:?}");
    assert_eq!(sidecar.generation(), 1);
    // It was not silent because it no longer looks.
    volume.write(&payload(&generations.leaf(2))).unwrap();
    sidecar.line("certificate changed");
}

#[test]
fn changed_modes_are_no_change() {
    stays_silent(|volume, _| {
        for _ in 0..ROUNDS {
            parts(volume).iter().for_each(|path| change_mode(path));
        }
    });
}

#[test]
fn changed_owners_are_no_change() {
    stays_silent(|volume, _| {
        for _ in 0..ROUNDS {
            parts(volume).iter().for_each(|path| change_owner(path));
        }
    });
}

#[test]
fn permissions_taken_away_and_given_back_are_no_change() {
    stays_silent(|volume, _| {
        for path in parts(volume).iter().skip(2) {
            fs::set_permissions(path, Permissions::from_mode(0o000)).unwrap();
            fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
        }
    });
}

#[test]
fn the_periodic_comparison_of_the_kubelet_is_no_change() {
    stays_silent(|volume, files| {
        for _ in 0..ROUNDS {
            assert!(volume.compare(files).unwrap());
        }
    });
}

#[test]
fn files_rewritten_with_equal_bytes_are_no_change() {
    stays_silent(|volume, files| {
        for _ in 0..ROUNDS {
            for (name, bytes) in files {
                fs::write(volume.path(name), bytes).unwrap();
            }
            pause(Duration::from_millis(20));
        }
    });
}

#[test]
fn other_names_that_come_and_go_are_no_change() {
    stays_silent(|volume, _| {
        for number in 0..200 {
            let path = volume.path(&format!("other-{number}"));
            fs::write(&path, b"x").unwrap();
            fs::remove_file(&path).unwrap();
        }
    });
}

#[test]
fn doing_nothing_costs_nothing() {
    let generations = Generations::new();
    let pair = PlainPair::of(&generations.leaf(1));
    let upstream = Upstream::tcp(Script::Echo);
    let sidecar = Serve::new(&upstream.address(), &pair.certificate(), &pair.key()).ready();
    sidecar.line("watching");
    let mut client = generations.trust().connect(sidecar.address()).unwrap();
    client.echo(b"awake").unwrap();
    // What follows a start and a handshake may still run.
    pause(QUIET);
    let before = sidecar.kernel().cpu_ticks();
    pause(Duration::from_secs(2));
    let spent = sidecar.kernel().cpu_ticks() - before;
    assert!(spent <= 2, "{spent} ticks of 10 ms in 2 s");
    client.echo(b"still there").unwrap();
}
