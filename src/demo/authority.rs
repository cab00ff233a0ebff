//! A certificate authority in memory, for the demo and for the tests: one root, and leaves with counted serials.
//!
//! Nothing here is fit for a real service: its root is made anew each time and nobody else trusts it. It knows nothing of
//! files; the caller writes the PEM where it wants it. The inline test reads a leaf back.

use std::fmt;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use rustls_pki_types::CertificateDer;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// A clock that is a little behind ours must not refuse what we issue.
const BACKDATED_BY: Duration = Duration::from_secs(60 * 60);
const ROOT_LIFE: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
/// The first leaf gets this serial, so that all of a run print in the same width.
const FIRST_SERIAL: u64 = 0x1001;

/// What the authority could not do.
#[derive(Debug)]
pub struct IssueFault(rcgen::Error);

impl fmt::Display for IssueFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot issue a certificate: {}", self.0)
    }
}

impl std::error::Error for IssueFault {}

impl From<rcgen::Error> for IssueFault {
    fn from(error: rcgen::Error) -> Self {
        Self(error)
    }
}

/// A root certificate and its key.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    now: SystemTime,
    next_serial: u64,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("next_serial", &self.next_serial).finish_non_exhaustive()
    }
}

/// What a leaf shall say. [`Authority::profile`] gives one to change.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The certificate's serial number.
    pub serial: u64,
    /// DNS names and IP addresses, as text.
    pub names: Vec<String>,
    /// First moment of its life.
    pub not_before: SystemTime,
    /// Last moment of its life.
    pub not_after: SystemTime,
}

/// A leaf certificate with its private key.
#[derive(Clone)]
pub struct Leaf {
    /// The serial number it was issued with.
    pub serial: u64,
    /// The leaf, then the root, in PEM.
    pub chain_pem: String,
    /// The private key in PKCS#8 PEM.
    pub key_pem: String,
    /// The leaf alone, in DER.
    pub der: CertificateDer<'static>,
}

impl fmt::Debug for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leaf").field("serial", &self.serial).finish_non_exhaustive()
    }
}

impl Authority {
    /// Makes a new root with the common name `name`; lives are counted from `now`.
    ///
    /// # Errors
    /// When the cryptographic provider cannot make a key or sign.
    pub fn new(name: &str, now: SystemTime) -> Result<Self, IssueFault> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.not_before = (now - DAY).into();
        params.not_after = (now + ROOT_LIFE).into();
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?)?;
        Ok(Self { issuer, now, next_serial: FIRST_SERIAL })
    }

    /// The root in PEM, as `curl --cacert` wants it.
    pub fn root_pem(&self) -> String {
        self.issuer.pem()
    }

    /// The root in DER, as a client's trust store wants it.
    pub fn root_der(&self) -> CertificateDer<'static> {
        self.issuer.der().clone()
    }

    /// The profile that [`Authority::issue`] would use: the next serial, this machine's names, one day of life.
    pub fn profile(&self) -> Profile {
        Profile {
            serial: self.next_serial,
            names: ["localhost", "127.0.0.1", "::1"].map(String::from).to_vec(),
            not_before: self.now - BACKDATED_BY,
            not_after: self.now + DAY,
        }
    }

    /// Issues a P-256 leaf for `localhost`, `127.0.0.1` and `::1` with the next serial.
    ///
    /// # Errors
    /// When the cryptographic provider cannot make a key or sign.
    pub fn issue(&mut self) -> Result<Leaf, IssueFault> {
        let profile = self.profile();
        self.issue_as(&profile)
    }

    /// Issues a P-256 leaf that says what `profile` says; later serials count on from it.
    ///
    /// # Errors
    /// As [`Authority::issue`], or when a name is not one.
    pub fn issue_as(&mut self, profile: &Profile) -> Result<Leaf, IssueFault> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut params = CertificateParams::new(profile.names.clone())?;
        params.distinguished_name.push(DnType::CommonName, format!("leaf {:x}", profile.serial));
        params.serial_number = Some(profile.serial.into());
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        params.not_before = profile.not_before.into();
        params.not_after = profile.not_after.into();
        let certificate = params.signed_by(&key, &self.issuer)?;
        self.next_serial = profile.serial.wrapping_add(1);
        Ok(Leaf {
            serial: profile.serial,
            chain_pem: format!("{}{}", certificate.pem(), self.issuer.pem()),
            key_pem: key.serialize_pem(),
            der: certificate.der().clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authority() -> Authority {
        Authority::new("test root", SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)).unwrap()
    }

    #[test]
    fn leaves_count_their_serials_and_follow_a_chosen_one() {
        let mut authority = authority();
        let first = authority.issue().unwrap().serial;
        assert_eq!(authority.issue().unwrap().serial, first + 1);
        let chosen = Profile { serial: 77, ..authority.profile() };
        assert_eq!(authority.issue_as(&chosen).unwrap().serial, 77);
        assert_eq!(authority.issue().unwrap().serial, 78);
    }

    #[test]
    fn a_leaf_comes_with_its_root_and_its_own_key() {
        let mut authority = authority();
        let (one, two) = (authority.issue().unwrap(), authority.issue().unwrap());
        assert_eq!(one.chain_pem.matches("BEGIN CERTIFICATE").count(), 2);
        assert!(one.chain_pem.ends_with(&authority.root_pem()));
        assert!(one.key_pem.starts_with("-----BEGIN PRIVATE KEY-----"));
        assert_ne!(one.key_pem, two.key_pem);
        assert!(!format!("{one:?} {authority:?}").contains("PRIVATE"));
    }
}
