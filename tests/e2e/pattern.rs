//! Bytes that betray loss, repetition and disorder: blocks of noise, each stamped with its number, and their hash.

use std::io::{self, Write};

use aws_lc_rs::digest::{Context, SHA256};

const BLOCK_BYTES: usize = 64 * 1024;

/// An endless reproducible stream of bytes, told apart by its seed.
#[derive(Debug)]
pub(crate) struct Pattern {
    block: Vec<u8>,
    number: u64,
}

impl Pattern {
    pub(crate) fn new(seed: u64) -> Self {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let words = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        });
        Self { block: words.take(BLOCK_BYTES / 8).flatten().collect(), number: 0 }
    }

    fn next_block(&mut self) -> &[u8] {
        self.block[..8].copy_from_slice(&self.number.to_le_bytes());
        self.number += 1;
        &self.block
    }

    /// Writes the first `length` bytes of the stream to `sink`; their hash.
    pub(crate) fn write_to(mut self, sink: &mut impl Write, length: u64) -> io::Result<Hash> {
        let mut hash = Hasher::default();
        let mut left = length;
        while left > 0 {
            let block = self.next_block();
            let part = &block[..block.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
            sink.write_all(part)?;
            hash.update(part);
            left -= part.len() as u64;
        }
        Ok(hash.finish())
    }
}

/// Length and SHA-256 of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hash {
    pub(crate) length: u64,
    pub(crate) sha256: Vec<u8>,
}

/// A hash in the making.
pub(crate) struct Hasher {
    length: u64,
    context: Context,
}

impl Default for Hasher {
    fn default() -> Self {
        Self { length: 0, context: Context::new(&SHA256) }
    }
}

impl Hasher {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        self.context.update(bytes);
    }

    pub(crate) fn finish(self) -> Hash {
        Hash { length: self.length, sha256: self.context.finish().as_ref().to_vec() }
    }
}
