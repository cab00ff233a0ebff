//! Clients that are many, slow or silent.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::asking::ask_at;
use crate::process::{Sidecar, now};

/// As documented.
const CLIENTS: usize = 16;
const PATIENCE: Duration = Duration::from_secs(5);

#[test]
fn a_hundred_clients_at_once_are_all_answered() {
    let sidecar = Sidecar::start(&[]);
    let ask = || {
        let address = sidecar.admin.clone();
        std::thread::spawn(move || ask_at(&address, "/metrics").code)
    };
    let answers: Vec<_> = (0..100).map(|_| ask()).collect();
    for answer in answers {
        assert_eq!(answer.join().unwrap(), "200");
    }
    assert_eq!(sidecar.metric("tlsidecar_admin_connections_cut_total"), Some(0.0));
}

#[test]
fn silent_clients_hold_few_descriptors_and_nobody_off() {
    let sidecar = Sidecar::start(&[]);
    let before = sidecar.descriptors();
    let silent: Vec<TcpStream> = (0..100).map(|_| sidecar.connect()).collect();
    for _ in 0..10 {
        // Whoever asks waits for those in front, who give way after half a second each lot.
        let code = sidecar.ask("/livez").code;
        assert_eq!(code, "200");
        assert!(sidecar.descriptors() <= before + CLIENTS, "{} {before}", sidecar.descriptors());
    }
    assert!(sidecar.metric("tlsidecar_admin_connections_cut_total") > Some(0.0));
    drop(silent);
}

#[test]
fn who_takes_too_long_to_ask_is_cut() {
    let sidecar = Sidecar::start(&[]);
    let mut slow = sidecar.connect();
    slow.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let start = now();
    slow.write_all(b"GET /livez HTTP/1.1\r\n").unwrap();
    loop {
        // A header that never ends keeps the client busy, not the sidecar waiting.
        let alive = slow.write_all(b"X").is_ok();
        match slow.read(&mut [0]) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock && alive => {}
            Ok(0) | Err(_) => break,
            Ok(_) => panic!("half a question was answered"),
        }
        assert_eq!(sidecar.ask("/livez").code, "200");
        assert!(start.elapsed() < 4 * PATIENCE, "it is still there");
    }
    assert!(start.elapsed() >= PATIENCE, "it was not given its time");
    assert_eq!(sidecar.metric("tlsidecar_admin_connections_cut_total"), Some(1.0));
}
