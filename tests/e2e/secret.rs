//! The scene that most rotations are shown in: a secret volume, a sidecar that serves it, and an echo behind.
//! Knows no behaviour.

use tempfile::TempDir;
use tlsidecar::demo::volume::{Order, Swap, Volume};

use crate::material::{Generations, memory_folder, payload, serial};
use crate::patience::{SOON, until};
use crate::sidecar::{Serve, Sidecar};
use crate::upstream::{Script, Upstream};

/// A volume that holds generation 1 and is served.
#[derive(Debug)]
pub(crate) struct Scene {
    // The order is that of the ends: first the sidecar, last the folder.
    pub(crate) sidecar: Sidecar,
    pub(crate) volume: Volume,
    pub(crate) generations: Generations,
    _upstream: Upstream,
    _folder: TempDir,
}

impl Scene {
    pub(crate) fn new(order: Order, more: impl FnOnce(Serve) -> Serve) -> Self {
        Self::within(memory_folder(), order, more)
    }

    /// The same with the volume somewhere in a folder of the caller's choice.
    pub(crate) fn within(folder: TempDir, order: Order, more: impl FnOnce(Serve) -> Serve) -> Self {
        let generations = Generations::new();
        let mut volume = Volume::create(folder.path().join("secret"), order).unwrap();
        volume.write(&payload(&generations.leaf(1))).unwrap();
        let upstream = Upstream::tcp(Script::Echo);
        let serve = Serve::new(&upstream.address(), &volume.path("tls.crt"), &volume.path("tls.key"));
        let sidecar = more(serve).ready();
        Self { sidecar, volume, generations, _upstream: upstream, _folder: folder }
    }

    pub(crate) fn swap(&mut self, number: u64) -> Swap {
        self.volume.write(&payload(&self.generations.leaf(number))).unwrap()
    }

    /// Whether this generation is served soon.
    pub(crate) fn serves(&self, number: u64) -> bool {
        let (trust, wanted) = (self.generations.trust(), serial(number));
        until(SOON, || trust.served_serial(self.sidecar.address()).unwrap() == wanted)
    }
}
