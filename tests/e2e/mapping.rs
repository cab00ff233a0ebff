//! Stores through a memory mapping: the one way to change a file that tells nobody.
#![expect(
    unsafe_code,
    reason = "a mapping is raw memory, and no safe call leaves a file changed without an event"
)]

use std::fs::OpenOptions;
use std::num::NonZeroUsize;
use std::path::Path;
use std::ptr::NonNull;

use nix::sys::mman::{MapFlags, MsFlags, ProtFlags, mmap, msync, munmap};

/// A whole file, mapped shared and writable until dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<std::ffi::c_void>,
    length: usize,
}

impl Mapping {
    pub(crate) fn of(path: &Path) -> Self {
        let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
        let length = usize::try_from(file.metadata().unwrap().len()).unwrap();
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let size = NonZeroUsize::new(length).unwrap();
        // SAFETY: the kernel chooses the address, so no memory of ours is replaced; the descriptor is open.
        let start = unsafe { mmap(None, size, protection, MapFlags::MAP_SHARED, &file, 0) }.unwrap();
        Self { start, length }
    }

    /// Replaces the content, filling up with blank lines: the length of a mapped file stays.
    pub(crate) fn store(&mut self, bytes: &[u8]) {
        // SAFETY: the mapping is this long, lives as long as `self`, and nothing else of this process uses it.
        let memory = unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast::<u8>(), self.length) };
        assert!(bytes.len() <= memory.len(), "a mapping cannot grow");
        memory.fill(b'\n');
        memory[..bytes.len()].copy_from_slice(bytes);
        // SAFETY: the range is the mapping's own.
        unsafe { msync(self.start, self.length, MsFlags::MS_SYNC) }.unwrap();
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is the mapping's own, and no reference into it outlives `store`.
        let unmapped = unsafe { munmap(self.start, self.length) };
        debug_assert!(unmapped.is_ok());
    }
}
