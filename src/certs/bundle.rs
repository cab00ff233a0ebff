//! A certificate file and a key file, read and checked, as one thing.
//!
//! The rule: the chain is every certificate of the certificate file, in its order; the key is the one private key of
//! the key file. What else the files hold is only scanned, so one file with chain and key, in any order, may be both.
//! The leaf comes first, each certificate is issued by the one after it (a self-signed root may end the chain), and
//! the key is the leaf's. Times and trust are not checked here. The tests below show each fault.

use super::{
    Facts, Fault, File, Part, Problem, Usage,
    pem::{self, Kind},
};
use rustls::{
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer},
    sign::{CertifiedKey, SigningKey},
};
use std::{fmt, sync::Arc};
use x509_parser::prelude::{FromDer, X509Certificate, X509Name};

/// A chain and its private key, proven to belong together.
#[derive(Clone)]
pub struct Bundle {
    pub(super) key: Arc<CertifiedKey>,
    pub(super) facts: Arc<Facts>,
}

impl Bundle {
    /// Reads the chain from `certificate_file` and the private key from `key_file`; both may be the same bytes.
    ///
    /// # Errors
    /// The first fault found, with its file and part.
    pub fn parse(certificate_file: &[u8], key_file: &[u8]) -> Result<Self, Fault> {
        let chain = read_chain(certificate_file)?;
        let certificates = parse_chain(&chain)?;
        check_order(&certificates)?;
        let Some(leaf) = certificates.first() else {
            return Err(Fault::new(File::Certificate, Part::Whole, Problem::NoCertificate));
        };
        let signing_key = read_key(key_file)?;
        check_key(&*signing_key, leaf)?;
        let facts = Arc::new(Facts::new(leaf, &certificates));
        Ok(Self { key: Arc::new(CertifiedKey::new(chain, signing_key)), facts })
    }

    /// What is known about the chain.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }
}

impl fmt::Debug for Bundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bundle").field("facts", &self.facts).finish_non_exhaustive()
    }
}

/// What one certificate of a file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspected {
    /// Who it is for, and when.
    pub facts: Facts,
    /// What for.
    pub usage: Usage,
}

/// What the certificates of a file say, each by itself and in the order of the file: nothing is required of their order,
/// and no key is needed.
///
/// # Errors
/// The first fault found: the file holds no certificate, or one that can't be read.
pub fn inspect_chain(certificate_file: &[u8]) -> Result<Vec<Inspected>, Fault> {
    let chain = read_chain(certificate_file)?;
    let certificates = parse_chain(&chain)?;
    let next = certificates.iter().skip(1).map(Some).chain([None]);
    let inspect = |(certificate, next)| Inspected {
        facts: Facts::new(certificate, &certificates),
        usage: Usage::new(certificate, next),
    };
    Ok(certificates.iter().zip(next).map(inspect).collect())
}

/// Whether a file holds one private key that can be used, whatever it belongs to.
///
/// # Errors
/// The first fault found.
pub fn inspect_key(key_file: &[u8]) -> Result<(), Fault> {
    read_key(key_file).map(drop)
}

fn read_chain(bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, Fault> {
    let fault = |part, problem| Fault::new(File::Certificate, part, problem);
    let blocks = pem::scan(File::Certificate, bytes)?;
    let certificates = blocks.iter().filter(|block| block.kind.is_certificate());
    let chain = certificates
        .zip(1..)
        .map(|(block, n)| match block.kind {
            Kind::Certificate => {
                block.certificate().ok_or(fault(Part::Certificate(n), Problem::UnreadableCertificate))
            }
            Kind::ForeignCertificate | Kind::Key | Kind::EncryptedKey | Kind::ForeignKey | Kind::Other => {
                Err(fault(Part::Certificate(n), Problem::UnsupportedFormat))
            }
        })
        .collect::<Result<Vec<_>, _>>()?;
    if chain.is_empty() { Err(fault(Part::Whole, Problem::NoCertificate)) } else { Ok(chain) }
}

fn parse_chain<'a>(chain: &'a [CertificateDer<'static>]) -> Result<Vec<X509Certificate<'a>>, Fault> {
    let unreadable = |n| Fault::new(File::Certificate, Part::Certificate(n), Problem::UnreadableCertificate);
    let parse = |(der, n): (&'a CertificateDer<'static>, usize)| match X509Certificate::from_der(der) {
        Ok(([], certificate)) => Ok(certificate),
        Ok(_) | Err(_) => Err(unreadable(n)),
    };
    chain.iter().zip(1..).map(parse).collect()
}

fn check_order(certificates: &[X509Certificate<'_>]) -> Result<(), Fault> {
    for ((certificate, issuer), n) in certificates.iter().zip(certificates.iter().skip(1)).zip(1..) {
        if !is_same_name(certificate.issuer(), issuer.subject()) {
            return Err(Fault::new(File::Certificate, Part::Certificate(n), Problem::NotIssuedByNext));
        }
    }
    Ok(())
}

/// Whether two names are the same, be it in different string types or letter cases.
fn is_same_name(one: &X509Name<'_>, other: &X509Name<'_>) -> bool {
    one.as_raw() == other.as_raw() || one.to_string().eq_ignore_ascii_case(&other.to_string())
}

fn read_key(bytes: &[u8]) -> Result<Arc<dyn SigningKey>, Fault> {
    let fault = |part, problem| Fault::new(File::Key, part, problem);
    let blocks = pem::scan(File::Key, bytes)?;
    let mut keys = blocks.iter().filter(|block| block.kind.is_key());
    let Some(block) = keys.next() else {
        return Err(fault(Part::Whole, Problem::NoKey));
    };
    if keys.next().is_some() {
        return Err(fault(Part::Whole, Problem::SeveralKeys));
    }
    match block.kind {
        Kind::Key => {
            let der = block.key().ok_or(fault(Part::Key, Problem::UnreadableKey))?;
            load_key(der).ok_or(fault(Part::Key, Problem::UnreadableKey))
        }
        Kind::EncryptedKey => Err(fault(Part::Key, Problem::EncryptedKey)),
        Kind::ForeignKey | Kind::Certificate | Kind::ForeignCertificate | Kind::Other => {
            Err(fault(Part::Key, Problem::UnsupportedFormat))
        }
    }
}

/// rustls wipes the bytes it is given, whether or not they are a key.
fn load_key(der: PrivateKeyDer<'static>) -> Option<Arc<dyn SigningKey>> {
    aws_lc_rs::default_provider().key_provider.load_private_key(der).ok()
}

/// Compares the public halves. rustls' own comparison would refuse leaves that are not X.509 version 3, which it can
/// serve all the same, and would let a key pass that does not tell its public half; here that is a fault, because
/// this comparison is all that keeps halves of two pairs apart.
fn check_key(key: &dyn SigningKey, leaf: &X509Certificate<'_>) -> Result<(), Fault> {
    let fault = |problem| Err(Fault::new(File::Pair, Part::Key, problem));
    match key.public_key() {
        None => fault(Problem::KeyNotComparable),
        Some(public) if public.as_ref() == leaf.public_key().raw => Ok(()),
        Some(_) => fault(Problem::KeyMismatch),
    }
}

/// SHA-256 over the contents of a whole set of files; where one file ends and the next begins counts.
pub fn digest(files: &[&[u8]]) -> [u8; 32] {
    use ::aws_lc_rs::digest::{Context, SHA256};
    let mut context = Context::new(&SHA256);
    for file in files {
        context.update(&(file.len() as u64).to_be_bytes());
        context.update(file);
    }
    let mut digest = [0; 32];
    digest.copy_from_slice(context.finish().as_ref());
    digest
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Algorithm, Authority, Leaf, Pair, crlf, older_format, pem};
    use super::*;
    use rustls::pki_types::pem::PemObject;

    fn parse(certificate_file: &str, key_file: &str) -> Result<Bundle, Fault> {
        Bundle::parse(certificate_file.as_bytes(), key_file.as_bytes())
    }

    fn fault(certificate_file: &str, key_file: &str) -> String {
        let fault = parse(certificate_file, key_file).unwrap_err();
        format!("{:?}: {fault} ({})", fault.file, fault.reason())
    }

    #[test]
    fn a_chain_and_its_key_are_a_bundle_with_or_without_intermediate_and_root() {
        let pair = Pair::new(&Leaf::default());
        for (chain, length) in
            [(pair.leaf.clone(), 1), (pair.leaf.clone() + &pair.intermediate, 2), (pair.chain(), 3)]
        {
            for layout in [chain.clone(), crlf(&chain)] {
                let bundle = parse(&layout, &pair.key).unwrap();
                assert_eq!(bundle.facts().certificates, length);
                assert_eq!(bundle.key.cert.len(), length);
            }
        }
        let root = parse(&pair.root, &pair.key).unwrap_err();
        assert_eq!(root.problem, Problem::KeyMismatch);
    }

    #[test]
    fn what_does_not_belong_together_can_be_inspected_by_itself() {
        let Pair { leaf, intermediate, key, .. } = Pair::new(&Leaf::default());
        let other = Pair::new(&Leaf::default()).key;
        let disordered = [&*intermediate, &leaf].concat();
        assert!(parse(&disordered, &other).is_err());
        let subjects: Vec<_> =
            inspect_chain(disordered.as_bytes()).unwrap().into_iter().map(|one| one.facts.subject).collect();
        assert_eq!(subjects, ["CN=intermediate", "CN=leaf"]);
        assert_eq!(inspect_key(other.as_bytes()), Ok(()));
        assert_eq!(inspect_chain(key.as_bytes()).unwrap_err().problem, Problem::NoCertificate);
        assert_eq!(inspect_key(leaf.as_bytes()).unwrap_err().problem, Problem::NoKey);
    }

    #[test]
    fn one_file_with_key_and_chain_in_any_order_is_both() {
        let Pair { leaf, intermediate, root, key } = Pair::new(&Leaf::default());
        let plain = parse(&[&*leaf, &intermediate, &root].concat(), &key).unwrap();
        for combined in [
            [&*key, &leaf, &intermediate, &root],
            [&leaf, &key, &intermediate, &root],
            [&leaf, &intermediate, &root, &key],
        ] {
            let bundle = parse(&combined.concat(), &combined.concat()).unwrap();
            assert_eq!(bundle.key.cert, plain.key.cert);
        }
        assert!(parse(&[&*key, &leaf].concat(), &key).is_ok());
        assert!(parse(&leaf, &[&*leaf, &key].concat()).is_ok());
    }

    #[test]
    fn keys_come_in_three_formats() {
        let parameters = pem("EC PARAMETERS", &[6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7]);
        for (algorithm, label) in [(Algorithm::P256, "EC PRIVATE KEY"), (Algorithm::Rsa, "RSA PRIVATE KEY")] {
            let pair = Pair::new(&Leaf { algorithm, ..Leaf::default() });
            let older = older_format(&pair.key, label);
            for key in [pair.key.clone(), crlf(&older), parameters.clone() + &older] {
                assert!(parse(&pair.leaf, &key).is_ok(), "{label}");
            }
        }
    }

    #[test]
    fn a_key_of_another_certificate_is_refused_whatever_its_kind() {
        let authority = Authority::new();
        let p256 = || authority.issue(&Leaf::default());
        let rsa = || authority.issue(&Leaf { algorithm: Algorithm::Rsa, ..Leaf::default() });
        let mismatch = "Pair: private key: does not match the leaf certificate (key_mismatch)";
        for (one, other) in [(p256(), p256()), (p256(), rsa()), (rsa(), p256()), (rsa(), rsa())] {
            assert_eq!(fault(&one.chain(), &other.key), mismatch);
        }
    }

    #[test]
    fn certificates_that_do_not_follow_each_other_are_named() {
        let Pair { leaf, intermediate, root, key } = Pair::new(&Leaf::default());
        for (chain, n) in [
            ([&*intermediate, &leaf, ""], 1),
            ([&leaf, &root, &intermediate], 1),
            ([&leaf, &leaf, &intermediate], 1),
            ([&leaf, &intermediate, &leaf], 2),
            ([&root, &intermediate, &leaf], 1),
        ] {
            let expected = format!(
                "Certificate: certificate {n}: is not issued by the certificate after it (not_issued_by_next)"
            );
            assert_eq!(fault(&chain.concat(), &key), expected);
        }
    }

    #[test]
    fn each_file_must_hold_what_it_is_for() {
        let Pair { leaf, key, .. } = Pair::new(&Leaf::default());
        let other = Pair::new(&Leaf::default()).key;
        let two = [&*key, &other].concat();
        let openssh = key.replace("PRIVATE", "OPENSSH PRIVATE");
        let encrypted = key.replace("PRIVATE", "ENCRYPTED PRIVATE");
        let trusted = leaf.replace("CERTIFICATE", "TRUSTED CERTIFICATE");
        let junk = pem("PRIVATE KEY", b"not a key");
        let unsupported = "is in a format that is not supported (unsupported_format)";
        for (certificate_file, key_file, expected) in [
            ("", &*key, "Certificate: file: is empty (empty)"),
            (&*leaf, "", "Key: file: is empty (empty)"),
            (&*key, &*leaf, "Certificate: file: holds no certificate (no_certificate)"),
            (&*leaf, &*leaf, "Key: file: holds no private key (no_key)"),
            (&*leaf, &*two, "Key: file: holds more than one private key (several_keys)"),
            (&*leaf, &*key.repeat(2), "Key: file: holds more than one private key (several_keys)"),
            (&*leaf, &*openssh, &*format!("Key: private key: {unsupported}")),
            (&*trusted, &*key, &*format!("Certificate: certificate 1: {unsupported}")),
            (
                &*leaf,
                &*encrypted,
                "Key: private key: is encrypted; a key without passphrase is needed (encrypted_key)",
            ),
            (
                &*leaf,
                &*junk,
                "Key: private key: can't be read as an RSA, ECDSA or Ed25519 key (unreadable_key)",
            ),
        ] {
            assert_eq!(fault(certificate_file, key_file), expected);
        }
    }

    #[test]
    fn a_certificate_that_is_none_is_named() {
        let Pair { leaf, intermediate, key, .. } = Pair::new(&Leaf::default());
        let der = CertificateDer::from_pem_slice(leaf.as_bytes()).unwrap();
        let unreadable = |n| {
            format!(
                "Certificate: certificate {n}: can't be read as an X.509 certificate (unreadable_certificate)"
            )
        };
        let longer = pem("CERTIFICATE", &[&der, &b"more"[..]].concat());
        assert_eq!(fault(&longer, &key), unreadable(1));
        for cut in (0..der.len()).step_by(7) {
            let shorter = leaf.clone() + &pem("CERTIFICATE", &der[..cut]) + &intermediate;
            assert_eq!(fault(&shorter, &key), unreadable(2), "cut at {cut}");
        }
    }

    #[test]
    fn no_changed_byte_of_a_certificate_can_panic_it() {
        let Pair { leaf, key, .. } = Pair::new(&Leaf::default());
        let der = CertificateDer::from_pem_slice(leaf.as_bytes()).unwrap();
        for place in 0..der.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = der.to_vec();
                changed[place] = value;
                let _ = parse(&pem("CERTIFICATE", &changed), &key);
            }
        }
    }

    #[test]
    fn nothing_shows_the_key() {
        let pair = Pair::new(&Leaf::default());
        let bundle = parse(&pair.leaf, &pair.key).unwrap();
        let body: Vec<_> = pair.key.lines().filter(|line| !line.starts_with('-')).collect();
        let der = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
        let shown = format!("{bundle:?} {bundle:#?}");
        assert!(body.iter().all(|line| !shown.contains(line)));
        assert!(!shown.contains(&format!("{:?}", &der.secret_der()[36..60])));
        assert!(shown.contains("CA07"), "{shown}");
    }

    #[test]
    fn the_digest_knows_where_files_end() {
        let digests = [
            digest(&[b"ab", b"c"]),
            digest(&[b"a", b"bc"]),
            digest(&[b"abc"]),
            digest(&[b"abc", b""]),
            digest(&[b"", b"abc"]),
        ];
        for (n, one) in digests.iter().enumerate() {
            assert!(digests[n + 1..].iter().all(|other| other != one));
        }
        assert_eq!(digest(&[b"ab", b"c"]), digests[0]);
    }
}
