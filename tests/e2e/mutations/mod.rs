//! Random histories of files beside the real binary, with events alone: whenever the files come to rest as a valid pair,
//! that pair is served; as long as they do not, one that was valid is.
//!
//! A failure prints its seed; `TLSIDECAR_E2E_SEED=n` plays it again, as far as time allows.

mod world;

use std::collections::BTreeSet;
use std::time::Duration;

use self::world::{Mutation, World};
use crate::dice::{Dice, seed};
use crate::material::{Place, disk, further, memory, scaled, serial};
use crate::patience::{SOON, pause, until};
use crate::sidecar::{Serve, Sidecar};
use crate::upstream::{Script, Upstream};

const PAUSES_MS: [u64; 5] = [0, 0, 1, 20, 90];
/// Rounds on one world; its folder grows with each.
const ROUNDS_A_WORLD: u64 = 40;

#[test]
fn whatever_happens_in_memory_the_pair_at_rest_is_served() {
    memory().iter().for_each(|place| histories(place, scaled(2_000, ROUNDS_A_WORLD)));
}

#[test]
fn whatever_happens_on_disk_the_pair_at_rest_is_served() {
    disk().iter().for_each(|place| histories(place, scaled(2_000, ROUNDS_A_WORLD)));
}

#[test]
fn whatever_happens_in_further_places_the_pair_at_rest_is_served() {
    further().iter().for_each(|place| histories(place, scaled(400, ROUNDS_A_WORLD)));
}

fn histories(place: &Place, rounds: u64) {
    let (seed, mut at_rest) = (seed(), 0);
    for world in 0..rounds / ROUNDS_A_WORLD {
        eprintln!("on {}: TLSIDECAR_E2E_SEED={}", place.kind, seed + world);
        at_rest += history(place, seed + world);
    }
    eprintln!("mutations on {}: {rounds} rounds, {at_rest} of them ended with a whole pair", place.kind);
    eprintln!("mutations on {}: 0 stuck, 0 mismatched or incomplete pairs served", place.kind);
}

/// Plays one world; after how many rounds a whole pair was on disk.
fn history(place: &Place, seed: u64) -> usize {
    let folder = place.folder();
    let (mut world, mut dice) = (World::new(folder.path()), Dice::new(seed));
    let upstream = Upstream::tcp(Script::Echo);
    let [certificate, key] = ["tls.crt", "tls.key"].map(|name| world.directory().join(name));
    let mut sidecar = Serve::new(&upstream.address(), &certificate, &key)
        .by_events_only()
        .with("--log-level", "debug")
        .ready();
    let (mut served, mut wholes) = (BTreeSet::from([1]), 0);
    for round in 0..ROUNDS_A_WORLD {
        mutate(round, &mut world, &mut dice, &mut served);
        served = BTreeSet::from([at_rest(&world, &sidecar, &served)]);
        wholes += usize::from(world.on_disk().is_some());
        assert!(sidecar.is_running());
    }
    let watches = sidecar.kernel().inotify_watches();
    assert!(watches < 40, "{watches} watches are left");
    wholes
}

/// A few mutations, and each generation that was whole on disk meanwhile.
fn mutate(round: u64, world: &mut World, dice: &mut Dice, whole: &mut BTreeSet<u64>) {
    for _ in 0..=dice.below(3) {
        let mutation = dice.pick(&Mutation::ALL);
        let outcome = world.mutate(mutation, dice);
        let on_disk = world.on_disk();
        whole.extend(on_disk);
        let length = dice.pick(&PAUSES_MS);
        eprintln!("round {round}: {mutation:?} {outcome:?}, on disk {on_disk:?}, then {length} ms");
        pause(Duration::from_millis(length));
    }
}

/// What is served when the files have come to rest.
fn at_rest(world: &World, sidecar: &Sidecar, whole: &BTreeSet<u64>) -> u64 {
    let trust = world.generations().trust();
    let served = || trust.served_serial(sidecar.address()).unwrap();
    if let Some(number) = world.on_disk() {
        assert!(until(SOON, || served() == serial(number)), "{number} is on disk and {} is served", served());
        return number;
    }
    let served = served();
    let number = whole.iter().find(|number| serial(**number) == served);
    *number.unwrap_or_else(|| panic!("{served} is served, of {whole:?}"))
}
