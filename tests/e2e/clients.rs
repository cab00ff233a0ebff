//! Clients as users have them: rustls in both versions, sessions that are resumed, `openssl s_client`, `curl`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustls::SupportedProtocolVersion;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::version::{TLS12, TLS13};

use crate::client::{Trust, canonical_serial};
use crate::material::{Generations, PlainPair, serial, write_in_place};
use crate::sidecar::{Serve, Sidecar};
use crate::upstream::{Script, Upstream};

/// A sidecar on plain files, and the root in a file for programs that want one.
struct Scene {
    sidecar: Sidecar,
    generations: Generations,
    pair: PlainPair,
    root: PathBuf,
    _upstream: Upstream,
}

impl Scene {
    fn before(script: Script) -> Self {
        let generations = Generations::new();
        let pair = PlainPair::of(&generations.leaf(1));
        let root = pair.folder.path().join("root.crt");
        fs::write(&root, generations.root_pem()).unwrap();
        let upstream = Upstream::tcp(script);
        let sidecar = Serve::new(&upstream.address(), &pair.certificate(), &pair.key()).ready();
        Self { sidecar, generations, pair, root, _upstream: upstream }
    }

    fn rotate(&self, number: u64) {
        let mark = self.sidecar.log.mark();
        write_in_place(self.pair.folder.path(), &self.generations.leaf(number));
        self.sidecar.line_after(mark, "certificate changed");
    }
}

/// A program of the system, ended from outside if it does not end by itself.
fn tool(name: &str, arguments: &[&str]) -> Output {
    let mut limited = Command::new("timeout");
    limited.arg("30").arg(name).args(arguments).stdin(Stdio::null());
    limited.output().unwrap_or_else(|error| panic!("cannot run timeout and {name}: {error}"))
}

fn speaks(version: &'static SupportedProtocolVersion) {
    let scene = Scene::before(Script::Echo);
    let mut client =
        Trust::only(&scene.generations.root_pem(), version).connect(scene.sidecar.address()).unwrap();
    assert_eq!(client.version(), version.version);
    assert_eq!((client.serial(), client.chain_length()), (serial(1), 2));
    client.echo(b"by rustls").unwrap();
}

#[test]
fn rustls_speaks_tls_1_2() {
    speaks(&TLS12);
}

#[test]
fn rustls_speaks_tls_1_3() {
    speaks(&TLS13);
}

fn resumes_across_a_rotation(version: &'static SupportedProtocolVersion) {
    let scene = Scene::before(Script::Echo);
    let trust = Trust::resuming(&scene.generations.root_pem(), version);
    let mut first = trust.connect(scene.sidecar.address()).unwrap();
    assert!(!first.is_resumed());
    // Tickets of TLS 1.3 come after the handshake, with the first bytes at the latest.
    first.echo(b"ticket, please").unwrap();
    scene.rotate(2);
    let mut second = trust.connect(scene.sidecar.address()).unwrap();
    assert!(second.is_resumed(), "the session was forgotten with the old certificate");
    second.echo(b"welcome back").unwrap();
    assert_eq!(scene.generations.trust().served_serial(scene.sidecar.address()).unwrap(), serial(2));
}

#[test]
fn a_session_of_tls_1_2_is_resumed_after_a_rotation() {
    resumes_across_a_rotation(&TLS12);
}

#[test]
fn a_session_of_tls_1_3_is_resumed_after_a_rotation() {
    resumes_across_a_rotation(&TLS13);
}

/// The serial that `openssl s_client` is shown, after it has verified the chain.
fn serial_by_openssl(scene: &Scene, version: &str) -> String {
    let address = scene.sidecar.address().to_string();
    let root = scene.root.to_str().unwrap();
    let output = tool(
        "openssl",
        &["s_client", version, "-connect", &address, "-CAfile", root, "-verify_return_error"],
    );
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("Verify return code: 0 (ok)"), "{text}");
    let protocol = if version == "-tls1_3" { "TLSv1.3" } else { "TLSv1.2" };
    assert!(text.contains(protocol), "{text}");
    let leaf = CertificateDer::from_pem_slice(text.as_bytes()).unwrap();
    let (_, parsed) = x509_parser::parse_x509_certificate(&leaf).unwrap();
    canonical_serial(&parsed.raw_serial_as_string())
}

#[test]
fn openssl_sees_each_rotation_in_both_versions() {
    let scene = Scene::before(Script::Echo);
    for number in 1..=3 {
        if number > 1 {
            scene.rotate(number);
        }
        assert_eq!(serial_by_openssl(&scene, "-tls1_2"), serial(number));
        assert_eq!(serial_by_openssl(&scene, "-tls1_3"), serial(number));
    }
}

fn curl(url: &str, root: &Path, version: &[&str]) -> Output {
    let root = root.to_str().unwrap();
    tool("curl", &[&["--silent", "--show-error", "--cacert", root], version, &[url]].concat())
}

#[test]
fn curl_gets_its_page_in_both_versions() {
    let scene = Scene::before(Script::Http);
    let url = format!("https://127.0.0.1:{}/", scene.sidecar.address().port());
    for version in [["--tls-max", "1.2"].as_slice(), ["--tlsv1.3"].as_slice()] {
        let output = curl(&url, &scene.root, version);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "hello\n", "{version:?}: {output:?}");
        assert!(output.status.success(), "{version:?}: {output:?}");
    }
}

#[test]
fn curl_with_plain_http_gets_nothing() {
    let scene = Scene::before(Script::Http);
    let url = format!("http://127.0.0.1:{}/", scene.sidecar.address().port());
    let output = curl(&url, &scene.root, &["--http0.9"]);
    assert!(!String::from_utf8_lossy(&output.stdout).contains("hello"), "{output:?}");
    let page = curl(&url.replace("http:", "https:"), &scene.root, &[]);
    assert!(page.status.success(), "{page:?}");
}
