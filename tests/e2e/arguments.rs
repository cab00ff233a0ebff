//! What the command line and the environment may say, and what is said about what they may not.

use crate::material::{Generations, PlainPair};
use crate::sidecar::{Finished, Serve, run};
use crate::upstream::{Script, Upstream};

const SOUND: [&str; 9] = [
    "serve",
    "--listen",
    "127.0.0.1:0",
    "--upstream",
    "127.0.0.1:9",
    "--cert",
    "/nowhere/tls.crt",
    "--key",
    "/nowhere/tls.key",
];

fn is_refused(finished: &Finished, wanted: &[&str]) {
    assert_eq!(finished.code, Some(2), "{finished:?}");
    for wanted in wanted {
        assert!(finished.stderr.contains(wanted), "{wanted:?} is not named:\n{}", finished.stderr);
    }
}

#[test]
fn every_fault_is_named_at_once() {
    let flags =
        ["--reload-interval", "soon", "--drain-timeout", "never", "--log-level", "loud", "--workers", "none"];
    let finished = run(
        &[],
        &[
            &[
                "serve",
                "--listen",
                "here",
                "--upstream",
                "there",
                "--cert",
                "/a/tls.crt",
                "--key",
                "/a/tls.key",
            ],
            flags.as_slice(),
        ]
        .concat(),
    );
    is_refused(
        &finished,
        &["--listen", "here", "--upstream", "there", "--reload-interval", "soon", "--drain-timeout", "never"],
    );
    is_refused(&finished, &["--log-level", "loud", "--workers", "none"]);
}

#[test]
fn what_is_required_is_named_when_it_is_missing() {
    is_refused(&run(&[], &["serve"]), &["--upstream", "--cert", "--key"]);
}

#[test]
fn single_faults_are_refused() {
    let faults: [&[&str]; 7] = [
        &["--no-such-flag"],
        &["--tls-min-version", "1.1"],
        &["--tls-cipher-suites", "TLS_NULL"],
        &["--tls-groups", "no-such-group"],
        &["--log-format", "xml"],
        &["--workers", "0"],
        &["surplus"],
    ];
    for fault in faults {
        let finished = run(&[], &[SOUND.as_slice(), fault].concat());
        is_refused(&finished, &[fault.last().unwrap()]);
    }
}

#[test]
fn a_fault_of_the_environment_is_named_by_its_variable() {
    let finished = run(&[("TLSIDECAR_RELOAD_INTERVAL", "soon")], &SOUND);
    is_refused(&finished, &["TLSIDECAR_RELOAD_INTERVAL", "soon"]);
}

#[test]
fn help_and_version_succeed_on_stdout() {
    let help = run(&[], &["serve", "--help"]);
    assert_eq!(help.code, Some(0), "{help:?}");
    for wanted in ["--listen", "--upstream", "--cert", "--key", "60s", "30s", "TLSIDECAR_LISTEN"] {
        assert!(help.stdout.contains(wanted), "{wanted:?} is not in the help:\n{}", help.stdout);
    }
    let version = run(&[], &["--version"]);
    assert_eq!(version.code, Some(0), "{version:?}");
    assert!(version.stdout.contains(env!("CARGO_PKG_VERSION")), "{version:?}");
}

#[test]
fn a_port_that_is_taken_is_no_fault_of_the_flags_but_ends_it() {
    let upstream = Upstream::tcp(Script::Echo);
    let mut arguments = SOUND.map(String::from);
    arguments[2] = upstream.address();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let finished = run(&[], &arguments);
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(
        finished.stderr.contains("--listen") && finished.stderr.contains(&upstream.address()),
        "{finished:?}"
    );
}

#[test]
fn flags_by_the_names_of_other_products_mean_the_same() {
    let generations = Generations::new();
    let pair = PlainPair::of(&generations.leaf(1));
    let upstream = Upstream::tcp(Script::Echo);
    let sidecar = Serve::with_arguments(&[
        "--secure-listen-address=127.0.0.1:0",
        &format!("--upstream={}", upstream.address()),
        &format!("--tls-cert-file={}", pair.certificate().display()),
        &format!("--tls-private-key-file={}", pair.key().display()),
        "--tls-min-version=VersionTLS13",
        "--tls-reload-interval=0",
        "--log-format=json",
    ])
    .ready();
    let client = generations.trust().connect(sidecar.address()).unwrap();
    assert_eq!(client.version(), rustls::ProtocolVersion::TLSv1_3);
    let old = crate::client::Trust::only(&generations.root_pem(), &rustls::version::TLS12);
    assert!(old.connect(sidecar.address()).is_err(), "TLS 1.2 below a minimum of 1.3");
}

#[test]
fn the_environment_alone_configures_it() {
    let generations = Generations::new();
    let pair = PlainPair::of(&generations.leaf(1));
    let upstream = Upstream::tcp(Script::Echo);
    let sidecar = Serve::with_arguments(&[])
        .in_environment("TLSIDECAR_LISTEN", "127.0.0.1:0")
        .in_environment("TLSIDECAR_UPSTREAM", &upstream.address())
        .in_environment("TLSIDECAR_CERT", &pair.certificate().display().to_string())
        .in_environment("TLSIDECAR_KEY", &pair.key().display().to_string())
        .in_environment("TLSIDECAR_LOG_FORMAT", "json")
        .ready();
    generations.trust().connect(sidecar.address()).unwrap().echo(b"configured").unwrap();
}
