//! What people and metrics want to know about a certificate.
//!
//! Text from a certificate ends in logs and pages, so it is escaped and bounded here once and for all. Knows no clock:
//! [`Facts::validity`] is told the time. The tests below compare with certificates made for the purpose.

use crate::printable::{Printable, printable};
use std::{
    fmt::{self, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::{Duration, SystemTime},
};
use x509_parser::prelude::{ASN1Time, GeneralName, X509Certificate};

/// The most characters of one text, and the most names, that are kept.
const TEXT_LIMIT: usize = 512;
const NAME_LIMIT: usize = 256;

/// What is known about a chain, from its leaf unless said otherwise. What a terminal would obey in texts is escaped, and
/// texts longer than 512 characters are cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Serial number in upper-case hex without separators, as `openssl x509 -serial` prints it.
    pub serial: String,
    /// Subject name.
    pub subject: String,
    /// Issuer name.
    pub issuer: String,
    /// Names the certificate is valid for, in its order; at most 256.
    pub names: Vec<Name>,
    /// First moment of validity.
    pub not_before: SystemTime,
    /// Last moment of validity.
    pub not_after: SystemTime,
    /// The earliest last moment in the whole chain. A root at its end does not count: clients take their own copy of it.
    pub chain_not_after: SystemTime,
    /// SHA-256 of the leaf's DER in lower-case hex.
    pub leaf_sha256: String,
    /// Number of certificates in the chain.
    pub certificates: usize,
}

/// One subject alternative name. Kinds other than these are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// A host name, perhaps with a wildcard.
    Dns(String),
    /// An address.
    Ip(IpAddr),
    /// A URI, as SPIFFE identities are.
    Uri(String),
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dns(name) | Self::Uri(name) => f.write_str(name),
            Self::Ip(address) => write!(f, "{address}"),
        }
    }
}

/// Where a moment lies in a certificate's life. Both ends belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// Before `not_before`.
    NotYetValid,
    /// Between the two.
    Valid,
    /// After `not_after`.
    Expired,
}

impl Facts {
    /// Of one certificate and the chain that it stands in.
    pub(super) fn new(leaf: &X509Certificate<'_>, chain: &[X509Certificate<'_>]) -> Self {
        let sha256 = ::aws_lc_rs::digest::digest(&::aws_lc_rs::digest::SHA256, leaf.as_raw());
        Self {
            serial: serial(leaf.raw_serial()),
            subject: text(&leaf.subject().to_string()),
            issuer: text(&leaf.issuer().to_string()),
            names: names(leaf),
            not_before: moment(leaf.validity().not_before),
            not_after: moment(leaf.validity().not_after),
            chain_not_after: chain_not_after(chain).unwrap_or(moment(leaf.validity().not_after)),
            leaf_sha256: hex(sha256.as_ref()),
            certificates: chain.len(),
        }
    }

    /// Where `wall` lies in the leaf's life.
    pub fn validity(&self, wall: SystemTime) -> Validity {
        if wall > self.not_after {
            Validity::Expired
        } else if wall < self.not_before {
            Validity::NotYetValid
        } else {
            Validity::Valid
        }
    }
}

fn chain_not_after(chain: &[X509Certificate<'_>]) -> Option<SystemTime> {
    let is_root = |place: usize, certificate: &X509Certificate<'_>| {
        place > 0 && certificate.subject().as_raw() == certificate.issuer().as_raw()
    };
    let counted = chain.iter().enumerate().filter(|(place, certificate)| !is_root(*place, certificate));
    counted.map(|(_, certificate)| moment(certificate.validity().not_after)).min()
}

fn serial(raw: &[u8]) -> String {
    // DER puts a zero byte before a number whose first bit is set; it is no part of the number.
    let number = match raw {
        [0, rest @ ..] if !rest.is_empty() => rest,
        whole => whole,
    };
    let kept = number.get(..TEXT_LIMIT / 2).unwrap_or(number);
    hex(kept).to_ascii_uppercase()
}

fn names(leaf: &X509Certificate<'_>) -> Vec<Name> {
    let Ok(Some(extension)) = leaf.subject_alternative_name() else {
        return Vec::new();
    };
    extension.value.general_names.iter().filter_map(name).take(NAME_LIMIT).collect()
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "nothing we serve is asked for by the other kinds of names"
)]
fn name(general: &GeneralName<'_>) -> Option<Name> {
    match general {
        GeneralName::DNSName(host) => Some(Name::Dns(text(host))),
        GeneralName::URI(uri) => Some(Name::Uri(text(uri))),
        GeneralName::IPAddress(bytes) => address(bytes).map(Name::Ip),
        _ => None,
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(|octets| Ipv4Addr::from(octets).into());
    let v6 = || <[u8; 16]>::try_from(bytes).map(|octets| Ipv6Addr::from(octets).into());
    v4.or_else(|_| v6()).ok()
}

/// Escaped, and cut if it is longer than anybody reads.
fn text(whole: &str) -> String {
    match whole.char_indices().nth(TEXT_LIMIT) {
        None => printable(whole),
        Some((end, _)) => format!("{}…", Printable::from(whole.get(..end).unwrap_or_default())),
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn moment(time: ASN1Time) -> SystemTime {
    let seconds = time.timestamp();
    let distance = Duration::from_secs(seconds.unsigned_abs());
    let moment = if seconds < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(distance)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(distance)
    };
    // A certificate's years have four digits, which the system's clock can hold.
    moment.unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Shows a moment as RFC 3339 in UTC, to the second below: `2026-11-30T13:42:00Z`. A moment outside the years 0 to 9999
/// is shown as seconds since 1970, after an `@`.
#[derive(Clone, Copy, Debug)]
pub struct Rfc3339(pub SystemTime);

impl fmt::Display for Rfc3339 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = unix_seconds(self.0);
        let Some(time) = ASN1Time::from_timestamp(seconds).ok().filter(|time| time.to_datetime().year() >= 0)
        else {
            return write!(f, "@{seconds}");
        };
        let time = time.to_datetime();
        let (year, month, day) = (time.year(), u8::from(time.month()), time.day());
        let (hour, minute, second) = (time.hour(), time.minute(), time.second());
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

/// Whole seconds since 1970, rounded down.
pub fn unix_seconds(moment: SystemTime) -> i64 {
    let whole = |distance: Duration| i64::try_from(distance.as_secs()).unwrap_or(i64::MAX);
    match moment.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => whole(after),
        Err(before) => {
            let started = i64::from(before.duration().subsec_nanos() > 0);
            whole(before.duration()).saturating_neg().saturating_sub(started)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Authority, Leaf, Pair, bundle, day};
    use super::*;

    fn facts(leaf: &Leaf) -> Facts {
        bundle(&Pair::new(leaf)).facts().clone()
    }

    #[test]
    fn a_leaf_is_told_apart_by_serial_names_and_dates() {
        let facts = facts(&Leaf { serial: 0x0b, valid: (20_000, 20_090), ..Leaf::default() });
        // The first bit of the serial is set, so its DER begins with a zero byte.
        assert_eq!(facts.serial, "CA0B");
        assert_eq!(facts.subject, "CN=leaf");
        assert_eq!(facts.issuer, "CN=intermediate");
        let names: Vec<_> = facts.names.iter().map(Name::to_string).collect();
        assert_eq!(names, ["localhost", "*.example.org", "127.0.0.1", "::1", "spiffe://example.org/web"]);
        assert_eq!((facts.not_before, facts.not_after), (day(20_000), day(20_090)));
        assert_eq!(Rfc3339(facts.not_after).to_string(), "2025-01-02T00:00:00Z");
        assert_eq!(facts.certificates, 3);
    }

    #[test]
    fn the_fingerprint_is_that_of_the_leaf() {
        let bundle = bundle(&Pair::new(&Leaf::default()));
        let leaf = bundle.key.cert.first().unwrap();
        let expected = ::aws_lc_rs::digest::digest(&::aws_lc_rs::digest::SHA256, leaf);
        let expected: String = expected.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(bundle.facts().leaf_sha256, expected);
    }

    #[test]
    fn both_ends_belong_to_the_life_of_a_certificate() {
        let facts = facts(&Leaf { valid: (100, 200), ..Leaf::default() });
        let moment = Duration::from_nanos(1);
        assert_eq!(facts.validity(day(100) - moment), Validity::NotYetValid);
        assert_eq!(facts.validity(day(100)), Validity::Valid);
        assert_eq!(facts.validity(day(200)), Validity::Valid);
        assert_eq!(facts.validity(day(200) + moment), Validity::Expired);
    }

    #[test]
    fn the_first_end_in_a_chain_is_told_and_that_of_a_root_does_not_count() {
        let ends = |leaf: u64, intermediate: u64, root: u64| {
            let pair = Authority::until(intermediate, root)
                .issue(&Leaf { valid: (20_000, leaf), ..Leaf::default() });
            let facts = bundle(&pair).facts().clone();
            (facts.not_after, facts.chain_not_after)
        };
        assert_eq!(ends(20_010, 20_020, 20_030), (day(20_010), day(20_010)));
        assert_eq!(ends(20_020, 20_010, 20_030), (day(20_020), day(20_010)));
        assert_eq!(ends(20_020, 20_030, 20_010), (day(20_020), day(20_020)));
    }

    #[test]
    fn texts_are_escaped_and_bounded() {
        assert_eq!(text("O=Ümlaut\n\u{1b}[31m\u{202e}"), "O=Ümlaut\\n\\u{1b}[31m\\u{202e}");
        let long = text(&"x".repeat(TEXT_LIMIT + 1));
        assert_eq!(long.chars().count(), TEXT_LIMIT + 1);
        assert!(long.ends_with("x…"));
        assert_eq!(text(&"x".repeat(TEXT_LIMIT)), "x".repeat(TEXT_LIMIT));
        assert_eq!(serial(&[0]), "00");
        assert_eq!(serial(&[0, 0xff]), "FF");
        assert_eq!(serial(&[7; 70_000]).len(), TEXT_LIMIT);
    }

    #[test]
    fn moments_are_shown_in_utc() {
        let seconds = Duration::from_secs;
        for (moment, shown) in [
            (SystemTime::UNIX_EPOCH, "1970-01-01T00:00:00Z"),
            (SystemTime::UNIX_EPOCH + Duration::from_millis(951_827_696_999), "2000-02-29T12:34:56Z"),
            (SystemTime::UNIX_EPOCH - Duration::from_millis(1), "1969-12-31T23:59:59Z"),
            (SystemTime::UNIX_EPOCH - seconds(86_400), "1969-12-31T00:00:00Z"),
            (SystemTime::UNIX_EPOCH + seconds(253_402_300_799), "9999-12-31T23:59:59Z"),
            (SystemTime::UNIX_EPOCH + seconds(253_402_300_800), "@253402300800"),
        ] {
            assert_eq!(Rfc3339(moment).to_string(), shown);
        }
    }
}
