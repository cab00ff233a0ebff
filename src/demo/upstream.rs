//! A small HTTP/1.1 service to stand behind the sidecar: it answers every request with what it saw of it.
//!
//! A thread a connection, and few of them: it serves a demo and tests, not load. It knows nothing of TLS. The inline
//! tests speak to it over a socket.

use std::fmt::Write as _;
use std::io::{self, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::http::Message;

/// Connections served at once; more are closed at accept.
const CONNECTION_LIMIT: usize = 64;
/// An idle connection, or one that takes nothing, is closed after this long.
const IDLE_LIMIT: Duration = Duration::from_secs(300);
/// How long to wait after an accept that failed, so that a lack of descriptors does not make us spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A bound listener that does not answer yet.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
}

/// A running upstream. Dropping it ends its listener; open connections end with their peers.
#[derive(Debug)]
pub struct Upstream {
    address: SocketAddr,
    running: Option<(Sender<()>, JoinHandle<()>)>,
}

/// What the connections share.
#[derive(Debug, Default)]
struct Counts {
    requests: AtomicU64,
}

impl Bound {
    /// Binds a free port of the loopback interface.
    ///
    /// # Errors
    /// When no port can be bound.
    pub fn new() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// The address that clients will find the upstream at.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts answering. The threads inherit the caller's signal mask: block signals first where that matters.
    ///
    /// # Errors
    /// When no thread can be had.
    pub fn start(self) -> io::Result<Upstream> {
        let (stop, stopped) = mpsc::channel();
        let accept = move || accept_all(&self.listener, &stopped);
        let acceptor = thread::Builder::new().name("upstream".to_owned()).spawn(accept)?;
        Ok(Upstream { address: self.address, running: Some((stop, acceptor)) })
    }
}

impl Upstream {
    /// Binds a free port of the loopback interface and starts answering.
    ///
    /// # Errors
    /// When no port or no thread can be had.
    pub fn start() -> io::Result<Self> {
        Bound::new()?.start()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        let Some((stop, acceptor)) = self.running.take() else { return };
        drop(stop);
        // The acceptor looks at the channel once more when something connects.
        if TcpStream::connect(self.address).is_ok() {
            let _ = acceptor.join();
        }
    }
}

fn accept_all(listener: &TcpListener, stopped: &Receiver<()>) {
    let counts = Arc::new(Counts::default());
    for accepted in listener.incoming() {
        if stopped.try_recv() == Err(TryRecvError::Disconnected) {
            return;
        }
        let Ok(stream) = accepted else {
            match stopped.recv_timeout(ACCEPT_PAUSE) {
                Err(RecvTimeoutError::Timeout) | Ok(()) => continue,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        };
        // Each connection holds the counts, and so does the acceptor.
        if Arc::strong_count(&counts) <= CONNECTION_LIMIT {
            let counts = Arc::clone(&counts);
            let serve = move || serve(&stream, &counts);
            // Without a thread the connection is closed, as over the limit.
            let _ = thread::Builder::new().name("upstream connection".to_owned()).spawn(serve);
        }
    }
}

/// Answers until the peer ends or sends what is no request; either way there is nobody left to tell.
fn serve(stream: &TcpStream, counts: &Counts) {
    let _ = answer_all(stream, counts);
}

fn answer_all(mut stream: &TcpStream, counts: &Counts) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(IDLE_LIMIT))?;
    stream.set_write_timeout(Some(IDLE_LIMIT))?;
    let peer = stream.peer_addr()?;
    let mut reader = BufReader::new(stream);
    let mut on_connection = 0_u64;
    while let Some(request) = Message::read(&mut reader)? {
        on_connection = on_connection.saturating_add(1);
        let total = counts.requests.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let body = description(
            &request,
            &format!("request {total}, {on_connection} on its connection, from {peer}"),
        );
        stream.write_all(response(&request, &body).as_bytes())?;
        if closes(&request) {
            return Ok(());
        }
    }
    Ok(())
}

/// What the upstream saw of `request`, as text.
fn description(request: &Message, counted: &str) -> String {
    let mut text = format!("{}\n{counted}\n", request.start);
    for (name, value) in &request.headers {
        let _ = writeln!(text, "  {name}: {value}");
    }
    if !request.body.is_empty() {
        let _ = writeln!(text, "  and a body of {} bytes", request.body.len());
    }
    text
}

fn response(request: &Message, body: &str) -> String {
    let connection = if closes(request) { "close" } else { "keep-alive" };
    let length = body.len();
    let shown = if request.word(0) == "HEAD" { "" } else { body };
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {length}\r\n\
         connection: {connection}\r\n\r\n{shown}"
    )
}

fn closes(request: &Message) -> bool {
    let asked = request.header("connection").unwrap_or_default().to_ascii_lowercase();
    asked == "close" || (request.word(2) == "HTTP/1.0" && asked != "keep-alive")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    fn connect(upstream: &Upstream) -> BufReader<TcpStream> {
        let stream = TcpStream::connect(upstream.address()).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        BufReader::new(stream)
    }

    fn ask(connection: &mut BufReader<TcpStream>, request: &str) -> Option<Message> {
        connection.get_mut().write_all(request.as_bytes()).unwrap();
        Message::read(connection).unwrap()
    }

    #[test]
    fn an_answer_tells_the_request_and_counts_it() {
        let upstream = Upstream::start().unwrap();
        let mut connection = connect(&upstream);
        let peer = connection.get_ref().local_addr().unwrap();
        for count in 1..=2 {
            let answer =
                ask(&mut connection, "POST /a?b HTTP/1.1\r\nX-Mark: 7\r\nContent-Length: 3\r\n\r\nabc")
                    .unwrap();
            let text = String::from_utf8(answer.body).unwrap();
            let counted = format!("request {count}, {count} on its connection, from {peer}");
            for part in ["POST /a?b HTTP/1.1", "x-mark: 7", "body of 3 bytes", &counted] {
                assert!(text.contains(part), "{part:?} is not in {text:?}");
            }
        }
    }

    #[test]
    fn a_client_that_asks_to_close_is_closed() {
        let upstream = Upstream::start().unwrap();
        let mut connection = connect(&upstream);
        let answer = ask(&mut connection, "GET / HTTP/1.1\r\nConnection: close\r\n\r\n").unwrap();
        assert_eq!(answer.word(1), "200");
        assert_eq!(Message::read(&mut connection).unwrap(), None);
    }

    #[test]
    fn a_dropped_upstream_refuses_connections() {
        let upstream = Upstream::start().unwrap();
        let address = upstream.address();
        drop(upstream);
        assert!(TcpStream::connect(address).is_err());
    }

    #[test]
    fn connections_over_the_limit_are_closed_and_the_rest_still_answered() {
        let upstream = Upstream::start().unwrap();
        let mut open: Vec<_> = (0..CONNECTION_LIMIT).map(|_| connect(&upstream)).collect();
        for connection in &mut open {
            assert!(ask(connection, "GET / HTTP/1.1\r\n\r\n").is_some());
        }
        let mut refused = connect(&upstream);
        assert_eq!(Message::read(&mut refused).unwrap(), None);
        for connection in &mut open {
            assert!(ask(connection, "GET / HTTP/1.1\r\n\r\n").is_some());
        }
    }
}
