//! What the bytes of the two files are worth: each by itself, both together, and under the terms of the listener.
//!
//! A function of its arguments; the checks are those of the serving path. Never keeps or shows a byte of the key.
//! The tests below show what is told of halves that do not fit.

use std::time::SystemTime;

use super::examination::{Certificate, Pair};
use crate::certs::{self, Bundle, Fault, Policy, Refusal, Store, Version};

/// What the files hold.
#[derive(Debug)]
pub(super) struct Material {
    pub(super) certificates: Vec<Certificate>,
    pub(super) pair: Pair,
    pub(super) faults: Vec<Fault>,
    /// Versions of TLS that are allowed and of which no client could be served.
    pub(super) useless_versions: Vec<Version>,
}

impl Material {
    /// Of the certificate's file and the key's, as far as they could be read.
    pub(super) fn of(
        certificate_file: Option<&[u8]>,
        key_file: Option<&[u8]>,
        policy: &Policy,
        wall: SystemTime,
    ) -> Self {
        let mut faults = Vec::new();
        let chain = certificate_file.map(certs::inspect_chain);
        let key = key_file.map(certs::inspect_key);
        let (mut pair, mut useless_versions) = (Pair::Unknown, Vec::new());
        if let (Some(Ok(_)), Some(Ok(())), Some(certificate_file), Some(key_file)) =
            (&chain, &key, certificate_file, key_file)
        {
            (pair, useless_versions) = match Bundle::parse(certificate_file, key_file) {
                Ok(bundle) => suit(bundle, policy, wall),
                Err(fault) => {
                    faults.push(fault);
                    (Pair::Faulty, Vec::new())
                }
            };
        }
        let certificates = chain.unwrap_or_else(|| Ok(Vec::new())).unwrap_or_else(|fault| {
            faults.push(fault);
            Vec::new()
        });
        faults.extend(key.and_then(Result::err));
        let certificates = certificates
            .into_iter()
            .zip(1..)
            .map(|(inspected, position)| Certificate::new(position, inspected))
            .collect();
        Self { certificates, pair, faults, useless_versions }
    }
}

/// A good pair under the terms of the listener. Dates are told apart from this, certificate by certificate.
fn suit(bundle: Bundle, policy: &Policy, wall: SystemTime) -> (Pair, Vec<Version>) {
    let Ok(store) = Store::new(policy) else { return (Pair::Good, Vec::new()) };
    let useless_versions = store.useless_versions(&bundle);
    match store.stage(bundle, wall) {
        Err(Refusal::NoSuiteForKey) => (Pair::NoSuiteForKey, Vec::new()),
        Ok(_) | Err(Refusal::Expired { .. } | Refusal::NotYetValid { .. } | Refusal::NoRandomness) => {
            (Pair::Good, useless_versions)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certs::Problem;
    use crate::demo::authority::Authority;

    fn problems(material: &Material) -> Vec<Problem> {
        material.faults.iter().map(|fault| fault.problem).collect()
    }

    #[test]
    fn halves_that_do_not_fit_are_told_apart_and_both_shown() {
        let wall = SystemTime::UNIX_EPOCH;
        let mut authority = Authority::new("root", wall + std::time::Duration::from_secs(1 << 30)).unwrap();
        let (one, two) = (authority.issue().unwrap(), authority.issue().unwrap());
        let of = |certificate: Option<&str>, key: Option<&str>| {
            Material::of(certificate.map(str::as_bytes), key.map(str::as_bytes), &Policy::default(), wall)
        };
        let (chain, key, other) = (&*one.chain_pem, &*one.key_pem, &*two.key_pem);
        for (certificate, key, certificates, pair, found) in [
            (Some(chain), Some(key), 2, Pair::Good, vec![]),
            (Some(chain), Some(other), 2, Pair::Faulty, vec![Problem::KeyMismatch]),
            (Some(chain), None, 2, Pair::Unknown, vec![]),
            (Some(chain), Some(""), 2, Pair::Unknown, vec![Problem::Empty]),
            (None, Some(chain), 0, Pair::Unknown, vec![Problem::NoKey]),
            (Some(key), Some(chain), 0, Pair::Unknown, vec![Problem::NoCertificate, Problem::NoKey]),
        ] {
            let material = of(certificate, key);
            assert_eq!(material.certificates.len(), certificates);
            assert_eq!((material.pair, problems(&material)), (pair, found));
        }
    }

    #[test]
    fn a_key_that_no_suite_on_offer_works_with_is_told() {
        let wall = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1 << 30);
        let leaf = Authority::new("root", wall).unwrap().issue().unwrap();
        // TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 signs with RSA; the leaf's key is ECDSA.
        let policy = Policy { cipher_suites: vec![0xC02F], ..Policy::default() };
        let of = |policy: &Policy| {
            Material::of(Some(leaf.chain_pem.as_bytes()), Some(leaf.key_pem.as_bytes()), policy, wall).pair
        };
        assert_eq!(of(&policy), Pair::NoSuiteForKey);
        assert_eq!(of(&Policy::default()), Pair::Good);
    }
}
