//! What the endpoint says of certificates, rotations and the connections that were greeted with them.

use std::io::Write;

use crate::process::{Sidecar, serial, until};

#[test]
fn a_rotation_shows_in_status_and_metrics() {
    let mut sidecar = Sidecar::start(&[]);
    let first = serial(&sidecar.rotate());
    let second = serial(&sidecar.rotate());
    let set = &sidecar.status()["sets"][0];
    let in_force = &set["in_force"];
    assert_eq!(in_force["generation"], 2, "{set:#}");
    assert_eq!(
        (&in_force["trigger"], &in_force["publication"]),
        (&"event".into(), &"atomic".into()),
        "{set:#}"
    );
    assert_eq!(in_force["certificate"]["names"][0], "localhost");
    assert!(in_force["first_handshake"].is_null());
    assert_eq!(set["on_disk"]["equals_served"], true);
    assert_eq!((&set["watcher"]["mode"], &set["last_failure"]), (&"events".into(), &().into()));
    assert!(set["watcher"]["directories"].as_array().unwrap().len() > 2, "{set:#}");
    let text = sidecar.ask("/metrics").body;
    assert!(text.contains(&second) && !text.contains(&format!("\"{first}\"")), "{text}");
    assert!(sidecar.metric("tlsidecar_rotations_total{trigger=\"event\"}") >= Some(1.0));
    for (series, value) in [
        ("tlsidecar_rotations_found_by_timer_total", 0.0),
        ("tlsidecar_notice_to_publish_seconds_count", 2.0),
        ("tlsidecar_watch_mode{mode=\"events\"}", 1.0),
        ("tlsidecar_watch_mode{mode=\"polling\"}", 0.0),
        ("tlsidecar_live_generations", 1.0),
    ] {
        assert_eq!(sidecar.metric(series), Some(value), "{series}");
    }
}

#[test]
fn files_that_cannot_be_served_are_told_and_in_time_make_it_not_ready() {
    let mut sidecar = Sidecar::start(&["--ready-stale-limit=1s"]);
    let good = sidecar.rotate();
    let cert = sidecar.volume.path("tls.crt").display().to_string();
    let differs = format!("tlsidecar_disk_differs{{cert=\"{cert}\"}}");
    assert_eq!(sidecar.metric(&differs), Some(0.0));
    sidecar.volume.write(&[("tls.crt", good.chain_pem.as_bytes()), ("tls.key", b"not a key")]).unwrap();
    sidecar.metric_becomes(&differs, 1.0);
    let ready =
        until("it is not ready", || Some(sidecar.ask("/readyz")).filter(|answer| answer.code == "503"));
    assert!(ready.body.contains("tls.key: "), "{}", ready.body);
    let failure = &sidecar.status()["sets"][0]["last_failure"];
    assert_eq!((&failure["stands"], &failure["reason"]), (&true.into(), &"no_key".into()), "{failure:#}");
    sidecar.metric_becomes("tlsidecar_reloads_total{result=\"refused\",reason=\"no_key\"}", 1.0);
    sidecar.rotate();
    assert_eq!(sidecar.ask("/readyz").code, "200");
    assert_eq!(sidecar.status()["sets"][0]["last_failure"]["stands"], false);
    assert_eq!(sidecar.metric(&differs), Some(0.0));
}

#[test]
fn connections_are_counted_with_the_certificate_they_were_greeted_with() {
    let mut sidecar = Sidecar::start(&[]);
    sidecar.rotate();
    let address = sidecar.listening();
    let client = sidecar.client();
    let mut old = client.connect(address).unwrap();
    old.request("/").unwrap();
    sidecar.rotate();
    let mut new = client.connect(address).unwrap();
    new.request("/").unwrap();
    for (age, count) in [("current", 1.0), ("previous", 1.0), ("older", 0.0)] {
        sidecar.metric_becomes(&format!("tlsidecar_connections_by_generation{{age=\"{age}\"}}"), count);
    }
    assert_eq!(sidecar.metric("tlsidecar_live_generations"), Some(2.0));
    assert!(sidecar.status()["sets"][0]["in_force"]["first_handshake"].is_string());
    assert_eq!(sidecar.metric("tlsidecar_publish_to_handshake_seconds_count"), Some(2.0));
    assert_eq!(sidecar.metric("tlsidecar_handshakes_open"), Some(0.0));
    assert_eq!(sidecar.metric("tlsidecar_handshakes_total{version=\"TLSv1_3\",session=\"full\"}"), Some(2.0));
    for (peer, direction) in [("client", "received"), ("client", "sent"), ("upstream", "received")] {
        let series = format!("tlsidecar_socket_bytes_total{{peer=\"{peer}\",direction=\"{direction}\"}}");
        assert!(sidecar.metric(&series) > Some(50.0), "{series}");
    }
    drop((old, new));
    sidecar.metric_becomes("tlsidecar_connections_open", 0.0);
    sidecar.metric_becomes("tlsidecar_live_generations", 1.0);
    assert_eq!(sidecar.metric("tlsidecar_connections_accepted_total"), Some(2.0));
}

#[test]
fn who_does_not_finish_a_handshake_is_counted_by_kind() {
    let mut sidecar = Sidecar::start(&[]);
    sidecar.rotate();
    let address = sidecar.listening();
    drop(std::net::TcpStream::connect(address).unwrap());
    sidecar.metric_becomes("tlsidecar_tcp_probes_total", 1.0);
    let mut plain = std::net::TcpStream::connect(address).unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    sidecar.metric_becomes("tlsidecar_handshake_failures_total{kind=\"plain_http\"}", 1.0);
    assert_eq!(sidecar.metric("tlsidecar_connections_closed_total{reason=\"client_probe\"}"), Some(1.0));
    sidecar.metric_becomes("tlsidecar_handshakes_open", 0.0);
}

#[test]
fn a_limit_that_keeps_clients_waiting_is_told_while_it_does() {
    let mut sidecar = Sidecar::start(&["--max-connections=1"]);
    sidecar.rotate();
    let address = sidecar.listening();
    let mut first = sidecar.client().connect(address).unwrap();
    first.request("/").unwrap();
    let waiting = std::net::TcpStream::connect(address).unwrap();
    sidecar.metric_becomes("tlsidecar_accepting_paused_workers{limit=\"connections\"}", 1.0);
    assert_eq!(sidecar.metric("tlsidecar_limits_reached_total{limit=\"connections\"}"), Some(1.0));
    assert_eq!(sidecar.metric("tlsidecar_connections_accepted_total"), Some(1.0));
    drop((first, waiting));
    sidecar.metric_becomes("tlsidecar_accepting_paused_workers{limit=\"connections\"}", 0.0);
}

#[test]
fn who_drains_lives_and_says_that_it_is_not_ready() {
    let mut sidecar = Sidecar::start(&[]);
    sidecar.rotate();
    let mut open = sidecar.client().connect(sidecar.listening()).unwrap();
    open.request("/").unwrap();
    assert_eq!(sidecar.ask("/readyz").code, "200");
    sidecar.terminate();
    let ready =
        until("it is not ready", || Some(sidecar.ask("/readyz")).filter(|answer| answer.code == "503"));
    assert_eq!(ready.body, "draining\n");
    assert_eq!(sidecar.ask("/livez").code, "200");
    assert_eq!(sidecar.metric("tlsidecar_draining"), Some(1.0));
    drop(open);
    assert_eq!(sidecar.ended(), Some(0));
}
