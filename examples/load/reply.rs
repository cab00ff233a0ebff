//! An answer as it arrives: how much of it is still to come.

use std::io;

const HEAD_BYTES_MAX: usize = 4096;

/// One answer with a content-length.
#[derive(Default)]
pub(crate) struct Reply {
    head: Vec<u8>,
    /// Bytes of the body to come, once the head is complete.
    left: Option<u64>,
}

impl Reply {
    /// Takes what arrived. Says whether the answer is complete now.
    pub(crate) fn take(&mut self, mut bytes: &[u8]) -> io::Result<bool> {
        if self.left.is_none() {
            self.head.extend_from_slice(bytes);
            let mut headers = [httparse::EMPTY_HEADER; 16];
            let mut response = httparse::Response::new(&mut headers);
            let parsed = response.parse(&self.head).map_err(io::Error::other)?;
            let httparse::Status::Complete(length) = parsed else {
                return if self.head.len() > HEAD_BYTES_MAX {
                    Err(odd("a head without an end"))
                } else {
                    Ok(false)
                };
            };
            if response.code != Some(200) {
                return Err(odd("an answer that is no 200"));
            }
            let body = content_length(response.headers).ok_or_else(|| odd("an answer without a length"))?;
            let of_body = self.head.len() - length;
            self.head.clear();
            self.left = Some(body);
            bytes = bytes.get(bytes.len() - of_body..).unwrap_or_default();
        }
        let left = self.left.unwrap_or_default();
        let left = left.checked_sub(bytes.len() as u64).ok_or_else(|| odd("more than was asked for"))?;
        self.left = (left > 0).then_some(left);
        Ok(left == 0)
    }
}

/// What the header of this name says.
pub(crate) fn content_length(headers: &[httparse::Header<'_>]) -> Option<u64> {
    let header = headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"))?;
    std::str::from_utf8(header.value).ok()?.trim().parse().ok()
}

fn odd(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
