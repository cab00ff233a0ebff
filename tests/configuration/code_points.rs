//! The names we accept against the TLS library that has to know them.

use rustls::crypto::aws_lc_rs::{ALL_CIPHER_SUITES, ALL_KX_GROUPS};
use tlsidecar::config::TlsVersion;
use tlsidecar::config::tls_names::{GROUPS, SUITES, by_code_point, by_name};

#[test]
fn every_suite_of_the_library_has_its_registered_name_and_version_and_there_is_no_other() {
    for suite in ALL_CIPHER_SUITES {
        let registered = format!("{:?}", suite.suite()).replace("TLS13_", "TLS_");
        let ours = by_name(SUITES, &registered).unwrap_or_else(|| panic!("no entry for {registered}"));
        assert_eq!(ours.code_point, u16::from(suite.suite()), "{registered}");
        let version = if suite.tls13().is_some() { TlsVersion::V1_3 } else { TlsVersion::V1_2 };
        assert_eq!(ours.newest_version, version, "{registered}");
    }
    assert_eq!(SUITES.len(), ALL_CIPHER_SUITES.len());
}

#[test]
fn every_group_of_the_library_has_its_registered_name_and_there_is_no_other() {
    for group in ALL_KX_GROUPS {
        let registered = format!("{:?}", group.name());
        let ours = by_name(GROUPS, &registered).unwrap_or_else(|| panic!("no entry for {registered}"));
        assert_eq!(ours.code_point, u16::from(group.name()), "{registered}");
        assert_eq!(by_code_point(GROUPS, ours.code_point), Some(ours));
    }
    assert_eq!(GROUPS.len(), ALL_KX_GROUPS.len());
}
