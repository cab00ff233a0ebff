//! A chain with an intermediate whose time is over, or ends while it is served, and a leaf whose time has not come: it is
//! what the issuer gave, so it is served, and told.

use std::time::{Duration, SystemTime};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tlsidecar::demo::authority::Leaf;

use crate::log::Line;
use crate::material::{PlainPair, write_in_place};
use crate::patience::{SOON, until, wall_clock};
use crate::sidecar::Serve;
use crate::upstream::{Script, Upstream};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A leaf below an intermediate below a root, with the last moments of the two in the file.
fn chain(serial: u64, leaf_end: SystemTime, intermediate_end: SystemTime) -> Leaf {
    let params = |name: &str, end: SystemTime| {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_after = end.into();
        params
    };
    let authority = |name: &str, end| {
        let mut params = params(name, end);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
    };
    let key = || KeyPair::generate().unwrap();
    let root = Issuer::new(authority("root", leaf_end), key());
    let (intermediate, intermediate_key) = (authority("intermediate", intermediate_end), key());
    let intermediate_pem = intermediate.signed_by(&intermediate_key, &root).unwrap().pem();
    let (mut leaf, leaf_key) = (params("leaf", leaf_end), key());
    leaf.serial_number = Some(serial.into());
    let leaf = leaf.signed_by(&leaf_key, &Issuer::new(intermediate, intermediate_key)).unwrap();
    Leaf {
        serial,
        chain_pem: leaf.pem() + &intermediate_pem,
        key_pem: leaf_key.serialize_pem(),
        der: leaf.der().clone(),
    }
}

fn is_told(line: &Line) -> bool {
    line.text("message").starts_with("an intermediate certificate has expired")
}

#[test]
fn an_intermediate_whose_time_is_over_is_served_and_told_once() {
    let now = wall_clock();
    let pair = PlainPair::of(&chain(1, now + DAY, now - DAY));
    let upstream = Upstream::tcp(Script::Echo);
    let sidecar = Serve::new(&upstream.address(), &pair.certificate(), &pair.key()).ready();
    let told = sidecar.log.wait(0, SOON, is_told).unwrap();
    assert!(told.text("level").eq_ignore_ascii_case("error"), "{told}");
    let loaded = sidecar.line("certificate loaded");
    assert!(told.text("chain_not_after") < loaded.text("not_after"), "{told}");

    // Sound, and one that will only end before its leaf.
    for (generation, leaf_days, intermediate_days) in [(2, 1, 2), (3, 2, 1)] {
        let chain = chain(generation, now + DAY * leaf_days, now + DAY * intermediate_days);
        write_in_place(pair.folder.path(), &chain);
        assert!(until(SOON, || sidecar.generation() == generation));
    }
    let mark = sidecar.log.mark();
    assert_eq!(sidecar.log.all(0, is_told).len(), 1);

    write_in_place(pair.folder.path(), &chain(4, now + DAY, now - DAY));
    sidecar.line_after(mark, "certificate changed");
    assert!(sidecar.log.wait(mark, SOON, is_told).is_some());
}

#[test]
fn an_intermediate_whose_time_runs_out_while_it_is_served_is_told() {
    let now = wall_clock();
    let pair = PlainPair::of(&chain(1, now + DAY, now + Duration::from_secs(3)));
    let upstream = Upstream::tcp(Script::Echo);
    let sidecar = Serve::new(&upstream.address(), &pair.certificate(), &pair.key()).ready();
    let warned = |line: &Line| line.text("message").starts_with("an intermediate certificate ends soon");
    assert!(sidecar.log.wait(0, SOON, warned).is_some());
    assert!(sidecar.log.wait(0, SOON, is_told).is_some());
    assert_eq!(sidecar.log.all(0, |line| warned(line) || is_told(line)).len(), 2);
}

#[test]
fn a_leaf_whose_time_has_not_come_is_served_if_there_is_no_other_and_told_once() {
    let now = wall_clock();
    let early = |serial, begins: Duration| {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        (params.not_before, params.not_after) = ((now + begins).into(), (now + DAY * 9).into());
        params.serial_number = Some(u64::into(serial));
        let key = KeyPair::generate().unwrap();
        let leaf = params.self_signed(&key).unwrap();
        Leaf { serial, chain_pem: leaf.pem(), key_pem: key.serialize_pem(), der: leaf.der().clone() }
    };
    let pair = PlainPair::of(&early(1, DAY * 2));
    let upstream = Upstream::tcp(Script::Echo);
    let sidecar = Serve::new(&upstream.address(), &pair.certificate(), &pair.key()).ready();
    let is_early = |line: &Line| line.text("message").contains("is not yet valid");
    let told = sidecar.log.wait(0, SOON, is_early).unwrap();
    assert!(told.text("level").eq_ignore_ascii_case("warn"), "{told}");
    let begins = told.text("not_before");

    let mark = sidecar.log.mark();
    write_in_place(pair.folder.path(), &early(2, DAY));
    assert!(until(SOON, || sidecar.generation() == 2));
    let told = sidecar.log.wait(mark, SOON, is_early).unwrap();
    assert!(told.text("not_before") < begins, "{told}");
    write_in_place(pair.folder.path(), &chain(3, now + DAY, now + DAY));
    assert!(until(SOON, || sidecar.generation() == 3));
    assert_eq!(sidecar.log.all(0, is_early).len(), 2);
}
