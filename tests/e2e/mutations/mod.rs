//! Random histories of files beside the real binary, with events alone: whenever the files come to rest as a valid pair,
//! that pair is served; as long as they do not, one that was valid is.
//!
//! A failure prints its seed; `TLSIDECAR_E2E_SEED=n` plays it again, as far as time allows.

mod world;

use std::collections::BTreeSet;
use std::time::Duration;

use self::world::{Dice, Mutation, World};
use crate::material::{Place, disk, memory, scaled, serial};
use crate::patience::{SOON, pause, until, wall_clock};
use crate::sidecar::{Serve, Sidecar};
use crate::upstream::{Script, Upstream};

const PAUSES_MS: [u64; 5] = [0, 0, 1, 20, 90];
/// Rounds on one world; its folder grows with each.
const ROUNDS_A_WORLD: u64 = 40;

#[test]
fn whatever_happens_in_memory_the_pair_at_rest_is_served() {
    memory().iter().for_each(histories);
}

#[test]
fn whatever_happens_on_disk_the_pair_at_rest_is_served() {
    disk().iter().for_each(histories);
}

fn histories(place: &Place) {
    let seed = std::env::var_os("TLSIDECAR_E2E_SEED").and_then(|seed| seed.to_str()?.parse().ok());
    let seed = seed.unwrap_or_else(|| {
        wall_clock().duration_since(std::time::UNIX_EPOCH).map_or(1, |since| u64::from(since.subsec_nanos()))
    });
    for world in 0..scaled(2_000, ROUNDS_A_WORLD) / ROUNDS_A_WORLD {
        eprintln!("on {}: TLSIDECAR_E2E_SEED={}", place.kind, seed + world);
        history(place, seed + world);
    }
}

fn history(place: &Place, seed: u64) {
    let folder = place.folder();
    let (mut world, mut dice) = (World::new(folder.path()), Dice::new(seed));
    let upstream = Upstream::tcp(Script::Echo);
    let [certificate, key] = ["tls.crt", "tls.key"].map(|name| world.directory().join(name));
    let mut sidecar = Serve::new(&upstream.address(), &certificate, &key)
        .by_events_only()
        .with("--log-level", "debug")
        .ready();
    let mut served = BTreeSet::from([1]);
    for round in 0..ROUNDS_A_WORLD {
        mutate(round, &mut world, &mut dice, &mut served);
        served = BTreeSet::from([at_rest(&world, &sidecar, &served)]);
        assert!(sidecar.is_running());
    }
    let watches = sidecar.kernel().inotify_watches();
    assert!(watches < 40, "{watches} watches are left");
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
