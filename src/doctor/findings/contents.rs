//! What is wrong with the certificates, the key, and the two together.
//!
//! Knows nothing of where they lie. The tests below show the dates and the chain; `tests/doctor.rs` the rest.

use std::time::{Duration, SystemTime};

use super::{Finding, Severity, acceptance};
use crate::certs::{Fault, File, Problem, Rfc3339};
use crate::doctor::examination::{Certificate, Examination, Pair, Purpose};

/// A certificate that ends within this time and has lived two thirds of its life should have been renewed by now.
const SOON: Duration = Duration::from_secs(7 * 24 * 60 * 60);

pub(super) fn findings(examination: &Examination) -> Vec<Finding> {
    let path = |purpose| {
        let file = examination.files.iter().find(|file| file.purpose == purpose);
        file.map(|file| file.path.clone()).unwrap_or_default()
    };
    let (certificate, key) = (path(Purpose::Certificate), path(Purpose::Key));
    let mut found: Vec<Finding> = Vec::new();
    for fault in &examination.faults {
        let file = if fault.file == File::Certificate { &certificate } else { &key };
        found.push(faulty(fault).at(file));
    }
    if examination.pair == Pair::NoSuiteForKey {
        found.push(no_suite().at(&certificate));
    }
    let now = examination.examined.0;
    let dates = examination.certificates.iter().filter_map(|one| date(one, now, examination.expired_allowed));
    found.extend(dates.map(|finding| finding.at(&certificate)));
    // Which certificate is the leaf is not known while they are out of order.
    if examination.faults.iter().all(|fault| fault.file != File::Certificate) {
        let leaf = [alone(&examination.certificates), nameless(&examination.certificates)];
        let refused = acceptance::findings(&examination.certificates, &examination.useless_versions);
        found.extend(leaf.into_iter().flatten().chain(refused).map(|finding| finding.at(&certificate)));
    }
    found
}

fn faulty(fault: &Fault) -> Finding {
    Finding::new(Severity::Error, fault.reason(), fault.to_string(), fault_advice(fault.problem))
}

fn fault_advice(problem: Problem) -> &'static str {
    match problem {
        Problem::Empty => "have it written; if its writer is still at work, the server will wait for it",
        Problem::TooLarge | Problem::TooManyCertificates => {
            "see whether the path is that of the right file; a bundle of trusted roots is no chain"
        }
        Problem::NulByte | Problem::MissingEnd | Problem::UnexpectedEnd | Problem::NotBase64 => {
            "write it again from its source: it looks cut off or mixed up"
        }
        Problem::MalformedMarker => "put each BEGIN and END line on a line of its own",
        Problem::NotPem => {
            "convert it to PEM, for example with openssl x509 -inform der, openssl pkey -inform der or openssl pkcs12"
        }
        Problem::NoCertificate => "put the chain into it; see whether --cert and --key are mixed up",
        Problem::NoKey => "put the private key into it; see whether --cert and --key are mixed up",
        Problem::SeveralKeys => "leave the key of the leaf in it and no other",
        Problem::EncryptedKey => {
            "take the passphrase away with openssl pkey, and guard the file by its rights"
        }
        Problem::UnsupportedFormat => {
            "convert it: certificates to CERTIFICATE blocks with openssl x509, keys to PRIVATE KEY blocks with openssl pkey"
        }
        Problem::UnreadableCertificate => "get the certificate again from its issuer",
        Problem::UnreadableKey => {
            "use an RSA key of at least 2048 bits, or ECDSA on P-256, P-384 or P-521, or Ed25519"
        }
        Problem::NotIssuedByNext => {
            "put the leaf first, then the certificate that issued it, and so on up the chain"
        }
        Problem::KeyMismatch => {
            "put the key and the certificate of one and the same issuance in place; the public keys that openssl pkey \
             -pubout and openssl x509 -pubkey print must be equal"
        }
        Problem::KeyNotComparable => "use an RSA, ECDSA or Ed25519 key",
    }
}

fn no_suite() -> Finding {
    Finding::new(
        Severity::Error,
        "no_suite_for_key",
        "no cipher suite on offer works with this kind of key",
        "add one to --tls-cipher-suites that does: any of TLS 1.3, or one whose name has ECDSA or RSA as the key has",
    )
}

fn date(certificate: &Certificate, now: SystemTime, expired_allowed: bool) -> Option<Finding> {
    let Certificate { position, subject, not_before, not_after, .. } = certificate;
    let (from, to) = (not_before.0, not_after.0);
    // Clients take their own copy of a root, and never look at the dates of ours.
    let is_root = certificate.subject == certificate.issuer && *position > 1;
    let judged = |harmless: bool| if harmless || is_root { Severity::Hint } else { Severity::Error };
    let name = format!("certificate {position} ({subject})");
    if now > to {
        let problem = format!("{name} expired on {}, {} ago", Rfc3339(to), span(to, now));
        let advice = match (position, expired_allowed) {
            (1, false) => "renew it; as it is, serving does not begin with it unless --allow-expired says so",
            (1, true) => {
                "renew it; it is served at start, or in place of one that has expired too, and clients will refuse it"
            }
            _ => "get the issuer's present certificate and put it in this one's place",
        };
        let harmless = *position == 1 && expired_allowed;
        return Some(Finding::new(judged(harmless), "expired", problem, advice));
    }
    if now < from {
        let problem = format!("{name} is not valid before {}, in {}", Rfc3339(from), span(now, from));
        let advice =
            "wait, or see whether the clocks here and at its issuer are right; clients refuse it until then";
        return Some(Finding::new(judged(false), "not_yet_valid", problem, advice));
    }
    let (left, life) = (to.duration_since(now).ok()?, to.duration_since(from).ok()?);
    (left < SOON && left < life / 3).then(|| {
        let problem = format!("{name} expires on {}, in {}", Rfc3339(to), span(now, to));
        Finding::new(Severity::Hint, "expires_soon", problem, "see whether its renewal is on its way")
    })
}

/// A leaf whose issuer is not in the file. Clients that trust the issuer itself need no more, so it may be right.
fn alone(certificates: &[Certificate]) -> Option<Finding> {
    let [leaf] = certificates else { return None };
    (leaf.subject != leaf.issuer).then(|| {
        Finding::new(
            Severity::Hint,
            "issuer_missing",
            format!("the leaf stands alone: clients that do not themselves trust {} will refuse it", leaf.issuer),
            format!(
                "unless {} is the root that your clients trust, append its certificate, and those between it and the \
                 root (issuers call such a file a full chain)",
                leaf.issuer
            ),
        )
    })
}

fn nameless(certificates: &[Certificate]) -> Option<Finding> {
    let leaf = certificates.first().filter(|leaf| leaf.names.is_empty())?;
    Some(Finding::new(
        Severity::Hint,
        "no_names",
        format!(
            "the leaf ({}) has no subject alternative name, and clients look for host names nowhere else",
            leaf.subject
        ),
        "have it issued with the DNS names or addresses that clients connect to",
    ))
}

/// A length of time in its two largest units.
pub(in crate::doctor) fn span(from: SystemTime, to: SystemTime) -> String {
    let seconds = to.duration_since(from).unwrap_or_default().as_secs();
    let units = [(86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")];
    let first = units.iter().position(|(unit, _)| seconds >= *unit).unwrap_or(units.len() - 1);
    let counted = units.iter().skip(first).take(2).enumerate().map(|(place, (unit, name))| {
        let larger =
            if place == 0 { u64::MAX } else { units.get(first).map_or(u64::MAX, |(larger, _)| *larger) };
        (seconds % larger / unit, name)
    });
    let shown = counted.enumerate().filter(|(place, (count, _))| *place == 0 || *count > 0);
    let words =
        shown.map(|(_, (count, name))| format!("{count} {name}{}", if count == 1 { "" } else { "s" }));
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::super::examination::Moment;
    use super::*;
    use crate::certs::{Authority, Hash, Issuance, Key, Purpose as For, Usage};

    const HOUR: u64 = 3_600;
    const DAY: u64 = 24 * HOUR;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn certificate(position: usize, subject: &str, issuer: &str, life: (u64, u64)) -> Certificate {
        Certificate {
            position,
            subject: subject.into(),
            issuer: issuer.into(),
            serial: "01".into(),
            names: vec!["localhost".into()],
            not_before: Moment(at(life.0)),
            not_after: Moment(at(life.1)),
            sha256: String::new(),
            usage: Usage {
                authority: Authority::No,
                signs_certificates: true,
                signs_handshakes: true,
                purpose: For::Servers,
                key: Key::Signing,
                hash: Hash::Other,
                issuance: Issuance::Unknown,
            },
        }
    }

    #[test]
    fn dates_are_judged_by_what_clients_make_of_them() {
        let leaf = |life| certificate(1, "CN=leaf", "CN=ca", life);
        let (ca, root) =
            (certificate(2, "CN=ca", "CN=root", (0, DAY)), certificate(2, "CN=r", "CN=r", (0, DAY)));
        let now = 1000 * DAY;
        let whole = (900 * DAY, 1100 * DAY);
        for (name, certificate, allowed, expected) in [
            ("in the middle of its life", leaf(whole), false, None),
            ("its last second", leaf((0, now)), false, Some((Severity::Hint, "expires_soon"))),
            ("over", leaf((0, now - 1)), false, Some((Severity::Error, "expired"))),
            ("over and allowed", leaf((0, now - 1)), true, Some((Severity::Hint, "expired"))),
            ("its first second", leaf((now, now + DAY)), false, None),
            ("to come", leaf((now + 1, now + DAY)), false, Some((Severity::Error, "not_yet_valid"))),
            ("an intermediate that is over", ca, true, Some((Severity::Error, "expired"))),
            ("a root that is over", root, false, Some((Severity::Hint, "expired"))),
            (
                "less than a week of a year",
                leaf((now - 359 * DAY, now + 6 * DAY)),
                false,
                Some((Severity::Hint, "expires_soon")),
            ),
            ("a week of a year", leaf((now - 358 * DAY, now + 7 * DAY)), false, None),
            ("the fresh half of a day", leaf((now - 12 * HOUR, now + 12 * HOUR)), false, None),
            (
                "the last hours of a day",
                leaf((now - 17 * HOUR, now + 7 * HOUR)),
                false,
                Some((Severity::Hint, "expires_soon")),
            ),
        ] {
            let found = date(&certificate, at(now), allowed).map(|finding| (finding.severity, finding.code));
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn only_a_leaf_that_is_alone_and_not_its_own_issuer_lacks_one() {
        let life = (0, DAY);
        let (leaf, own) =
            (certificate(1, "CN=leaf", "CN=ca", life), certificate(1, "CN=own", "CN=own", life));
        let ca = certificate(2, "CN=ca", "CN=root", life);
        let finding = alone(std::slice::from_ref(&leaf)).unwrap();
        assert_eq!((finding.severity, finding.code), (Severity::Hint, "issuer_missing"));
        assert!(finding.problem.contains("CN=ca") && finding.advice.contains("CN=ca"));
        for complete in [vec![], vec![own], vec![leaf, ca]] {
            assert_eq!(alone(&complete), None);
        }
    }

    #[test]
    fn spans_are_told_in_two_units() {
        for (seconds, text) in [
            (0, "0 seconds"),
            (1, "1 second"),
            (61, "1 minute 1 second"),
            (2 * HOUR, "2 hours"),
            (25 * HOUR + 59, "1 day 1 hour"),
            (400 * DAY + 59 * 60, "400 days"),
        ] {
            assert_eq!(span(at(5), at(5 + seconds)), text);
        }
        assert_eq!(span(at(5), at(4)), "0 seconds");
    }
}
