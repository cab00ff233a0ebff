//! What a certificate may be used for and how it is signed: what clients look at besides names and dates.
//!
//! Facts, not judgements: which of them matter depends on a certificate's place in its chain. An extension that can't be
//! read counts as absent. Serving does not depend on any of this. The tests below compare with certificates made for the
//! purpose.

use rustls::crypto::aws_lc_rs;
use x509_parser::{
    asn1_rs::{Any, FromDer},
    extensions::BasicConstraints,
    oid_registry::{
        OID_HASH_SHA1, OID_MD5_WITH_RSA, OID_PKCS1_MD2WITHRSAENC, OID_PKCS1_MD4WITHRSAENC,
        OID_PKCS1_MD5WITHRSAENC, OID_PKCS1_RSASSAPSS, OID_PKCS1_SHA1WITHRSA, OID_SHA1_WITH_RSA,
        OID_SIG_DSA_WITH_SHA1, Oid, asn1_rs::oid,
    },
    prelude::X509Certificate,
    public_key::PublicKey,
    signature_algorithm::RsaSsaPssParams,
    x509::AlgorithmIdentifier,
};

/// What a certificate may be used for and how it is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Whether it may stand above others in a chain.
    pub authority: Authority,
    /// Whether its key may sign certificates; yes without a key usage.
    pub signs_certificates: bool,
    /// Whether its key may sign handshakes; yes without a key usage.
    pub signs_handshakes: bool,
    /// Which ends of a connection it is for.
    pub purpose: Purpose,
    /// What kind of key it is for.
    pub key: Key,
    /// The hash function that its issuer signed with.
    pub hash: Hash,
    /// Whether the certificate after it in the file really signed it.
    pub issuance: Issuance,
}

/// Whether a certificate may stand above others in a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authority {
    /// It may not.
    No,
    /// It may, with so many other authorities between it and the leaf; `None`: as many as may be.
    Yes(Option<u32>),
}

/// Which ends of a connection a certificate is for, by its extended key usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Servers among others, or nothing is said of it.
    Servers,
    /// Any purpose, without naming servers.
    Any,
    /// Other things.
    Others,
}

/// What kind of key a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// RSA with a modulus of so many bits.
    Rsa(usize),
    /// ECDSA, EdDSA or something else that can do nothing but sign.
    Signing,
}

/// A hash function, as far as it matters to trust.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// MD5 or an older one.
    Md5,
    /// SHA-1.
    Sha1,
    /// Any other, or one that is not known here.
    Other,
}

/// Whether the certificate after this one in the file really signed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Issuance {
    /// Its signature is right.
    Proven,
    /// Its signature is not that of the next one's key.
    Refuted,
    /// There is no next one, or the kind of signature is not supported here.
    Unknown,
}

impl Usage {
    pub(super) fn new(certificate: &X509Certificate<'_>, next: Option<&X509Certificate<'_>>) -> Self {
        let constraints = certificate.basic_constraints().ok().flatten();
        let key_usage = certificate.key_usage().ok().flatten().map(|extension| extension.value);
        let allows = |allowed: Option<bool>| allowed.unwrap_or(true);
        Self {
            authority: constraints.map_or(Authority::No, |extension| authority(extension.value)),
            signs_certificates: allows(key_usage.map(|usage| usage.key_cert_sign())),
            signs_handshakes: allows(key_usage.map(|usage| usage.digital_signature())),
            purpose: purpose(certificate),
            key: match certificate.public_key().parsed() {
                Ok(PublicKey::RSA(key)) => Key::Rsa(key.key_size()),
                Ok(_) | Err(_) => Key::Signing,
            },
            hash: hash(&certificate.signature_algorithm),
            issuance: next.map_or(Issuance::Unknown, |next| issuance(certificate, next)),
        }
    }
}

fn authority(constraints: &BasicConstraints) -> Authority {
    if constraints.ca { Authority::Yes(constraints.path_len_constraint) } else { Authority::No }
}

fn purpose(certificate: &X509Certificate<'_>) -> Purpose {
    match certificate.extended_key_usage().ok().flatten().map(|extension| extension.value) {
        None => Purpose::Servers,
        Some(usage) if usage.server_auth => Purpose::Servers,
        Some(usage) if usage.any => Purpose::Any,
        Some(_) => Purpose::Others,
    }
}

fn hash(algorithm: &AlgorithmIdentifier<'_>) -> Hash {
    const ECDSA_WITH_SHA1: Oid<'static> = oid!(1.2.840.10045.4.1);
    let old = [OID_PKCS1_MD2WITHRSAENC, OID_PKCS1_MD4WITHRSAENC, OID_PKCS1_MD5WITHRSAENC, OID_MD5_WITH_RSA];
    let sha1 = [OID_PKCS1_SHA1WITHRSA, OID_SHA1_WITH_RSA, OID_SIG_DSA_WITH_SHA1, ECDSA_WITH_SHA1];
    if algorithm.algorithm == OID_PKCS1_RSASSAPSS {
        let parameters = algorithm.parameters.as_ref().and_then(|any| RsaSsaPssParams::try_from(any).ok());
        let is_sha1 = parameters.is_some_and(|it| *it.hash_algorithm_oid() == OID_HASH_SHA1);
        return if is_sha1 { Hash::Sha1 } else { Hash::Other };
    }
    if old.contains(&algorithm.algorithm) {
        Hash::Md5
    } else if sha1.contains(&algorithm.algorithm) {
        Hash::Sha1
    } else {
        Hash::Other
    }
}

/// Checks the signature as clients do: with the algorithm that both the signature and the issuer's key name.
fn issuance(certificate: &X509Certificate<'_>, issuer: &X509Certificate<'_>) -> Issuance {
    let identifiers = (signature_identifier(certificate), key_identifier(issuer));
    let (Some(signature_identifier), Some(key_identifier)) = identifiers else { return Issuance::Unknown };
    let known = aws_lc_rs::default_provider().signature_verification_algorithms.all;
    let mut fitting = known.iter().filter(|algorithm| {
        *algorithm.signature_alg_id() == *signature_identifier
            && *algorithm.public_key_alg_id() == *key_identifier
    });
    let key = &issuer.public_key().subject_public_key.data;
    let (message, signature) = (certificate.tbs_certificate.as_ref(), &certificate.signature_value.data);
    match fitting.next().map(|algorithm| algorithm.verify_signature(key, message, signature)) {
        None => Issuance::Unknown,
        Some(Ok(())) => Issuance::Proven,
        Some(Err(_)) => Issuance::Refuted,
    }
}

/// The DER within the identifier of a certificate's signature algorithm: the second element of the whole.
fn signature_identifier<'a>(certificate: &X509Certificate<'a>) -> Option<&'a [u8]> {
    let (_, whole) = Any::from_der(certificate.as_raw()).ok()?;
    let (rest, _signed) = Any::from_der(whole.data).ok()?;
    Some(Any::from_der(rest).ok()?.1.data)
}

/// The DER within the identifier of a key's algorithm: the first element of the key.
fn key_identifier<'a>(certificate: &X509Certificate<'a>) -> Option<&'a [u8]> {
    let (_, whole) = Any::from_der(certificate.tbs_certificate.subject_pki.raw).ok()?;
    Some(Any::from_der(whole.data).ok()?.1.data)
}

#[cfg(test)]
mod tests {
    use super::super::bundle::inspect_chain;
    use super::super::testing::{Algorithm, Leaf, Pair, pem};
    use super::*;
    use rcgen::{
        BasicConstraints as Constraints, CertificateParams, ExtendedKeyUsagePurpose as Extended, IsCa,
        KeyPair, KeyUsagePurpose, PKCS_RSA_SHA256, RsaKeySize,
    };
    use rustls::pki_types::{CertificateDer, pem::PemObject};

    fn usage(change: impl FnOnce(&mut CertificateParams)) -> Usage {
        let mut params = CertificateParams::default();
        change(&mut params);
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        inspect_chain(certificate.pem().as_bytes()).unwrap()[0].usage
    }

    #[test]
    fn extensions_say_what_a_certificate_may_do() {
        let plain = usage(|_| ());
        let expected = Usage {
            authority: Authority::No,
            signs_certificates: true,
            signs_handshakes: true,
            purpose: Purpose::Servers,
            key: Key::Signing,
            hash: Hash::Other,
            issuance: Issuance::Unknown,
        };
        assert_eq!(plain, expected);
        for (is_ca, authority) in [
            (IsCa::ExplicitNoCa, Authority::No),
            (IsCa::Ca(Constraints::Unconstrained), Authority::Yes(None)),
            (IsCa::Ca(Constraints::Constrained(3)), Authority::Yes(Some(3))),
        ] {
            assert_eq!(usage(|params| params.is_ca = is_ca).authority, authority);
        }
        for (key_usages, certificates, handshakes) in [
            (vec![KeyUsagePurpose::KeyCertSign], true, false),
            (vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment], false, true),
            (vec![KeyUsagePurpose::KeyAgreement], false, false),
        ] {
            let usage = usage(|params| params.key_usages = key_usages);
            assert_eq!((usage.signs_certificates, usage.signs_handshakes), (certificates, handshakes));
        }
        for (purposes, purpose) in [
            (vec![Extended::ClientAuth, Extended::ServerAuth], Purpose::Servers),
            (vec![Extended::Any], Purpose::Any),
            (vec![Extended::ClientAuth], Purpose::Others),
        ] {
            assert_eq!(usage(|params| params.extended_key_usages = purposes).purpose, purpose);
        }
    }

    /// A self-signed certificate with an RSA key, and other bytes in the place of the name of its signature algorithm.
    fn signed_with(algorithm: u8) -> String {
        const SHA256_WITH_RSA: [u8; 11] = [6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 11];
        let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).unwrap();
        let mut der = CertificateParams::default().self_signed(&key).unwrap().der().to_vec();
        let places: Vec<usize> =
            (0..der.len() - 11).filter(|at| der[*at..at + 11] == SHA256_WITH_RSA).collect();
        assert_eq!(places.len(), 2, "within what is signed and beside it");
        places.into_iter().for_each(|at| der[at + 10] = algorithm);
        pem("CERTIFICATE", &der)
    }

    #[test]
    fn the_hash_of_a_signature_and_the_length_of_a_key_are_told() {
        for (algorithm, hash) in [(2, Hash::Md5), (4, Hash::Md5), (5, Hash::Sha1), (11, Hash::Other)] {
            let usage = inspect_chain(signed_with(algorithm).as_bytes()).unwrap()[0].usage;
            assert_eq!((usage.hash, usage.key), (hash, Key::Rsa(2048)), "{algorithm}");
        }
    }

    #[test]
    fn a_signature_is_checked_with_the_key_of_the_next_certificate() {
        let of = |chain: String| -> Vec<Issuance> {
            inspect_chain(chain.as_bytes()).unwrap().iter().map(|one| one.usage.issuance).collect()
        };
        use Issuance::{Proven, Refuted, Unknown};
        for algorithm in [Algorithm::P256, Algorithm::Rsa] {
            let pair = Pair::new(&Leaf { algorithm, ..Leaf::default() });
            assert_eq!(of(pair.chain()), [Proven, Proven, Unknown]);
            let other = Pair::new(&Leaf::default());
            assert_eq!(
                of([&*pair.leaf, &other.intermediate, &other.root].concat()),
                [Refuted, Proven, Unknown]
            );
        }
    }

    #[test]
    fn no_changed_byte_can_panic_it() {
        let Pair { leaf, intermediate, .. } = Pair::new(&Leaf::default());
        let der = CertificateDer::from_pem_slice(leaf.as_bytes()).unwrap();
        for place in 0..der.len() {
            for value in [0, 0x80, 0xff] {
                let mut changed = der.to_vec();
                changed[place] = value;
                let _ = inspect_chain((pem("CERTIFICATE", &changed) + &intermediate).as_bytes());
            }
        }
    }
}
