//! The harness against itself: a client without a sidecar would prove nothing, so its parts are shown to notice faults.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::client::End;
use crate::log::Log;
use crate::material::{Generations, serial};
use crate::pattern::{Hasher, Pattern};
use crate::procfs::Proc;
use crate::upstream::{RefusingPort, Script, Upstream};

fn hash_of(bytes: &[u8]) -> crate::pattern::Hash {
    let mut hasher = Hasher::default();
    hasher.update(bytes);
    hasher.finish()
}

#[test]
fn a_pattern_never_repeats_a_block_and_follows_its_seed() {
    let mut bytes = Vec::new();
    let hash = Pattern::new(1).write_to(&mut bytes, 200_001).unwrap();
    assert_eq!(hash, hash_of(&bytes));
    assert_eq!(hash.length, 200_001);
    assert_ne!(bytes[..65_536], bytes[65_536..131_072]);
    assert_ne!(hash, Pattern::new(2).write_to(&mut Vec::new(), 200_001).unwrap());
}

#[test]
fn an_echo_upstream_echoes_and_reports() {
    let upstream = Upstream::tcp(Script::Echo);
    let mut socket = TcpStream::connect(upstream.address()).unwrap();
    socket.write_all(b"there and back").unwrap();
    socket.shutdown(std::net::Shutdown::Write).unwrap();
    let mut back = Vec::new();
    socket.read_to_end(&mut back).unwrap();
    assert_eq!(back, b"there and back");
    assert_eq!(upstream.report().unwrap(), hash_of(b"there and back"));
}

#[test]
fn a_resetting_upstream_resets() {
    let upstream = Upstream::tcp(Script::ResetAfter { length: 10 });
    let mut socket = TcpStream::connect(upstream.address()).unwrap();
    socket.write_all(b"x").unwrap();
    let error = socket.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

#[test]
fn a_refusing_port_refuses() {
    let port = RefusingPort::new();
    let error = TcpStream::connect(port.address()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[test]
fn a_log_is_read_as_it_grows_and_a_mark_hides_what_was_before() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let log = Log::follow(reader);
    writeln!(writer, r#"{{"level":"INFO","message":"one","count":7}}"#).unwrap();
    let one = log.wait(0, Duration::from_secs(5), |line| line.says("one")).unwrap();
    assert_eq!((one.number("count"), one.text("none").as_str()), (Some(7), ""));
    let mark = log.mark();
    writeln!(writer, "not json").unwrap();
    let next = log.wait(mark, Duration::from_secs(5), |_| true).unwrap();
    assert!(!next.is_json_object());
    assert!(log.wait(mark, Duration::from_millis(20), |line| line.says("one")).is_none());
}

#[test]
fn the_kernel_tells_about_this_process() {
    let this = Proc(std::process::id());
    assert!(this.descriptors() > 2);
    assert!(this.resident_kb() > 100);
    assert_eq!(this.inotify_watches(), 0);
    assert_eq!(this.inotify_instances(), 0);
    assert!(this.cpu_ticks() < 100_000);
}

/// A TLS server of a few lines: greets one client, and ends as told.
fn greeting_server(generations: &Generations, ends_properly: bool) -> SocketAddr {
    let leaf = generations.leaf(7);
    let chain = CertificateDer::pem_slice_iter(leaf.chain_pem.as_bytes()).map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(leaf.key_pem.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(builder.with_no_client_auth().with_single_cert(chain, key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let session = ServerConnection::new(config).unwrap();
        let mut stream = StreamOwned::new(session, listener.accept().unwrap().0);
        let mut request = [0; 4];
        stream.read_exact(&mut request).unwrap();
        stream.write_all(b"greetings").unwrap();
        if ends_properly {
            stream.conn.send_close_notify();
        }
        stream.flush().unwrap();
    });
    address
}

#[test]
fn the_client_tells_a_proper_end_from_a_torn_one() {
    let generations = Generations::new();
    for (ends_properly, end) in [(true, End::Notified), (false, End::Torn)] {
        let address = greeting_server(&generations, ends_properly);
        let mut client = generations.trust().connect(address).unwrap();
        assert_eq!((client.serial(), client.chain_length()), (serial(7), 2));
        assert!(!client.is_resumed());
        client.write_all(b"well").unwrap();
        assert_eq!(client.read_rest(), (b"greetings".to_vec(), end));
    }
}

#[test]
fn the_client_refuses_an_authority_it_does_not_know() {
    let address = greeting_server(&Generations::new(), true);
    assert!(Generations::new().trust().connect(address).is_err());
}

#[test]
fn a_store_through_a_mapping_changes_the_file_and_keeps_its_length() {
    let folder = crate::material::folder();
    let path = folder.path().join("file");
    std::fs::write(&path, "what was").unwrap();
    crate::mapping::Mapping::of(&path).store(b"is");
    assert_eq!(std::fs::read(&path).unwrap(), b"is\n\n\n\n\n\n");
}
