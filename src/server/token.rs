//! What an event is about, packed into the token that the kernel hands back.
//!
//! A connection's token carries the stamp of its slot's owner, so that an event for a closed connection can't hit
//! the next owner of the slot. Shown by the tests below.

use mio::Token;

use crate::relay::Side;

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The worker's listener.
    Listener,
    /// Another thread has something to say: a first certificate, or a drain.
    Waker,
    /// The inotify descriptor.
    Watches,
    /// The signal descriptor.
    Signals,
    /// `/proc/self/mountinfo`.
    Mounts,
    /// The admin endpoint's listener.
    Admin,
    /// A client of the admin endpoint.
    AdminClient(Slot),
    /// One socket of a connection.
    Connection(Slot, Side),
}

/// Where a connection stands in its worker's table, and which of the slot's owners it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    /// Index in the table, below [`MAXIMUM_SLOTS`].
    pub(crate) index: usize,
    /// Which owner of the slot.
    pub(crate) stamp: u32,
}

/// How many connections a worker's table can name.
pub(crate) const MAXIMUM_SLOTS: usize = 1 << 30;

const SPECIAL: usize = 1 << 63;
/// Apart from the special ones without a slot, whose last bit is 0.
const ADMIN_CLIENT: usize = SPECIAL | 1;
const STAMP_SHIFT: u32 = 31;

impl Source {
    /// The token to register with.
    pub(crate) fn token(self) -> Token {
        Token(match self {
            Self::Listener => SPECIAL,
            Self::Waker => SPECIAL | 1 << 1,
            Self::Watches => SPECIAL | 2 << 1,
            Self::Signals => SPECIAL | 3 << 1,
            Self::Mounts => SPECIAL | 4 << 1,
            Self::Admin => SPECIAL | 5 << 1,
            Self::AdminClient(slot) => ADMIN_CLIENT | slot.bits(),
            Self::Connection(slot, side) => slot.bits() | usize::from(side == Side::Upstream),
        })
    }

    /// What `token` stands for; nothing for a token that [`Self::token`] never made.
    pub(crate) fn of(token: Token) -> Option<Self> {
        let Token(bits) = token;
        if bits & SPECIAL == 0 {
            let side = if bits & 1 == 1 { Side::Upstream } else { Side::Client };
            return Some(Self::Connection(Slot::of(bits)?, side));
        }
        if bits & ADMIN_CLIENT == ADMIN_CLIENT {
            return Some(Self::AdminClient(Slot::of(bits ^ ADMIN_CLIENT)?));
        }
        match bits ^ SPECIAL {
            0 => Some(Self::Listener),
            0b0010 => Some(Self::Waker),
            0b0100 => Some(Self::Watches),
            0b0110 => Some(Self::Signals),
            0b1000 => Some(Self::Mounts),
            0b1010 => Some(Self::Admin),
            _ => None,
        }
    }
}

impl Slot {
    /// Above the last bit of a token.
    fn bits(self) -> usize {
        (self.stamp as usize) << STAMP_SHIFT | self.index << 1
    }

    /// The slot in the lower bits of a token.
    fn of(bits: usize) -> Option<Self> {
        let stamp = u32::try_from(bits >> STAMP_SHIFT).ok()?;
        Some(Self { index: bits >> 1 & (MAXIMUM_SLOTS - 1), stamp })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_leads_back_to_its_source() {
        let edge = Slot { index: MAXIMUM_SLOTS - 1, stamp: u32::MAX };
        let first = Slot { index: 0, stamp: 0 };
        let sources = [
            Source::Listener,
            Source::Waker,
            Source::Watches,
            Source::Signals,
            Source::Mounts,
            Source::Admin,
            Source::AdminClient(edge),
            Source::AdminClient(first),
            Source::Connection(edge, Side::Client),
            Source::Connection(edge, Side::Upstream),
            Source::Connection(first, Side::Client),
            Source::Connection(first, Side::Upstream),
        ];
        for source in sources {
            assert_eq!(Source::of(source.token()), Some(source));
        }
    }

    #[test]
    fn a_token_nobody_made_is_nothing() {
        assert_eq!(Source::of(Token(1 << 63 | 0b1100)), None);
    }
}
