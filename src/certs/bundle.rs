//! A certificate file and a key file, read and checked, as one thing.
//!
//! The rule: the chain is every certificate of the certificate file, in its order; the key is the one private key of
//! the key file. What else the files hold is only scanned, so one file with chain and key, in any order, may be both.
//! The leaf comes first, each certificate is issued by the one after it (a self-signed root may end the chain), and
//! the key is the leaf's. Times and trust are not checked here. The tests below show each fault.

use super::{
    Facts, Fault, File, Part, Problem,
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
        let facts = Arc::new(Facts::new(leaf, certificates.len()));
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
