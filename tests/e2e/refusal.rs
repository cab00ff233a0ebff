//! A pair that cannot be served leaves the old one in force, is told once, and needs no help to be got over.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use tlsidecar::demo::authority::Leaf;
use tlsidecar::demo::volume::{Order, Volume};

use crate::log::Line;
use crate::material::{Generations, PlainPair, folder, payload, serial};
use crate::patience::{QUIET, SOON, pause, until};
use crate::sidecar::{Serve, Sidecar};
use crate::upstream::{Script, Upstream};

/// Longer than the first few retries, so that a warning a retry would show.
const SOME_RETRIES: Duration = Duration::from_millis(1200);

type Files = Vec<(&'static str, Vec<u8>)>;

fn good(leaf: &Leaf) -> Files {
    payload(leaf).map(|(name, bytes)| (name, bytes.to_vec())).to_vec()
}

fn with_file(leaf: &Leaf, name: &'static str, bytes: &[u8]) -> Files {
    let mut files = good(leaf);
    files.retain(|(kept, _)| *kept != name);
    files.push((name, bytes.to_vec()));
    files
}

/// The first half, which ends inside a block.
fn half(text: &str) -> &[u8] {
    &text.as_bytes()[..text.len() / 4]
}

/// A block whose Base64 is right and whose content is not.
fn nonsense(label: &str) -> Vec<u8> {
    format!("-----BEGIN {label}-----\nbm9uc2Vuc2U=\n-----END {label}-----\n").into_bytes()
}

fn is_refusal(line: &Line) -> bool {
    line.text("message").starts_with("certificate refused")
}

fn write(volume: &mut Volume, files: &Files) {
    let files: Vec<(&str, &[u8])> = files.iter().map(|(name, bytes)| (*name, bytes.as_slice())).collect();
    volume.write(&files).unwrap();
}

/// Asserts the one warning about a refused pair: its level, its file, and that it says what is wrong.
fn check_warning(warnings: &[Line], file: &str) {
    assert_eq!(warnings.len(), 1, "one warning a content: {warnings:?}");
    let warning = &warnings[0];
    assert!(warning.text("level").eq_ignore_ascii_case("warn"), "{warning}");
    assert!(warning.text("file").ends_with(file), "not about {file}: {warning}");
    assert!(!warning.text("part").is_empty() && !warning.text("problem").is_empty(), "{warning}");
    assert!(!warning.to_string().contains("PRIVATE KEY"), "{warning}");
}

/// Swaps `bad` into a volume that served generation 1, then generation 3, and checks both steps.
fn is_refused_and_got_over(bad: impl FnOnce(&Generations) -> Files, file: &str) {
    let folder = folder();
    let generations = Generations::new();
    let bad = bad(&generations);
    let mut volume = Volume::create(folder.path().join("secret"), Order::LinksLast).unwrap();
    write(&mut volume, &good(&generations.leaf(1)));
    let upstream = Upstream::tcp(Script::Echo);
    let serve = Serve::new(&upstream.address(), &volume.path("tls.crt"), &volume.path("tls.key"));
    let mut sidecar = serve.by_events_only().ready();
    let trust = generations.trust();
    let mut old = trust.connect(sidecar.address()).unwrap();

    write(&mut volume, &bad);
    sidecar.log.wait(0, SOON, is_refusal).expect("the bad pair was not told");
    pause(SOME_RETRIES);
    assert_eq!(trust.served_serial(sidecar.address()).unwrap(), serial(1));
    assert!(sidecar.is_running());
    check_warning(&sidecar.log.all(0, is_refusal), file);

    write(&mut volume, &good(&generations.leaf(3)));
    sidecar.line("certificate changed");
    assert_eq!(trust.served_serial(sidecar.address()).unwrap(), serial(3));
    old.echo(b"nothing happened here").unwrap();
}

#[test]
fn a_certificate_of_nonsense_keeps_the_old_pair() {
    is_refused_and_got_over(|of| with_file(&of.leaf(2), "tls.crt", &nonsense("CERTIFICATE")), "tls.crt");
}

#[test]
fn a_certificate_file_without_any_block_keeps_the_old_pair() {
    is_refused_and_got_over(|of| with_file(&of.leaf(2), "tls.crt", b"no certificate here\n"), "tls.crt");
}

#[test]
fn a_truncated_certificate_keeps_the_old_pair() {
    is_refused_and_got_over(|of| with_file(&of.leaf(2), "tls.crt", half(&of.leaf(2).chain_pem)), "tls.crt");
}

#[test]
fn a_chain_truncated_in_its_second_certificate_keeps_the_old_pair() {
    is_refused_and_got_over(
        |of| {
            let chain = of.leaf(2).chain_pem;
            with_file(&of.leaf(2), "tls.crt", &chain.as_bytes()[..chain.len() - 60])
        },
        "tls.crt",
    );
}

#[test]
fn an_empty_certificate_keeps_the_old_pair() {
    is_refused_and_got_over(|of| with_file(&of.leaf(2), "tls.crt", b""), "tls.crt");
}

#[test]
fn a_key_of_nonsense_keeps_the_old_pair() {
    is_refused_and_got_over(|of| with_file(&of.leaf(2), "tls.key", &nonsense("PRIVATE KEY")), "tls.key");
}

#[test]
fn a_truncated_key_keeps_the_old_pair() {
    is_refused_and_got_over(|of| with_file(&of.leaf(2), "tls.key", half(&of.leaf(2).key_pem)), "tls.key");
}

#[test]
fn an_empty_key_keeps_the_old_pair() {
    is_refused_and_got_over(|of| with_file(&of.leaf(2), "tls.key", b""), "tls.key");
}

#[test]
fn a_key_of_another_certificate_keeps_the_old_pair() {
    is_refused_and_got_over(
        |of| with_file(&of.leaf(2), "tls.key", of.leaf(99).key_pem.as_bytes()),
        "tls.key",
    );
}

#[test]
fn a_missing_key_keeps_the_old_pair() {
    is_refused_and_got_over(
        |of| good(&of.leaf(2)).into_iter().filter(|(name, _)| *name == "tls.crt").collect(),
        "tls.key",
    );
}

#[test]
fn a_directory_in_the_place_of_the_key_keeps_the_old_pair() {
    is_refused_and_got_over(
        |of| {
            let mut files = with_file(&of.leaf(2), "tls.key/nested", b"x");
            files.retain(|(name, _)| *name != "tls.key");
            files
        },
        "tls.key",
    );
}

/// Plain files in place, and what is done to them.
fn plain(change: impl FnOnce(&PlainPair, &Generations, &Sidecar)) {
    let generations = Generations::new();
    let pair = PlainPair::of(&generations.leaf(1));
    let upstream = Upstream::tcp(Script::Echo);
    let serve = Serve::new(&upstream.address(), &pair.certificate(), &pair.key());
    let sidecar = serve.by_events_only().ready();
    change(&pair, &generations, &sidecar);
    assert_eq!(generations.trust().served_serial(sidecar.address()).unwrap(), serial(2));
}

#[test]
fn each_bad_content_is_told_once_until_a_good_one_was_there() {
    plain(|pair, of, sidecar| {
        let good = of.leaf(1).chain_pem;
        let told = || sidecar.log.all(0, is_refusal).len();
        // Two programs that overwrite each other must not fill the log.
        for bad in ["first nonsense", "second nonsense", "first nonsense", "second nonsense"] {
            fs::write(pair.certificate(), bad).unwrap();
            pause(QUIET);
        }
        assert_eq!(told(), 2);
        fs::write(pair.certificate(), good).unwrap();
        pause(SOME_RETRIES);
        assert_eq!((told(), sidecar.generation()), (2, 1), "the good content was in force all the time");
        fs::write(pair.certificate(), "first nonsense").unwrap();
        assert!(until(SOON, || told() == 3), "a relapse is not told");
        crate::material::write_in_place(pair.folder.path(), &of.leaf(2));
        sidecar.line("certificate changed");
    });
}

#[test]
fn a_pair_whose_key_comes_much_later_is_served_when_it_is_whole() {
    plain(|pair, of, sidecar| {
        let leaf = of.leaf(2);
        fs::write(pair.certificate(), &leaf.chain_pem).unwrap();
        sidecar.log.wait(0, SOON, is_refusal).expect("a certificate without its key was not told");
        pause(SOME_RETRIES);
        assert_eq!(of.trust().served_serial(sidecar.address()).unwrap(), serial(1));
        fs::write(pair.key(), &leaf.key_pem).unwrap();
        sidecar.line("certificate changed");
    });
}

#[test]
fn an_unreadable_key_keeps_the_old_pair_until_it_can_be_read() {
    if nix::unistd::geteuid().is_root() {
        eprintln!("not applicable: root may read every file");
        return;
    }
    plain(|pair, of, sidecar| {
        let leaf = of.leaf(2);
        let staged: PathBuf = pair.folder.path().join("staged");
        fs::write(&staged, &leaf.key_pem).unwrap();
        fs::set_permissions(&staged, fs::Permissions::from_mode(0o000)).unwrap();
        fs::rename(&staged, pair.key()).unwrap();
        fs::write(pair.certificate(), &leaf.chain_pem).unwrap();
        let told = sidecar.log.wait(0, SOON, is_refusal).expect("the unreadable key was not told");
        assert!(told.text("file").ends_with("tls.key"), "{told}");
        fs::set_permissions(pair.key(), fs::Permissions::from_mode(0o600)).unwrap();
        sidecar.line("certificate changed");
    });
}
