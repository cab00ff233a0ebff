//! One direction of a connection: where its bytes come from, which of them it holds, and where they go.
//!
//! A relay is two of these. A half knows neither the port between its input and its output nor the other half;
//! [`super::Relay`] does. Shown by the exhaustive histories of `tests/sim/relay`.

use std::time::{Duration, Instant};

use super::buffer::{Pool, Slot};
use super::step::{Readiness, Side, Step};

/// How long to leave a socket that is not settled yet before asking again: long enough to cost nothing, short
/// enough that a peer hardly notices.
const SETTLE_INTERVAL: Duration = Duration::from_millis(20);

/// How a source ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// As its protocol says it should.
    Clean,
    /// By a FIN without close_notify: passed on as an end, and reported.
    Torn,
    /// By a reset or a fault: what came before is delivered, but it must not look like an end.
    Cut,
}

/// Where a half's bytes come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// Not connected yet.
    Absent,
    /// More may come.
    Open,
    /// As open, but a write has told that the socket is broken, and taken the error with it: what was received
    /// before can still be read, and the end behind it is no end but a cut.
    Doomed,
    /// The end is known. The socket is still read, to see it go, but what it gives is dropped.
    Watched(End),
    /// Nothing is left to be read.
    Ended(End),
}

impl Source {
    pub(super) fn end(self) -> Option<End> {
        match self {
            Self::Absent | Self::Open | Self::Doomed => None,
            Self::Watched(end) | Self::Ended(end) => Some(end),
        }
    }
}

/// Where a half's bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sink {
    /// Not connected yet.
    Absent,
    /// It takes bytes.
    Open,
    /// The last byte (a close_notify or an alert, if the wire has such) is in the output; then it is shut.
    Told,
    /// The end was passed on.
    Shut,
    /// All bytes have arrived, and the socket may be reset.
    Settled,
    /// It takes no bytes any more; those for it are dropped.
    Broken,
}

/// What is known of the socket that bytes are read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Readable {
    /// It gave all it had; a wake-up will come.
    Waiting,
    /// It may have bytes.
    Ready,
    /// It has its end in it: no further wake-up will come, so it is read until the end shows.
    Ending,
}

/// What is known of the socket that bytes are written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writable {
    /// It took all it could; a wake-up will come.
    Waiting,
    /// It may take bytes.
    Ready,
}

/// When a socket that is to be reset is asked whether it has settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Settling {
    Now,
    At(Instant),
}

#[derive(Debug)]
pub(super) struct Half {
    pub(super) from: Side,
    pub(super) source: Source,
    pub(super) sink: Sink,
    /// Bytes read and not yet turned into output.
    pub(super) input: Slot,
    /// Bytes to be written.
    pub(super) output: Slot,
    readable: Readable,
    writable: Writable,
    settling: Settling,
    /// How many written bytes the sink's kernel had not acknowledged when it was last asked.
    unacknowledged: u32,
}

impl Half {
    pub(super) fn new(from: Side, source: Source, sink: Sink) -> Self {
        let writable = if sink == Sink::Open { Writable::Ready } else { Writable::Waiting };
        Self {
            from,
            source,
            sink,
            input: Slot::default(),
            output: Slot::default(),
            readable: Readable::Waiting,
            writable,
            settling: Settling::Now,
            unacknowledged: 0,
        }
    }

    fn to(&self) -> Side {
        self.from.other()
    }

    pub(super) fn wake_source(&mut self, readiness: Readiness) {
        if readiness.ended {
            self.readable = Readable::Ending;
        } else if readiness.readable && self.readable == Readable::Waiting {
            self.readable = Readable::Ready;
        }
    }

    pub(super) fn wake_sink(&mut self, readiness: Readiness) {
        if readiness.writable {
            self.writable = Writable::Ready;
        }
    }

    /// Bytes are read only when all earlier ones have been written: that is the back-pressure.
    pub(super) fn reading(&self) -> Option<Step> {
        let wanted = match self.source {
            Source::Absent | Source::Ended(_) => false,
            Source::Open | Source::Doomed => self.output.is_empty(),
            Source::Watched(_) => true,
        };
        (wanted && self.readable != Readable::Waiting).then_some(Step::Read(self.from))
    }

    /// The source's end is in its socket already: what little comes before it, and the end itself, leave in one write
    /// with the bytes that wait.
    pub(super) fn gathering(&self) -> Option<Step> {
        let wanted = self.nears_end() && !self.output.is_empty() && self.output.has_room();
        (wanted && self.delivers()).then_some(Step::Read(self.from))
    }

    pub(super) fn writing(&self) -> Option<Step> {
        let wanted = matches!(self.sink, Sink::Open | Sink::Told) && !self.output.is_empty();
        (wanted && self.writable == Writable::Ready).then_some(Step::Write(self.to()))
    }

    /// What is left to do once the last byte was written.
    pub(super) fn ending(&self) -> Option<Step> {
        if !self.output.is_empty() {
            return None;
        }
        match self.sink {
            Sink::Told => Some(Step::Shut(self.to())),
            Sink::Open if self.source.end() == Some(End::Cut) && self.settling == Settling::Now => {
                Some(Step::Settle(self.to()))
            }
            Sink::Open | Sink::Absent | Sink::Shut | Sink::Settled | Sink::Broken => None,
        }
    }

    /// Whether the source's end may be passed on now.
    pub(super) fn may_tell(&self) -> bool {
        let ended = matches!(self.source.end(), Some(End::Clean | End::Torn));
        ended && self.sink == Sink::Open
    }

    /// Whether nothing will ever be written again.
    pub(super) fn is_over(&self) -> bool {
        match self.sink {
            Sink::Absent | Sink::Open | Sink::Told => false,
            Sink::Shut | Sink::Settled | Sink::Broken => true,
        }
    }

    /// Whether the source's end is known to be near, though earlier bytes keep it from being read.
    pub(super) fn nears_end(&self) -> bool {
        matches!(self.source, Source::Open | Source::Doomed) && self.readable == Readable::Ending
    }

    /// Whether bytes that are read have somewhere to go.
    pub(super) fn delivers(&self) -> bool {
        matches!(self.source, Source::Open | Source::Doomed) && matches!(self.sink, Sink::Absent | Sink::Open)
    }

    /// `count` bytes of a `space` were read: less than all of it was all there is, but for an end.
    pub(super) fn was_read(&mut self, count: usize, space: usize) {
        if count < space && self.readable == Readable::Ready {
            self.readable = Readable::Waiting;
        }
    }

    /// Reads would block, or say nothing more that we need to know.
    pub(super) fn await_source(&mut self) {
        self.readable = Readable::Waiting;
    }

    /// `count` bytes of the output were written: less than all of it was all that the socket takes.
    pub(super) fn was_written(&mut self, count: usize) {
        if count < self.output.filled().len() {
            self.writable = Writable::Waiting;
        }
        self.output.consume(count);
    }

    /// Whether the sink has still bytes to take, and has taken some since it was last asked. The first time counts as
    /// such, for nothing is known of before.
    pub(super) fn is_being_taken(&mut self, unacknowledged: usize) -> bool {
        let unacknowledged = u32::try_from(unacknowledged).unwrap_or(u32::MAX);
        let before = std::mem::replace(&mut self.unacknowledged, unacknowledged);
        unacknowledged > 0 && unacknowledged != before
    }

    pub(super) fn await_sink(&mut self) {
        self.writable = Writable::Waiting;
    }

    pub(super) fn await_settling(&mut self, now: Instant) {
        self.settling = Settling::At(now + SETTLE_INTERVAL);
    }

    /// When the socket is to be asked again whether it has settled.
    pub(super) fn settling_at(&self) -> Option<Instant> {
        match self.settling {
            Settling::At(at) if !self.is_over() => Some(at),
            Settling::At(_) | Settling::Now => None,
        }
    }

    pub(super) fn expire_settling(&mut self, now: Instant) {
        if self.settling_at().is_some_and(|at| at <= now) {
            self.settling = Settling::Now;
        }
    }

    /// The sink's socket is connected.
    pub(super) fn connect_sink(&mut self) {
        self.sink = Sink::Open;
        self.writable = Writable::Ready;
    }

    /// The sink takes nothing any more.
    pub(super) fn break_sink(&mut self, pool: &mut Pool) {
        self.sink = Sink::Broken;
        self.output.drop_bytes(pool);
    }

    /// The source's socket is broken, as a write to it told: what it received before is still read.
    pub(super) fn doom_source(&mut self) {
        if self.source == Source::Open {
            self.source = Source::Doomed;
        }
        self.read_on();
    }

    /// The source's socket is let go, so that not even its end will be seen.
    pub(super) fn forget_source(&mut self) {
        if let Some(end) = self.source.end() {
            self.source = Source::Ended(end);
        }
    }

    /// The source's socket holds its end, whatever wake-ups said.
    pub(super) fn read_on(&mut self) {
        self.readable = Readable::Ending;
    }

    /// Whether bytes are on their way.
    pub(super) fn is_empty(&self) -> bool {
        self.input.is_empty() && self.output.is_empty()
    }

    pub(super) fn fit(&mut self, pool: &mut Pool) {
        self.input.fit(pool);
        self.output.fit(pool);
    }

    pub(super) fn tidy(&mut self, pool: &mut Pool) {
        self.input.tidy(pool);
        self.output.tidy(pool);
    }

    pub(super) fn drop_bytes(&mut self, pool: &mut Pool) {
        self.input.drop_bytes(pool);
        self.output.drop_bytes(pool);
    }
}
