//! Right values, and what the configuration then says.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tlsidecar::config::{
    Admin, CipherSuites, Command, Config, Demo, Doctor, Endpoint, ExpiredCertificate, Limits, Listen, Log,
    LogFormat, LogLevel, MissingCertificate, Output, Reload, Timeouts, Tls, TlsVersion, Upstream, Workers,
};

use crate::{REQUIRED, parse, serve};

const SECOND: Duration = Duration::from_secs(1);

fn count(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).unwrap()
}

#[test]
fn what_is_not_written_has_the_documented_defaults() {
    let expected = Config {
        listen: Listen("127.0.0.1:8443".parse().unwrap()),
        upstream: Upstream::Tcp { host: "127.0.0.1".into(), port: 8080 },
        reload: Reload {
            cert: "/tls/tls.crt".into(),
            key: "/tls/tls.key".into(),
            interval: Some(60 * SECOND),
            missing: MissingCertificate::Wait,
            expired: ExpiredCertificate::Refuse,
        },
        tls: Tls {
            min_version: TlsVersion::V1_2,
            cipher_suites: CipherSuites::Auto,
            groups: vec![0x11ec, 0x001d, 0x0017, 0x0018],
            alpn: vec![],
        },
        timeouts: Timeouts {
            handshake: 10 * SECOND,
            connect: 5 * SECOND,
            idle: None,
            half_close: 60 * SECOND,
            connection_age: None,
            drain: 30 * SECOND,
            drain_delay: Duration::ZERO,
        },
        limits: Limits {
            connections: None,
            handshakes: count(4096),
            connections_per_client: None,
            accept_rate: None,
        },
        workers: Workers::Fixed(count(1)),
        admin: Admin { endpoint: None, ready_stale_limit: Some(300 * SECOND) },
        log: Log { format: LogFormat::Text, level: LogLevel::Info },
    };
    assert_eq!(serve(&[]), Ok(expected));
}

#[test]
fn every_value_reaches_its_field() {
    let config = serve(&[
        "--reload-interval=0",
        "--require-certificate",
        "--allow-expired=true",
        "--tls-min-version=VersionTLS13",
        "--tls-cipher-suites=TLS_AES_256_GCM_SHA384, ecdhe-rsa-chacha20-poly1305",
        "--tls-groups=secp384r1,x25519",
        "--alpn=h2, http/1.1",
        "--handshake-timeout=1ms",
        "--connect-timeout=2s",
        "--idle-timeout=1h",
        "--half-close-timeout=1m 30s",
        "--max-connection-age=2days",
        "--drain-timeout=0",
        "--drain-delay=3s",
        "--max-connections=7",
        "--max-handshakes=8",
        "--max-connections-per-client=9",
        "--accept-rate=10",
        "--workers=AUTO",
        "--admin=unix:run/admin.sock",
        "--ready-stale-limit=0",
        "--log-format=JSON",
        "--log-level=trace",
    ])
    .unwrap();
    assert_eq!(config.admin.endpoint, Some(Endpoint::Unix("/srv/here/run/admin.sock".into())));
    assert_eq!(config.admin.ready_stale_limit, None);
    assert_eq!(config.reload.interval, None);
    assert_eq!(config.reload.missing, MissingCertificate::Exit);
    assert_eq!(config.reload.expired, ExpiredCertificate::Serve);
    let tls = Tls {
        min_version: TlsVersion::V1_3,
        cipher_suites: CipherSuites::Listed(vec![0x1302, 0xcca8]),
        groups: vec![0x0018, 0x001d],
        alpn: vec![b"h2".to_vec(), b"http/1.1".to_vec()],
    };
    assert_eq!(config.tls, tls);
    let timeouts = Timeouts {
        handshake: Duration::from_millis(1),
        connect: 2 * SECOND,
        idle: Some(3600 * SECOND),
        half_close: 90 * SECOND,
        connection_age: Some(172_800 * SECOND),
        drain: Duration::ZERO,
        drain_delay: 3 * SECOND,
    };
    assert_eq!(config.timeouts, timeouts);
    let limits = Limits {
        connections: Some(count(7)),
        handshakes: count(8),
        connections_per_client: Some(count(9)),
        accept_rate: Some(count(10)),
    };
    assert_eq!(config.limits, limits);
    assert_eq!(config.workers, Workers::Auto);
    assert_eq!(config.log, Log { format: LogFormat::Json, level: LogLevel::Trace });
}

#[test]
fn aliases_and_values_apart_mean_the_same() {
    let words = [
        "serve",
        "--secure-listen-address",
        "127.0.0.1:8443",
        "--upstream",
        "127.0.0.1:8080",
        "--tls-cert-file",
        "/tls/tls.crt",
        "--tls-private-key-file",
        "/tls/tls.key",
        "--tls-reload-interval",
        "60s",
    ];
    assert_eq!(parse(words), Ok(Command::Serve(Box::new(serve(&[]).unwrap()))));
}

#[test]
fn switches_stay_off_when_told_so() {
    let config = serve(&["--require-certificate=false", "--allow-expired=no"]).unwrap();
    assert_eq!(config, serve(&[]).unwrap());
}

#[test]
fn listen_addresses() {
    for (text, address) in [
        ("0.0.0.0:443", "0.0.0.0:443"),
        ("[::1]:8443", "[::1]:8443"),
        (":8443", "[::]:8443"),
        ("127.0.0.1:0", "127.0.0.1:0"),
        (" 127.0.0.1:1 ", "127.0.0.1:1"),
    ] {
        let config = serve(&[&format!("--listen={text}")]).expect(text);
        assert_eq!(config.listen, Listen(address.parse().unwrap()));
        assert_eq!(config.listen.to_string(), address);
    }
}

#[test]
fn upstream_addresses() {
    let tcp = |host: &str, port| Upstream::Tcp { host: host.into(), port };
    for (text, upstream, shown) in [
        ("app.default.svc:80", tcp("app.default.svc", 80), "app.default.svc:80"),
        ("my_app:65535", tcp("my_app", 65535), "my_app:65535"),
        ("[::1]:80", tcp("::1", 80), "[::1]:80"),
        ("[0:0::1]:080", tcp("::1", 80), "[::1]:80"),
        ("unix:/run/app", Upstream::Unix("/run/app".into()), "unix:/run/app"),
        ("unix:///run/app", Upstream::Unix("/run/app".into()), "unix:/run/app"),
        ("unix:app", Upstream::Unix("/srv/here/app".into()), "unix:/srv/here/app"),
        ("unix:@app\x01", Upstream::UnixAbstract(b"app\x01".to_vec()), "unix:@app\\x01"),
    ] {
        let config = serve(&[&format!("--upstream={text}")]).expect(text);
        assert_eq!(config.upstream, upstream);
        assert_eq!(config.upstream.to_string(), shown);
    }
}

#[test]
fn addresses_of_the_admin_endpoint() {
    for (text, endpoint, shown) in [
        ("127.0.0.1:0", Endpoint::Tcp(Listen("127.0.0.1:0".parse().unwrap())), "127.0.0.1:0"),
        (":9090", Endpoint::Tcp(Listen("[::]:9090".parse().unwrap())), "[::]:9090"),
        ("unix:/run/admin", Endpoint::Unix("/run/admin".into()), "unix:/run/admin"),
        ("unix:admin", Endpoint::Unix("/srv/here/admin".into()), "unix:/srv/here/admin"),
    ] {
        let config = serve(&[&format!("--admin={text}")]).expect(text);
        assert_eq!(config.admin.endpoint.as_ref().map(ToString::to_string).as_deref(), Some(shown));
        assert_eq!(config.admin.endpoint, Some(endpoint));
    }
}

#[test]
fn paths_become_absolute_and_keep_what_only_the_file_system_can_resolve() {
    for (text, path) in [
        ("tls.pem", "/srv/here/tls.pem"),
        ("../link/../tls.pem", "/srv/here/../link/../tls.pem"),
        ("/tls/..data/tls.pem", "/tls/..data/tls.pem"),
        (" tls.pem", "/srv/here/ tls.pem"),
        ("...", "/srv/here/..."),
    ] {
        let config = serve(&[&format!("--cert={text}"), &format!("--key={text}")]).expect(text);
        // Paths compare by component; what matters here is each byte.
        assert_eq!(config.reload.cert.as_os_str(), Path::new(path).as_os_str());
        assert_eq!(config.reload.key.as_os_str(), Path::new(path).as_os_str());
    }
}

#[test]
fn paths_may_hold_any_bytes() {
    let path = |prefix: &[u8]| OsString::from_vec([prefix, &[b'/', 0xff, b'\n']].concat());
    let words = [path(b"--cert="), path(b"--upstream=unix:")];
    let given = ["serve", REQUIRED[0], REQUIRED[3]].into_iter().map(OsString::from).chain(words);
    let Ok(Command::Serve(config)) = parse(given) else { panic!("refused") };
    assert_eq!(config.reload.cert, PathBuf::from(path(b"")));
    assert_eq!(config.upstream, Upstream::Unix(path(b"").into()));
}

#[test]
fn doctor_values() {
    let doctor = |words: &[&str]| {
        let words = [&["doctor", "--cert=a/tls.crt", "--key=/b/tls.key"], words].concat();
        match parse(words) {
            Ok(Command::Doctor(doctor)) => *doctor,
            other => panic!("{other:?}"),
        }
    };
    let plain = doctor(&[]);
    let expected = Doctor {
        cert: "/srv/here/a/tls.crt".into(),
        key: "/b/tls.key".into(),
        expired: ExpiredCertificate::Refuse,
        tls: serve(&[]).unwrap().tls,
        output: Output::Text,
    };
    assert_eq!(plain, expected);
    let chosen = doctor(&["--json", "--allow-expired", "--tls-min-version=1.3"]);
    assert_eq!((chosen.output, chosen.expired), (Output::Json, ExpiredCertificate::Serve));
    assert_eq!(chosen.tls.min_version, TlsVersion::V1_3);
}

#[test]
fn demo_values() {
    let demo = |rotations, millis, listen: &str| {
        Ok(Command::Demo(Demo {
            rotations: NonZeroUsize::new(rotations),
            interval: Duration::from_millis(millis),
            listen: Listen(listen.parse().unwrap()),
        }))
    };
    assert_eq!(parse(["demo"]), demo(0, 3000, "127.0.0.1:0"));
    let words = ["demo", "--rotations", "5", "--interval=250ms", "--listen=[::1]:9000"];
    assert_eq!(parse(words), demo(5, 250, "[::1]:9000"));
}

#[test]
fn a_list_of_older_suites_leaves_the_newest_version_on() {
    for (text, listed) in [
        ("ECDHE-RSA-AES128-GCM-SHA256", vec![0x1301, 0x1302, 0x1303, 0xc02f]),
        ("TLS_AES_256_GCM_SHA384,ECDHE-RSA-AES128-GCM-SHA256", vec![0x1302, 0xc02f]),
    ] {
        let config = serve(&[&format!("--tls-cipher-suites={text}")]).expect(text);
        assert_eq!(config.tls.cipher_suites, CipherSuites::Listed(listed), "{text}");
    }
}
