//! Bytes on their way, and the worker's stock of places for them.
//!
//! A connection borrows a buffer while it holds bytes that the other side has not taken, so an idle one holds
//! none. Knows nothing of what the bytes mean. Shown by the tests here and by the counts in `tests/sim/relay`.

/// The default size of a small buffer: four full records, each with the longest header and padding TLS 1.3 allows. A
/// connection whose reader is slow holds up to [`super::BUFFERS_MAXIMUM`] of them.
pub const SMALL_BYTES: usize = 4 * RECORD_BYTES;

/// The default size of a large buffer. A bulk transfer costs two fifths less CPU a byte with reads and writes of this
/// size than with small ones, for the kernel wakes each peer an eighth as often.
pub const LARGE_BYTES: usize = 32 * RECORD_BYTES;

/// A full record with the longest header and padding TLS 1.3 allows.
const RECORD_BYTES: usize = 16_384 + 256 + 5;

/// How many free small buffers a worker keeps by default: enough for the halves that hold bytes at the same moment
/// when peers keep up, while an idle process stays small.
const SMALL_FREE_MAXIMUM: usize = 8;

/// How many free large buffers a worker keeps by default: those that one transfer is at work with (what was read, what
/// it became, and what TLS replies).
const LARGE_FREE_MAXIMUM: usize = 3;

/// How many large buffers a worker lends at once by default, so that slow readers can't pin more than some megabytes
/// in them; whoever comes later gets small ones.
const LARGE_LENT_MAXIMUM: usize = 16;

/// A queue of bytes in one stretch of memory.
#[derive(Debug, Clone, Default)]
pub struct Buffer {
    bytes: Box<[u8]>,
    /// The filled bytes are `start..end`, and both are zero when there are none.
    start: usize,
    end: usize,
    /// Which stock it belongs to, however far it had to grow.
    size: Size,
}

/// Which stock a buffer is from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Size {
    /// For work that is short, or one of many.
    #[default]
    Small,
    /// For a bulk transfer among few.
    Large,
    /// For bytes that wait: made for them, and of no stock.
    Fitted,
}

impl Buffer {
    fn new(capacity: usize, size: Size) -> Self {
        Self { bytes: vec![0; capacity].into_boxed_slice(), start: 0, end: 0, size }
    }

    fn fitted(bytes: &[u8]) -> Self {
        Self { bytes: bytes.into(), start: 0, end: bytes.len(), size: Size::Fitted }
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
            let mut larger = Self::new(needed, self.size);
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
        self.0.as_ref().is_some_and(|buffer| buffer.size != Size::Fitted && buffer.len() == buffer.capacity())
    }

    /// Whether at least half of its buffer is free.
    pub(super) fn has_room(&self) -> bool {
        self.0
            .as_ref()
            .is_none_or(|buffer| buffer.size == Size::Fitted || buffer.len() * 2 <= buffer.capacity())
    }

    /// Its buffer, taken from the pool if there is none with room yet.
    pub(super) fn buffer(&mut self, pool: &mut Pool) -> &mut Buffer {
        let buffer = self.0.get_or_insert_with(|| pool.take());
        if buffer.size == Size::Fitted {
            let mut roomy = pool.take();
            roomy.append(buffer.filled());
            *buffer = roomy;
        }
        buffer
    }

    /// Moves few bytes that wait out of a buffer made for more. There are not many large ones, and whoever has one is
    /// about to use it.
    pub(super) fn fit(&mut self, pool: &mut Pool) {
        if let Some(buffer) = &mut self.0
            && buffer.size == Size::Small
            && buffer.len() * 4 <= buffer.capacity()
        {
            let fitted = Box::new(Buffer::fitted(buffer.filled()));
            pool.put(std::mem::replace(buffer, fitted));
        }
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

/// A worker's buffers: small ones without a limit but the connections', and some large ones.
#[derive(Debug)]
pub struct Pool {
    small: Stock,
    large: Stock,
    preferred: Size,
}

/// The buffers of one size.
#[derive(Debug)]
struct Stock {
    #[expect(clippy::vec_box, reason = "a buffer is lent in its box")]
    free: Vec<Box<Buffer>>,
    size: Size,
    buffer_bytes: usize,
    free_maximum: usize,
    lent: usize,
}

impl Default for Pool {
    fn default() -> Self {
        Self {
            small: Stock::new(Size::Small, SMALL_BYTES, SMALL_FREE_MAXIMUM),
            large: Stock::new(Size::Large, LARGE_BYTES, LARGE_FREE_MAXIMUM),
            preferred: Size::Small,
        }
    }
}

impl Pool {
    /// A pool whose buffers are all of `buffer_bytes` and which keeps at most `free_maximum` of those it gets back.
    #[must_use]
    pub fn new(buffer_bytes: usize, free_maximum: usize) -> Self {
        Self {
            small: Stock::new(Size::Small, buffer_bytes, free_maximum),
            large: Stock::new(Size::Large, buffer_bytes, free_maximum),
            preferred: Size::Small,
        }
    }

    /// Lends buffers of this size from now on, as far as there are such.
    pub fn prefer(&mut self, size: Size) {
        self.preferred = size;
    }

    /// How many buffers are with connections.
    #[must_use]
    pub fn lent(&self) -> usize {
        self.small.lent + self.large.lent
    }

    /// An empty buffer.
    pub fn take(&mut self) -> Box<Buffer> {
        if self.preferred == Size::Large && self.large.lent < LARGE_LENT_MAXIMUM {
            self.large.take()
        } else {
            self.small.take()
        }
    }

    /// Takes a buffer back.
    pub fn put(&mut self, buffer: Box<Buffer>) {
        match buffer.size {
            Size::Small => self.small.put(buffer),
            Size::Large => self.large.put(buffer),
            Size::Fitted => {}
        }
    }
}

impl Stock {
    fn new(size: Size, buffer_bytes: usize, free_maximum: usize) -> Self {
        let free = Vec::with_capacity(free_maximum);
        Self { free, size, buffer_bytes: buffer_bytes.max(1), free_maximum, lent: 0 }
    }

    fn take(&mut self) -> Box<Buffer> {
        self.lent += 1;
        self.free.pop().unwrap_or_else(|| Box::new(Buffer::new(self.buffer_bytes, self.size)))
    }

    /// One that had to grow is not kept, nor is one too many.
    fn put(&mut self, mut buffer: Box<Buffer>) {
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
        let mut buffer = Buffer::new(4, Size::Small);
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
        assert_eq!((pool.lent(), pool.small.free.len()), (2, 0));
        pool.put(first);
        pool.put(second);
        assert_eq!((pool.lent(), pool.small.free.len()), (0, 1));
        assert!(pool.take().is_empty());
    }

    #[test]
    fn few_bytes_that_wait_take_no_buffer_of_the_pool() {
        let mut pool = Pool::new(8, 1);
        let mut slot = Slot::default();
        slot.buffer(&mut pool).append(b"abc");
        slot.fit(&mut pool);
        assert_eq!((slot.filled(), pool.lent()), (&b"abc"[..], 1));
        slot.consume(1);
        slot.fit(&mut pool);
        assert_eq!((slot.filled(), pool.lent()), (&b"bc"[..], 0));
        assert!(slot.has_room() && !slot.is_full());
        slot.buffer(&mut pool).append(b"def");
        assert_eq!((slot.filled(), pool.lent()), (&b"bcdef"[..], 1));
        slot.fit(&mut pool);
        slot.drop_bytes(&mut pool);
        assert_eq!(pool.lent(), 0);
    }

    #[test]
    fn large_buffers_are_lent_when_preferred_and_a_few_at_a_time() {
        let mut pool = Pool::default();
        assert_eq!(pool.take().capacity(), SMALL_BYTES);
        pool.prefer(Size::Large);
        let large: Vec<_> = (0..LARGE_LENT_MAXIMUM).map(|_| pool.take()).collect();
        assert!(large.iter().all(|buffer| buffer.capacity() == LARGE_BYTES));
        assert_eq!(pool.take().capacity(), SMALL_BYTES);
        for buffer in large {
            pool.put(buffer);
        }
        assert_eq!(pool.large.free.len(), LARGE_FREE_MAXIMUM);
        assert_eq!(pool.take().capacity(), LARGE_BYTES);
        pool.prefer(Size::Small);
        assert_eq!(pool.take().capacity(), SMALL_BYTES);
    }
}
