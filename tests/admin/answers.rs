//! What each question is answered, and what is no question.

use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::asking::Answer;
use crate::process::{Sidecar, pause, until};

#[test]
fn a_process_without_a_certificate_lives_and_is_not_ready() {
    let mut sidecar = Sidecar::start(&[]);
    assert_eq!(sidecar.ask("/livez").code, "200");
    let ready = sidecar.ask("/readyz");
    assert_eq!(ready.code, "503");
    assert!(ready.body.starts_with("no certificate: "), "{}", ready.body);
    assert!(ready.body.contains("tls.crt"), "{}", ready.body);
    let status = sidecar.status();
    assert_eq!((&status["ready"], &status["sets"][0]["in_force"]), (&false.into(), &().into()));
    assert_eq!(status["phase"], "starting");
    sidecar.rotate();
    assert_eq!(sidecar.status()["phase"], "serving");
    let ready = sidecar.ask("/readyz");
    assert_eq!((ready.code.as_str(), ready.body.as_str()), ("200", "ready\n"));
}

#[test]
fn each_path_has_its_type_and_a_head_has_no_body() {
    let sidecar = Sidecar::start(&[]);
    for (path, content_type) in [
        ("/livez", "text/plain; charset=utf-8"),
        ("/metrics", "text/plain; version=0.0.4; charset=utf-8"),
        ("/status?pretty", "application/json"),
    ] {
        let answer = sidecar.ask(path);
        assert_eq!(answer.code, "200", "{path}");
        assert!(answer.head.contains(&format!("\r\nContent-Type: {content_type}\r\n")), "{}", answer.head);
        assert!(answer.head.contains(&format!("\r\nContent-Length: {}\r\n", answer.body.len())));
        let head = sidecar.send(format!("HEAD {path} HTTP/1.1\r\n\r\n").as_bytes());
        assert_eq!((head.code.as_str(), head.body.as_str()), ("200", ""), "{path}");
    }
    assert!(sidecar.ask("/").body.contains("/readyz"));
}

#[test]
fn what_is_no_question_is_refused_and_counted() {
    let sidecar = Sidecar::start(&[]);
    let long = [b"GET /livez HTTP/1.1\r\nX: ".as_slice(), &[b'x'; 200_000]].concat();
    for (bytes, code) in [
        (b"POST /livez HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello".as_slice(), "405"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "400"),
        (b"GET /livez HTTP/3.0\r\n\r\n", "505"),
        (b"GET /nowhere HTTP/1.1\r\n\r\n", "404"),
        (b"GET /livez HTTP/1.0\r\n\r\nGET /metrics HTTP/1.0\r\n\r\n", "200"),
        (&long, "431"),
    ] {
        assert_eq!(sidecar.send(bytes).code, code);
        let counted = sidecar.metric(&format!("tlsidecar_admin_responses_total{{code=\"{code}\"}}"));
        // Asking for the numbers is itself answered with 200.
        assert!(counted == Some(1.0) || code == "200" && counted > Some(1.0), "{code} {counted:?}");
    }
}

#[test]
fn a_client_may_send_byte_by_byte_and_may_end_its_direction() {
    let sidecar = Sidecar::start(&[]);
    let mut stream = sidecar.connect();
    stream.set_nodelay(true).unwrap();
    for byte in b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n" {
        stream.write_all(&[*byte]).unwrap();
    }
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(Answer::read(&mut stream).unwrap().body, "alive\n");
    let mut silent = sidecar.connect();
    silent.shutdown(Shutdown::Write).unwrap();
    assert_eq!(silent.read(&mut [0]).unwrap(), 0);
}

#[test]
fn who_is_still_sending_is_heard_out_for_a_while_so_that_no_reset_overtakes_the_answer() {
    let sidecar = Sidecar::start(&[]);
    let mut stream = sidecar.connect();
    stream.write_all(&[b"GET /livez HTTP/1.1\r\nX: ".as_slice(), &[b'x'; 9000]].concat()).unwrap();
    assert_eq!(Answer::read(&mut stream).unwrap().code, "431");
    for _ in 0..20 {
        stream.write_all(&[b'x'; 1000]).unwrap();
        pause(Duration::from_millis(5));
    }
    // The rest of what it sends is nobody's business.
    until("it is cut", || stream.write_all(&[b'x'; 10_000]).err());
}

#[test]
fn a_unix_socket_is_for_owner_and_group_and_goes_with_the_process() {
    let mut sidecar = Sidecar::start_at("unix:%/admin.sock", &[]);
    let path = sidecar.folder.path().join("admin.sock");
    assert_eq!(sidecar.admin, format!("unix:{}", path.display()));
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o660);
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(b"GET /livez HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!(Answer::read(&mut stream).unwrap().body, "alive\n");
    sidecar.terminate();
    assert_eq!(sidecar.ended(), Some(0));
    until("the socket is gone", || (!path.exists()).then_some(()));
}

#[test]
fn promtool_finds_no_fault_with_the_metrics() {
    let mut sidecar = Sidecar::start(&[]);
    sidecar.rotate();
    sidecar.rotate();
    let mut promtool = match Command::new("promtool").args(["check", "metrics"]).stdin(Stdio::piped()).spawn()
    {
        Ok(promtool) => promtool,
        Err(error) => {
            // Past what is kept from those who see no output of tests that pass.
            let _ = writeln!(std::io::stderr(), "not applicable  promtool check metrics: {error}");
            return;
        }
    };
    promtool.stdin.take().unwrap().write_all(sidecar.ask("/metrics").body.as_bytes()).unwrap();
    assert!(promtool.wait().unwrap().success());
}
