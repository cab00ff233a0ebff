//! What clients refuse in certificates that can be read, belong together and are in time.
//!
//! Clients differ: what all or most of the common ones refuse is an error, what only some refuse is a hint. A root at the
//! end of the file is left out, for clients take their own copy of it. Knows nothing of where the certificates lie. The
//! tests below show each rule; `tests/doctor.rs` shows them on chains.

use super::{Finding, Severity};
use crate::certs::{Authority, Hash, Issuance, Key, Purpose, Usage, Version};
use crate::doctor::examination::Certificate;

/// What rustls and the public authorities ask for.
const RSA_BITS_MIN: usize = 2048;

/// For the certificates of a file, the leaf first, each issued by the one after it.
pub(super) fn findings(certificates: &[Certificate], useless_versions: &[Version]) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    for certificate in certificates.iter().filter(|certificate| !is_root(certificate)) {
        found.extend(of_any(certificate, certificates));
        found.extend(if certificate.position == 1 {
            of_leaf(certificate)
        } else {
            of_authority(certificate, certificates)
        });
    }
    found.extend(useless_versions.iter().map(|version| useless(*version)));
    found
}

fn is_own_issuer(certificate: &Certificate) -> bool {
    certificate.subject == certificate.issuer
}

fn is_root(certificate: &Certificate) -> bool {
    certificate.position > 1 && is_own_issuer(certificate)
}

fn name(certificate: &Certificate) -> String {
    format!("certificate {} ({})", certificate.position, certificate.subject)
}

fn of_any(certificate: &Certificate, certificates: &[Certificate]) -> Vec<Finding> {
    let Usage { purpose, key, hash, .. } = certificate.usage;
    let name = name(certificate);
    let error = |code, problem: String, advice| Finding::new(Severity::Error, code, problem, advice);
    let mut found = Vec::new();
    if purpose == Purpose::Others {
        let problem =
            format!("{name} is for other purposes than TLS servers: its extended key usage lacks serverAuth");
        found.push(error("not_for_servers", problem, "get one whose extended key usage has serverAuth"));
    }
    if let Key::Rsa(bits) = key
        && bits < RSA_BITS_MIN
    {
        let problem =
            format!("{name} has an RSA key of {bits} bits, and clients want {RSA_BITS_MIN} at least");
        found.push(error("short_key", problem, "get one for a longer key, or for an ECDSA key"));
    }
    let signed_with = match hash {
        Hash::Md5 => Some("MD5 or an older hash function"),
        Hash::Sha1 => Some("SHA-1"),
        Hash::Other => None,
    };
    // Who trusts a certificate that is its own issuer does not look at its signature.
    if let Some(hash) = signed_with.filter(|_| !is_own_issuer(certificate)) {
        let problem = format!("{name} is signed with {hash}, which clients no longer believe");
        found.push(error("weak_signature", problem, "have it issued again with SHA-256"));
    }
    if certificate.usage.issuance == Issuance::Refuted
        && !has_short_key(certificates.get(certificate.position))
    {
        let problem = format!(
            "{name} is not signed by the key of the certificate after it, although that has its issuer's name"
        );
        let advice = "put the certificate of the key that signed it after it; issuers that renew their key keep their name";
        found.push(error("not_signed_by_next", problem, advice));
    }
    found
}

/// Nothing can be said of what such a key signed: its signatures are not even looked at.
fn has_short_key(issuer: Option<&Certificate>) -> bool {
    issuer.is_some_and(|issuer| matches!(issuer.usage.key, Key::Rsa(bits) if bits < RSA_BITS_MIN))
}

fn of_leaf(leaf: &Certificate) -> Vec<Finding> {
    let Usage { authority, signs_handshakes, purpose, key, .. } = leaf.usage;
    let name = name(leaf);
    let mut found = Vec::new();
    if !signs_handshakes {
        let severity = if key == Key::Signing { Severity::Error } else { Severity::Hint };
        found.push(Finding::new(
            severity,
            "no_digital_signature",
            format!("the key usage of {name} lacks digitalSignature, and each handshake needs one"),
            "have it issued with the key usage digitalSignature",
        ));
    }
    if purpose == Purpose::Any {
        found.push(Finding::new(
            Severity::Hint,
            "any_purpose",
            format!(
                "the extended key usage of {name} has anyExtendedKeyUsage alone, which some clients refuse"
            ),
            "have it issued with the extended key usage serverAuth",
        ));
    }
    if authority != Authority::No {
        found.push(Finding::new(
            Severity::Hint,
            "leaf_is_ca",
            format!("{name} is that of an authority (CA), which some clients refuse for a server"),
            "have a leaf issued by it, or one with the basic constraint CA:FALSE",
        ));
    }
    found
}

fn of_authority(certificate: &Certificate, certificates: &[Certificate]) -> Vec<Finding> {
    let Usage { authority, signs_certificates, .. } = certificate.usage;
    let name = name(certificate);
    let error = |code, problem, advice| Finding::new(Severity::Error, code, problem, advice);
    let right_one = "put the certificate of the authority that issued the one before it in this one's place";
    let Authority::Yes(most) = authority else {
        let problem =
            format!("{name} stands above another and is no authority: its basic constraints lack CA:TRUE");
        return vec![error("not_a_ca", problem, right_one)];
    };
    if !signs_certificates {
        let problem =
            format!("{name} stands above another and may not sign it: its key usage lacks keyCertSign");
        return vec![error("not_a_ca", problem, right_one)];
    }
    let between = certificates.iter().take(certificate.position - 1).skip(1);
    // An authority that renews itself lengthens no path.
    let count = between.filter(|one| !is_own_issuer(one)).count();
    let too_many = most.filter(|most| u32::try_from(count).unwrap_or(u32::MAX) > *most);
    let exceeded = too_many.map(|most| {
        let problem = format!(
            "{name} allows {most} authorities between itself and the leaf (pathlen), and there are {count}"
        );
        error("path_length_exceeded", problem, "have the leaf issued by an authority that is nearer to it")
    });
    exceeded.into_iter().collect()
}

fn useless(version: Version) -> Finding {
    let problem = format!(
        "{version} is allowed, but no client of it can connect: no cipher suite or no group on offer works with it and \
         this kind of key"
    );
    let advice = match version {
        Version::Tls12 => {
            "add to --tls-cipher-suites one whose name has ECDSA or RSA as the key has, and to --tls-groups one without \
             ML-KEM; or say that nothing older than TLS 1.3 is wanted, with --tls-min-version 1.3"
        }
        Version::Tls13 => "add a suite of TLS 1.3 to --tls-cipher-suites",
    };
    Finding::new(Severity::Hint, "useless_version", problem, advice)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::super::super::examination::Moment;
    use super::*;

    const LEAF: Usage = Usage {
        authority: Authority::No,
        signs_certificates: true,
        signs_handshakes: true,
        purpose: Purpose::Servers,
        key: Key::Signing,
        hash: Hash::Other,
        issuance: Issuance::Proven,
    };
    const CA: Usage = Usage { authority: Authority::Yes(None), ..LEAF };

    fn certificate(position: usize, subject: &str, issuer: &str, usage: Usage) -> Certificate {
        Certificate {
            position,
            subject: subject.into(),
            issuer: issuer.into(),
            serial: "01".into(),
            names: Vec::new(),
            not_before: Moment(SystemTime::UNIX_EPOCH),
            not_after: Moment(SystemTime::UNIX_EPOCH),
            sha256: String::new(),
            usage,
        }
    }

    /// A chain without its root, each issued by the next.
    fn chain(usages: &[Usage]) -> Vec<Certificate> {
        let named = usages.iter().zip(1..);
        named.map(|(usage, at)| certificate(at, &format!("{at}"), &format!("{}", at + 1), *usage)).collect()
    }

    fn found(certificates: &[Certificate]) -> Vec<(Severity, &'static str)> {
        findings(certificates, &[]).iter().map(|finding| (finding.severity, finding.code)).collect()
    }

    #[test]
    fn each_rule_is_told_for_the_certificate_that_breaks_it() {
        use Severity::{Error, Hint};
        let path_length = |most| Usage { authority: Authority::Yes(Some(most)), ..CA };
        let rsa = |usage| Usage { key: Key::Rsa(2048), ..usage };
        for (usages, expected) in [
            (vec![LEAF], None),
            (vec![LEAF, CA, CA], None),
            (vec![rsa(LEAF), rsa(CA)], None),
            (
                vec![Usage { signs_certificates: false, ..LEAF }, Usage { signs_handshakes: false, ..CA }],
                None,
            ),
            (vec![Usage { purpose: Purpose::Others, ..LEAF }, CA], Some((Error, "not_for_servers"))),
            (vec![LEAF, Usage { purpose: Purpose::Others, ..CA }], Some((Error, "not_for_servers"))),
            (vec![Usage { purpose: Purpose::Any, ..LEAF }], Some((Hint, "any_purpose"))),
            (vec![LEAF, LEAF], Some((Error, "not_a_ca"))),
            (vec![LEAF, CA, LEAF], Some((Error, "not_a_ca"))),
            (vec![LEAF, Usage { signs_certificates: false, ..CA }], Some((Error, "not_a_ca"))),
            (vec![LEAF, path_length(0)], None),
            (vec![LEAF, path_length(0), path_length(1)], None),
            (vec![LEAF, CA, path_length(0)], Some((Error, "path_length_exceeded"))),
            (vec![LEAF, CA, CA, path_length(1)], Some((Error, "path_length_exceeded"))),
            (vec![Usage { hash: Hash::Sha1, ..LEAF }], Some((Error, "weak_signature"))),
            (vec![LEAF, Usage { hash: Hash::Md5, ..CA }], Some((Error, "weak_signature"))),
            (vec![Usage { signs_handshakes: false, ..LEAF }], Some((Error, "no_digital_signature"))),
            (vec![Usage { signs_handshakes: false, ..rsa(LEAF) }], Some((Hint, "no_digital_signature"))),
            (vec![CA], Some((Hint, "leaf_is_ca"))),
            (vec![Usage { key: Key::Rsa(2047), ..LEAF }], Some((Error, "short_key"))),
            (
                vec![Usage { issuance: Issuance::Refuted, ..LEAF }, Usage { key: Key::Rsa(1024), ..CA }],
                Some((Error, "short_key")),
            ),
            (vec![Usage { issuance: Issuance::Refuted, ..LEAF }, CA], Some((Error, "not_signed_by_next"))),
            (vec![Usage { issuance: Issuance::Unknown, ..LEAF }], None),
        ] {
            assert_eq!(found(&chain(&usages)), Vec::from_iter(expected), "{usages:?}");
        }
    }

    #[test]
    fn a_root_is_the_clients_business_and_a_renewed_authority_lengthens_no_path() {
        let bad = Usage { hash: Hash::Md5, key: Key::Rsa(512), purpose: Purpose::Others, ..LEAF };
        let leaf = || certificate(1, "leaf", "root", LEAF);
        assert_eq!(found(&[leaf(), certificate(2, "root", "root", bad)]), []);
        let own = certificate(1, "own", "own", Usage { hash: Hash::Sha1, ..LEAF });
        assert_eq!(found(&[own]), []);
        let narrow = Usage { authority: Authority::Yes(Some(0)), ..CA };
        let renewed = certificate(2, "ca", "ca", CA);
        assert_eq!(found(&[leaf(), renewed, certificate(3, "ca", "root", narrow)]), []);
    }

    #[test]
    fn a_version_nobody_can_use_is_named_with_its_flags() {
        let [finding] = &findings(&[], &[Version::Tls12])[..] else { panic!("one finding") };
        assert_eq!((finding.severity, finding.code), (Severity::Hint, "useless_version"));
        assert!(finding.problem.contains("TLS 1.2"));
        assert!(
            finding.advice.contains("--tls-cipher-suites") && finding.advice.contains("--tls-min-version")
        );
    }
}
