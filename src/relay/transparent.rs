//! A port without cryptography, small enough for every history of a connection to be tried.
//!
//! Sealed bytes are the plain bytes, but for a few that stand for TLS' own messages. Knows nothing of TLS. Shown by
//! `tests/sim/relay/histories.rs`, its only user.

use super::buffer::Buffer;
use super::port::{Fault, FaultKind, Opened, Port};

/// A port whose sealed bytes are its plain bytes, but for the constants here.
#[derive(Debug, Clone)]
pub struct Transparent {
    handshaking: bool,
}

impl Transparent {
    /// From the client: the handshake, all of it. To the client: its answer.
    pub const HELLO: u8 = b'H';
    /// Either way: close_notify.
    pub const CLOSE: u8 = b'.';
    /// From the client: a fault. To the client: the alert about it.
    pub const FAULT: u8 = b'!';
    /// From the client: with the byte after it a record of that one byte; alone an incomplete record.
    pub const HEADER: u8 = b'_';

    /// A port that still needs its handshake.
    #[must_use]
    pub fn new() -> Self {
        Self { handshaking: true }
    }

    fn open_one(&mut self, byte: u8, plain: &mut Buffer, replies: &mut Buffer) -> Result<Opened, Fault> {
        match (byte, self.handshaking) {
            (Self::HELLO, true) => {
                self.handshaking = false;
                replies.append(&[Self::HELLO]);
            }
            (Self::FAULT, _) | (_, true) => {
                replies.append(&[Self::FAULT]);
                return Err(Fault { kind: FaultKind::BadRecord, text: String::from("as the test wants it") });
            }
            (Self::CLOSE, false) => return Ok(Opened::Closed),
            (_, false) => plain.append(&[byte]),
        }
        Ok(Opened::More)
    }
}

impl Default for Transparent {
    fn default() -> Self {
        Self::new()
    }
}

impl Port for Transparent {
    fn open(
        &mut self,
        sealed: &mut Buffer,
        plain: &mut Buffer,
        replies: &mut Buffer,
    ) -> Result<Opened, Fault> {
        loop {
            let (byte, length) = match sealed.filled() {
                [] | [Self::HEADER] => return Ok(Opened::More),
                [Self::HEADER, byte, ..] => (*byte, 2),
                [byte, ..] => (*byte, 1),
            };
            sealed.consume(length);
            if self.open_one(byte, plain, replies)? == Opened::Closed {
                sealed.clear();
                return Ok(Opened::Closed);
            }
        }
    }

    fn seal(&mut self, plain: &[u8], sealed: &mut Buffer, _: &mut [u8]) -> Result<(), Fault> {
        sealed.append(plain);
        Ok(())
    }

    fn close(&mut self, sealed: &mut Buffer, _: &mut [u8]) -> Result<(), Fault> {
        sealed.append(&[Self::CLOSE]);
        Ok(())
    }

    fn handshaking(&self) -> bool {
        self.handshaking
    }

    fn plain_bytes(&self, sealed_bytes: usize) -> usize {
        sealed_bytes
    }
}
