//! Layouts of certificate files: a table of what may happen to them, played on memory and on disk, with events alone.
//!
//! `TLSIDECAR_E2E_CASE=text` plays only the rows whose names contain the text; `TLSIDECAR_E2E_PLACES=/a:/b` adds folders
//! on further file systems.

mod case;
mod play;
mod table;
mod volumes;
mod writers;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::unistd::geteuid;

use self::case::{Case, Needs};
use self::play::Play;
use crate::material::{Generations, Place, disk, further, memory};
use crate::namespace::{may_not_mount, own_mounts, tell_not_applicable, why_no_tool};

/// Rows mostly wait, so more of them at once than there are cores.
const AT_ONCE: usize = 4;

/// What became of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    Passed,
    Failed,
    NotApplicable(String),
}

#[test]
fn every_layout_is_followed_in_memory() {
    match memory() {
        Some(place) => assert_eq!(failures(&place), 0),
        None => tell_not_applicable("layouts in memory", "/dev/shm is no tmpfs here"),
    }
}

#[test]
fn every_layout_is_followed_on_disk() {
    match disk() {
        Some(place) => assert_eq!(failures(&place), 0),
        None => tell_not_applicable("layouts on disk", "all temporary folders are in memory here"),
    }
}

#[test]
fn every_layout_is_followed_in_further_places() {
    assert_eq!(further().iter().map(failures).sum::<usize>(), 0);
}

#[test]
fn names_of_layouts_are_unique() {
    let mut names: Vec<String> = table::cases().into_iter().map(|row| row.name).collect();
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
}

/// Plays all rows there; how many failed.
fn failures(place: &Place) -> usize {
    let only = std::env::var_os("TLSIDECAR_E2E_CASE").unwrap_or_default().to_string_lossy().into_owned();
    let rows: Vec<Case> = table::cases().into_iter().filter(|row| row.name.contains(&only)).collect();
    let generations = Generations::new();
    let verdicts = Mutex::new(Vec::new());
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(row) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let verdict = judge(place, row, &generations);
                    verdicts.lock().unwrap().push((row.name.clone(), verdict));
                }
            });
        }
    });
    report(place, verdicts.into_inner().unwrap())
}

fn report(place: &Place, mut verdicts: Vec<(String, Verdict)>) -> usize {
    verdicts.sort_by(|one, other| one.0.cmp(&other.0));
    eprintln!("layouts on {}:", place.kind);
    for (name, verdict) in &verdicts {
        match verdict {
            Verdict::Passed => eprintln!("  passed          {name}"),
            Verdict::Failed => eprintln!("  FAILED          {name}"),
            Verdict::NotApplicable(reason) => {
                tell_not_applicable(&format!("{name}, on {}", place.kind), reason);
            }
        }
    }
    let count = |wanted: fn(&Verdict) -> bool| verdicts.iter().filter(|(_, verdict)| wanted(verdict)).count();
    let passed = count(|verdict| *verdict == Verdict::Passed);
    let not_applicable = count(|verdict| matches!(verdict, Verdict::NotApplicable(_)));
    eprintln!(
        "layouts on {}: {passed} of {} passed, {not_applicable} not applicable",
        place.kind,
        verdicts.len()
    );
    count(|verdict| *verdict == Verdict::Failed)
}

fn judge(place: &Place, row: &Case, generations: &Generations) -> Verdict {
    let folder = place.folder();
    if let Some(reason) = why_not(row.needs) {
        return Verdict::NotApplicable(reason);
    }
    // A thread of the row's own: its mount namespace ends with it, and so do the mounts, before the folder is removed.
    let played = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            if row.needs == Needs::Mounts {
                own_mounts();
            }
            catch_unwind(AssertUnwindSafe(|| Play::new(folder.path(), row, generations).run()))
        });
        thread.join()
    });
    if matches!(played, Ok(Ok(()))) { Verdict::Passed } else { Verdict::Failed }
}

/// Why a row does not apply on this machine.
fn why_not(needs: Needs) -> Option<String> {
    match needs {
        Needs::Nothing => None,
        Needs::Mounts => may_not_mount(),
        Needs::Nobody => (!geteuid().is_root()).then(|| "only root may become another user".to_owned()),
        Needs::Tool(name) => why_no_tool(name),
    }
}
