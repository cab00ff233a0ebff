//! Questions to an admin endpoint and its answers, for every test that looks at numbers.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// How long an answer may take on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(20);

/// An answer of the admin endpoint.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: String,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn read(stream: &mut impl Read) -> io::Result<Self> {
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let (head, body) = text.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
        let code = head.split(' ').nth(1).unwrap_or_default().to_owned();
        Ok(Self { code, head: head.to_owned(), body: body.to_owned() })
    }

    /// The value of a series, as it stands in `/metrics`.
    pub(crate) fn metric(&self, series: &str) -> Option<f64> {
        let mut values = self.body.lines().filter_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        values.next().map(|value| value.parse().unwrap())
    }
}

pub(crate) fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// What the admin endpoint at `address` answers.
pub(crate) fn ask_at(address: &str, path: &str) -> Answer {
    let mut stream = connect(address);
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).unwrap();
    Answer::read(&mut stream).unwrap()
}
