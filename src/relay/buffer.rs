//! Bytes on their way, and the worker's stock of places for them.
//!
//! A connection borrows a buffer while it holds bytes that the other side has not taken, so an idle one holds
//! none. Knows nothing of what the bytes mean. Shown by the tests here and by the counts in `tests/sim/relay`.

/// The default size of a buffer: four full records, each with the longest header and padding TLS 1.3 allows, so
/// that one read, one batch of records and one write each fill it. More would gain little over four, and a
/// connection with a slow reader holds up to [`super::BUFFERS_MAXIMUM`] of them.
pub const BUFFER_BYTES: usize = 4 * (16_384 + 256 + 5);

/// How many free buffers a worker keeps by default: enough for the halves that hold bytes at the same moment
/// when peers keep up, while an idle process stays small.
pub const FREE_MAXIMUM: usize = 8;

/// A queue of bytes in one stretch of memory.
#[derive(Debug, Clone, Default)]
pub struct Buffer {
    bytes: Box<[u8]>,
    /// The filled bytes are `start..end`, and both are zero when there are none.
    start: usize,
    end: usize,
}

impl Buffer {
    fn new(capacity: usize) -> Self {
        Self { bytes: vec![0; capacity].into_boxed_slice(), start: 0, end: 0 }
    }

    /// How many bytes it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// How many bytes it can hold without growing.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes it holds.
    #[must_use]
    pub fn filled(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    /// The bytes it holds, to be changed in place.
    #[must_use]
    pub fn filled_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.start..self.end).unwrap_or_default()
    }

    /// The room behind the bytes it holds, all that there is: the bytes are moved to the front first.
    #[must_use]
    pub fn room(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        self.bytes.get_mut(self.end..).unwrap_or_default()
    }

    /// As [`Buffer::room`], but at least `wanted` bytes of it: the buffer grows if it must.
    #[must_use]
    pub fn room_for(&mut self, wanted: usize) -> &mut [u8] {
        let needed = self.len() + wanted;
        if needed > self.capacity() {
            let mut larger = Self::new(needed);
            larger.end = self.len();
            larger.filled_mut().copy_from_slice(self.filled());
            *self = larger;
        }
        self.room()
    }

    /// Counts the first `count` bytes of the room as held.
    pub fn fill(&mut self, count: usize) {
        debug_assert!(count <= self.capacity() - self.end, "more filled than there was room");
        self.end = self.capacity().min(self.end + count);
    }

    /// Appends `bytes`.
    pub fn append(&mut self, bytes: &[u8]) {
        if let Some(room) = self.room_for(bytes.len()).get_mut(..bytes.len()) {
            room.copy_from_slice(bytes);
        }
        self.fill(bytes.len());
    }

    /// Takes the first `count` bytes off.
    pub fn consume(&mut self, count: usize) {
        debug_assert!(count <= self.len(), "more consumed than it holds");
        self.start = self.end.min(self.start + count);
        if self.is_empty() {
            self.clear();
        }
    }

    /// Takes all bytes off.
    pub fn clear(&mut self) {
        self.start = 0;
        self.end = 0;
    }
}

/// A place for a buffer, with one in it while there are bytes to hold. A connection has several that are mostly
/// empty, hence the box.
#[derive(Debug, Default)]
pub(super) struct Slot(Option<Box<Buffer>>);

impl Slot {
    pub(super) fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|buffer| buffer.is_empty())
    }

    pub(super) fn filled(&self) -> &[u8] {
        self.0.as_ref().map(|buffer| buffer.filled()).unwrap_or_default()
    }

    pub(super) fn filled_mut(&mut self) -> &mut [u8] {
        self.0.as_mut().map(|buffer| buffer.filled_mut()).unwrap_or_default()
    }

    /// Whether it holds as many bytes as its buffer can.
    pub(super) fn is_full(&self) -> bool {
        self.0.as_ref().is_some_and(|buffer| buffer.len() == buffer.capacity())
    }

    /// Its buffer, taken from the pool if there is none yet.
    pub(super) fn buffer(&mut self, pool: &mut Pool) -> &mut Buffer {
        self.0.get_or_insert_with(|| pool.take())
    }

    pub(super) fn consume(&mut self, count: usize) {
        if let Some(buffer) = &mut self.0 {
            buffer.consume(count);
        }
    }

    /// Gives the buffer back if it holds nothing.
    pub(super) fn tidy(&mut self, pool: &mut Pool) {
        if self.is_empty() {
            self.drop_bytes(pool);
        }
    }

    /// Gives the buffer back with all that it holds.
    pub(super) fn drop_bytes(&mut self, pool: &mut Pool) {
        if let Some(buffer) = self.0.take() {
            pool.put(buffer);
        }
    }
}

/// A worker's stock of buffers.
#[derive(Debug)]
pub struct Pool {
    #[expect(clippy::vec_box, reason = "a buffer is lent in its box")]
    free: Vec<Box<Buffer>>,
    buffer_bytes: usize,
    free_maximum: usize,
    lent: usize,
}

impl Default for Pool {
    fn default() -> Self {
        Self::new(BUFFER_BYTES, FREE_MAXIMUM)
    }
}

impl Pool {
    /// A stock that hands out buffers of `buffer_bytes` and keeps at most `free_maximum` of those it gets back.
    #[must_use]
    pub fn new(buffer_bytes: usize, free_maximum: usize) -> Self {
        Self {
            free: Vec::with_capacity(free_maximum),
            buffer_bytes: buffer_bytes.max(1),
            free_maximum,
            lent: 0,
        }
    }

    /// How many bytes a buffer of this stock holds.
    #[must_use]
    pub fn buffer_bytes(&self) -> usize {
        self.buffer_bytes
    }

    /// How many buffers are with connections.
    #[must_use]
    pub fn lent(&self) -> usize {
        self.lent
    }

    /// An empty buffer.
    pub fn take(&mut self) -> Box<Buffer> {
        self.lent += 1;
        self.free.pop().unwrap_or_else(|| Box::new(Buffer::new(self.buffer_bytes)))
    }

    /// Takes a buffer back. One that had to grow is not kept, nor is one too many.
    pub fn put(&mut self, mut buffer: Box<Buffer>) {
        debug_assert!(self.lent > 0, "a buffer came back that was not lent");
        self.lent = self.lent.saturating_sub(1);
        if buffer.capacity() == self.buffer_bytes && self.free.len() < self.free_maximum {
            buffer.clear();
            self.free.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_a_queue() {
        let mut buffer = Buffer::new(4);
        buffer.append(b"abc");
        buffer.consume(2);
        buffer.append(b"def");
        assert_eq!((buffer.filled(), buffer.capacity()), (&b"cdef"[..], 4));
        buffer.append(b"g");
        assert_eq!((buffer.filled(), buffer.capacity()), (&b"cdefg"[..], 5));
        buffer.consume(5);
        assert!(buffer.is_empty());
        assert_eq!(buffer.room().len(), 5);
    }

    #[test]
    fn the_pool_keeps_a_few_buffers_and_none_that_grew() {
        let mut pool = Pool::new(4, 1);
        let (first, second, mut third) = (pool.take(), pool.take(), pool.take());
        assert_eq!(pool.lent(), 3);
        third.append(b"12345");
        pool.put(third);
        assert_eq!((pool.lent(), pool.free.len()), (2, 0));
        pool.put(first);
        pool.put(second);
        assert_eq!((pool.lent(), pool.free.len()), (0, 1));
        assert!(pool.take().is_empty());
    }
}
