//! Chains that are complete, in order and in time, and that clients refuse all the same.

use std::process::Command;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::stage::Stage;

/// A leaf below two intermediates below a root; the root is not in the file.
struct Chain {
    leaf: CertificateParams,
    /// From the leaf upwards.
    intermediates: [CertificateParams; 2],
}

fn authority(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
}

impl Chain {
    fn new() -> Self {
        let mut leaf = CertificateParams::new(["localhost".to_owned()]).unwrap();
        leaf.distinguished_name.push(DnType::CommonName, "leaf");
        leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        Self { leaf, intermediates: [authority("lower"), authority("upper")] }
    }

    /// The certificates' file and the key's.
    fn issue(self) -> (String, String) {
        let [lower, upper] = self.intermediates;
        let key = || KeyPair::generate().unwrap();
        let root = Issuer::new(authority("root"), key());
        let (upper_key, lower_key, leaf_key) = (key(), key(), key());
        let upper_pem = upper.signed_by(&upper_key, &root).unwrap().pem();
        let upper = Issuer::new(upper, upper_key);
        let lower_pem = lower.signed_by(&lower_key, &upper).unwrap().pem();
        let lower = Issuer::new(lower, lower_key);
        let leaf_pem = self.leaf.signed_by(&leaf_key, &lower).unwrap().pem();
        ([leaf_pem, lower_pem, upper_pem].concat(), leaf_key.serialize_pem())
    }
}

#[test]
fn what_clients_refuse_in_a_chain_is_told() {
    type Change = fn(&mut Chain);
    let rows: [(Change, &[&str]); 8] = [
        (|_| (), &[]),
        (
            |chain| chain.leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth],
            &["error not_for_servers"],
        ),
        (
            |chain| chain.leaf.key_usages = vec![KeyUsagePurpose::KeyAgreement],
            &["error no_digital_signature"],
        ),
        (|chain| chain.leaf.is_ca = IsCa::Ca(BasicConstraints::Unconstrained), &["hint leaf_is_ca"]),
        (|chain| chain.intermediates[0].is_ca = IsCa::ExplicitNoCa, &["error not_a_ca"]),
        (|chain| chain.intermediates[1].is_ca = IsCa::NoCa, &["error not_a_ca"]),
        (
            |chain| chain.intermediates[1].is_ca = IsCa::Ca(BasicConstraints::Constrained(0)),
            &["error path_length_exceeded"],
        ),
        (|chain| chain.intermediates[0].key_usages = vec![KeyUsagePurpose::CrlSign], &["error not_a_ca"]),
    ];
    let stage = Stage::new();
    for (change, expected) in rows {
        let mut chain = Chain::new();
        change(&mut chain);
        let (certificates, key) = chain.issue();
        let code = i32::from(expected.iter().any(|finding| finding.starts_with("error")));
        stage.pair(&certificates, &key).assert(code, expected);
    }
}

#[test]
fn an_issuer_of_the_right_name_with_another_key_is_told() {
    let (one, key) = Chain::new().issue();
    let (other, _) = Chain::new().issue();
    let leaf = one.split_inclusive("-----END CERTIFICATE-----\n").next().unwrap();
    let above = other.split_inclusive("-----END CERTIFICATE-----\n").skip(1);
    let mixed: String = std::iter::once(leaf).chain(above).collect();
    Stage::new().pair(&mixed, &key).assert(1, &["error not_signed_by_next"]);
}

#[test]
fn old_signatures_and_short_keys_are_told() {
    let stage = Stage::new();
    let openssl = |words: &str| {
        let run = Command::new("openssl").args(words.split(' ')).current_dir(stage.path("")).output();
        run.is_ok_and(|output| output.status.success())
    };
    let root = "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -subj /CN=ca -days 9";
    if !openssl(root) {
        return println!("left out: openssl makes no certificate here");
    }
    stage.write("names", "subjectAltName=DNS:localhost");
    for (bits, hash, expected) in [
        (2048, "sha256", &[][..]),
        (2048, "sha1", &["error weak_signature"]),
        // rustls takes no such key; why, the certificate tells.
        (1024, "sha256", &["error unreadable_key", "error short_key"]),
    ] {
        let lines = [
            format!("req -new -newkey rsa:{bits} -nodes -keyout tls.key -out leaf.csr -subj /CN=leaf"),
            format!(
                "x509 -req -in leaf.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 9 -{hash} -extfile names \
                 -out leaf.pem"
            ),
        ];
        if !lines.iter().all(|line| openssl(line)) {
            println!("left out: openssl makes no RSA key of {bits} bits or does not sign with {hash} here");
            continue;
        }
        let read = |name: &str| std::fs::read_to_string(stage.path(name)).unwrap();
        let (chain, key) = (format!("{}{}", read("leaf.pem"), read("ca.pem")), read("tls.key"));
        stage.pair(&chain, &key).assert(i32::from(!expected.is_empty()), expected);
    }
}
