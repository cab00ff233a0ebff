//! Just enough HTTP/1.1 for the demo's upstream and client: one message at a time, with a length, within limits.
//!
//! It knows neither sockets nor TLS. A message that it does not understand is an error and ends the connection; that is
//! enough between two ends that we wrote ourselves and a person's curl. The inline tests are a table of messages.

use std::io::{self, BufRead, Read};

/// The longest start line and headers together, in bytes.
const HEAD_LIMIT_BYTES: u64 = 16 * 1024;
/// The longest body, in bytes.
const BODY_LIMIT_BYTES: u64 = 1024 * 1024;

/// A request or a response.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Message {
    /// The request line or status line, without its end.
    pub(super) start: String,
    /// The header lines in their order, names in lower case.
    pub(super) headers: Vec<(String, String)>,
    /// The body, as long as `content-length` said.
    pub(super) body: Vec<u8>,
}

impl Message {
    /// The value of the first header called `name` (lower case).
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }

    /// The word at `index` of the start line.
    pub(super) fn word(&self, index: usize) -> &str {
        self.start.split(' ').nth(index).unwrap_or_default()
    }

    /// Reads the next message; `None` when the other side ended between two.
    pub(super) fn read(reader: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut head = reader.take(HEAD_LIMIT_BYTES);
        let Some(start) = line(&mut head)? else { return Ok(None) };
        let mut message = Self { start, ..Self::default() };
        loop {
            let header = line(&mut head)?.ok_or(io::ErrorKind::UnexpectedEof)?;
            if header.is_empty() {
                break;
            }
            let (name, value) =
                header.split_once(':').ok_or_else(|| malformed("a header without a colon"))?;
            message.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        message.read_body(reader)?;
        Ok(Some(message))
    }

    fn read_body(&mut self, reader: &mut impl BufRead) -> io::Result<()> {
        if self.header("transfer-encoding").is_some() {
            return Err(malformed("a body without a length"));
        }
        let length = self.header("content-length").unwrap_or("0").parse::<u64>();
        let length = length.map_err(|_| malformed("a length that is no number"))?;
        if length > BODY_LIMIT_BYTES {
            return Err(malformed("a body over the limit"));
        }
        let read = reader.take(length).read_to_end(&mut self.body)?;
        if read as u64 == length { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

/// The next line without its end; `None` at the end of input.
fn line(reader: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let text = line.strip_suffix('\n').ok_or_else(|| malformed("a head over the limit or cut short"))?;
    Ok(Some(text.strip_suffix('\r').unwrap_or(text).to_owned()))
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not a message we understand: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_follow_each_other_on_one_connection() {
        let mut input: &[u8] =
            b"GET /a HTTP/1.1\r\nHost: x\r\n\r\nPOST /b HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi";
        let first = Message::read(&mut input).unwrap().unwrap();
        assert_eq!((first.word(0), first.word(1), first.header("host")), ("GET", "/a", Some("x")));
        let second = Message::read(&mut input).unwrap().unwrap();
        assert_eq!((second.word(1), second.body.as_slice()), ("/b", b"hi".as_slice()));
        assert_eq!(Message::read(&mut input).unwrap(), None);
    }

    #[test]
    fn what_is_not_a_whole_message_is_an_error() {
        let endless = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(HEAD_LIMIT_BYTES as usize));
        for input in [
            "GET / HTTP/1.1\r\nHost: x\r\n",
            "GET / HTTP/1.1\r\nHost: x",
            "GET / HTTP/1.1\r\nno colon\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: two\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: 3\r\n\r\nhi",
            "GET / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n",
            "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            &endless,
        ] {
            assert!(Message::read(&mut input.as_bytes()).is_err(), "{input:.60}");
        }
    }
}
