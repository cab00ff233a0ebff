//! The plaintext service behind the terminators: small answers, long answers, and a place for long requests.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use slab::Slab;

use crate::reply::content_length;

const LISTENER: Token = Token(usize::MAX);
const SMALL_BYTES: u64 = 200;
const HEAD_BYTES_MAX: usize = 4096;
const SCRATCH_BYTES: usize = 256 * 1024;
/// How much one connection may move before others have their turn.
const TURN_BYTES: u64 = 1 << 20;

/// One client of the service.
struct Client {
    socket: TcpStream,
    queued: bool,
    head: Vec<u8>,
    /// Bytes of the request's body that are still to come.
    body_left: u64,
    answer: Option<Answer>,
}

/// What is left to be sent.
struct Answer {
    head: Vec<u8>,
    sent: usize,
    body_left: u64,
    last: bool,
}

enum Turn {
    Waits,
    Unfinished,
    Over,
}

/// Serves until it is killed.
pub(crate) fn serve(listen: SocketAddr) -> anyhow::Result<()> {
    let mut poll = Poll::new()?;
    let mut listener = TcpListener::bind(listen)?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let mut clients: Slab<Client> = Slab::new();
    let mut ready: VecDeque<usize> = VecDeque::new();
    let mut scratch = vec![0; SCRATCH_BYTES];
    let mut events = Events::with_capacity(1024);
    loop {
        poll.poll(&mut events, if ready.is_empty() { None } else { Some(Duration::ZERO) })?;
        for event in &events {
            if event.token() == LISTENER {
                accept(&listener, &poll, &mut clients)?;
            } else if let Some(client) = clients.get_mut(event.token().0)
                && !client.queued
            {
                client.queued = true;
                ready.push_back(event.token().0);
            }
        }
        for _ in 0..ready.len() {
            let Some(index) = ready.pop_front() else { break };
            let Some(client) = clients.get_mut(index) else { continue };
            client.queued = false;
            match client.turn(&mut scratch) {
                Ok(Turn::Waits) => {}
                Ok(Turn::Unfinished) => {
                    client.queued = true;
                    ready.push_back(index);
                }
                // An unclean end is the client's affair.
                Ok(Turn::Over) | Err(_) => drop(clients.remove(index)),
            }
        }
    }
}

fn accept(listener: &TcpListener, poll: &Poll, clients: &mut Slab<Client>) -> io::Result<()> {
    loop {
        let mut socket = match listener.accept() {
            Ok((socket, _)) => socket,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        socket.set_nodelay(true)?;
        let entry = clients.vacant_entry();
        poll.registry().register(&mut socket, Token(entry.key()), Interest::READABLE | Interest::WRITABLE)?;
        entry.insert(Client { socket, queued: false, head: Vec::new(), body_left: 0, answer: None });
    }
}

impl Client {
    fn turn(&mut self, scratch: &mut [u8]) -> io::Result<Turn> {
        let mut moved = 0;
        while moved < TURN_BYTES {
            match &mut self.answer {
                Some(answer) if self.body_left == 0 => match answer.send(&mut self.socket, scratch) {
                    Ok(0) if answer.last => return Ok(Turn::Over),
                    Ok(0) => self.answer = None,
                    Ok(count) => moved += count,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Turn::Waits),
                    Err(error) => return Err(error),
                },
                _ => match self.socket.read(scratch) {
                    Ok(0) => return Ok(Turn::Over),
                    Ok(count) => {
                        moved += count as u64;
                        self.take(scratch.get(..count).unwrap_or_default())?;
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Turn::Waits),
                    Err(error) => return Err(error),
                },
            }
        }
        Ok(Turn::Unfinished)
    }

    /// Takes part of a request; nobody sends the next before the answer.
    fn take(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        if self.body_left == 0 {
            self.head.extend_from_slice(bytes);
            let mut headers = [httparse::EMPTY_HEADER; 16];
            let mut request = httparse::Request::new(&mut headers);
            let httparse::Status::Complete(length) = request.parse(&self.head).map_err(io::Error::other)?
            else {
                return if self.head.len() > HEAD_BYTES_MAX {
                    Err(ErrorKind::InvalidData.into())
                } else {
                    Ok(())
                };
            };
            let path = request.path.unwrap_or_default();
            let wanted = path.strip_prefix("/bytes/").and_then(|bytes| bytes.parse().ok());
            let last = request.headers.iter().any(|header| {
                header.name.eq_ignore_ascii_case("connection") && header.value.eq_ignore_ascii_case(b"close")
            });
            self.body_left = content_length(request.headers).unwrap_or_default();
            self.answer = Some(Answer::new(wanted.unwrap_or(SMALL_BYTES), last));
            let of_body = self.head.len() - length;
            bytes = bytes.get(bytes.len() - of_body..).unwrap_or_default();
            self.head.clear();
        }
        self.body_left = self.body_left.saturating_sub(bytes.len() as u64);
        Ok(())
    }
}

impl Answer {
    fn new(body_bytes: u64, last: bool) -> Self {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {body_bytes}\r\n\r\n").into_bytes();
        Self { head, sent: 0, body_left: body_bytes, last }
    }

    /// Sends a part, and says how much; nothing once all is sent.
    fn send(&mut self, socket: &mut TcpStream, filler: &[u8]) -> io::Result<u64> {
        let head = self.head.get(self.sent..).unwrap_or_default();
        let of_body = usize::try_from(self.body_left).unwrap_or(usize::MAX).min(filler.len());
        let body = filler.get(..of_body).unwrap_or_default();
        if head.is_empty() && body.is_empty() {
            return Ok(0);
        }
        let count = if head.is_empty() {
            socket.write(body)?
        } else {
            socket.write_vectored(&[io::IoSlice::new(head), io::IoSlice::new(body)])?
        };
        let of_head = count.min(head.len());
        self.sent += of_head;
        self.body_left -= (count - of_head) as u64;
        Ok(count as u64)
    }
}
