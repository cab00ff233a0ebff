//! The names of cipher suites and key exchange groups, and the code points of the IANA registries they stand for. One
//! table each; which of them a TLS library really has is shown by `tests/configuration.rs`.

use super::TlsVersion;

/// A cipher suite or a group under all its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named {
    /// The code point on the wire.
    pub code_point: u16,
    /// The name we print.
    pub name: &'static str,
    /// What else it is called.
    pub aliases: &'static [&'static str],
    /// The newest version of TLS that has it.
    pub newest_version: TlsVersion,
}

impl Named {
    fn is_called(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
            || self.aliases.iter().any(|alias| alias.eq_ignore_ascii_case(name))
    }
}

/// Every cipher suite we can serve; the aliases are OpenSSL's names and the short ones of Go.
pub const SUITES: &[Named] = &[
    tls13_suite(0x1301, "TLS_AES_128_GCM_SHA256"),
    tls13_suite(0x1302, "TLS_AES_256_GCM_SHA384"),
    tls13_suite(0x1303, "TLS_CHACHA20_POLY1305_SHA256"),
    tls12_suite(0xc02b, "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", &["ECDHE-ECDSA-AES128-GCM-SHA256"]),
    tls12_suite(0xc02c, "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", &["ECDHE-ECDSA-AES256-GCM-SHA384"]),
    tls12_suite(
        0xcca9,
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        &["ECDHE-ECDSA-CHACHA20-POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305"],
    ),
    tls12_suite(0xc02f, "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", &["ECDHE-RSA-AES128-GCM-SHA256"]),
    tls12_suite(0xc030, "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", &["ECDHE-RSA-AES256-GCM-SHA384"]),
    tls12_suite(
        0xcca8,
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        &["ECDHE-RSA-CHACHA20-POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305"],
    ),
];

/// Every key exchange group we can serve. Those with ML-KEM resist a quantum computer and need TLS 1.3.
pub const GROUPS: &[Named] = &[
    post_quantum_group(0x11ec, "X25519MLKEM768"),
    post_quantum_group(0x11eb, "SECP256R1MLKEM768"),
    group(0x001d, "X25519", &["curve25519"]),
    group(0x0017, "P-256", &["secp256r1", "prime256v1", "CurveP256"]),
    group(0x0018, "P-384", &["secp384r1", "CurveP384"]),
    post_quantum_group(0x0201, "MLKEM768"),
    post_quantum_group(0x0202, "MLKEM1024"),
];

/// The entry of `table` that is called `name`, whatever the case of its letters.
pub fn by_name(table: &'static [Named], name: &str) -> Option<&'static Named> {
    table.iter().find(|named| named.is_called(name))
}

/// The entry of `table` for `code_point`.
pub fn by_code_point(table: &'static [Named], code_point: u16) -> Option<&'static Named> {
    table.iter().find(|named| named.code_point == code_point)
}

const fn tls13_suite(code_point: u16, name: &'static str) -> Named {
    Named { code_point, name, aliases: &[], newest_version: TlsVersion::V1_3 }
}

const fn tls12_suite(code_point: u16, name: &'static str, aliases: &'static [&'static str]) -> Named {
    Named { code_point, name, aliases, newest_version: TlsVersion::V1_2 }
}

const fn post_quantum_group(code_point: u16, name: &'static str) -> Named {
    Named { code_point, name, aliases: &[], newest_version: TlsVersion::V1_3 }
}

const fn group(code_point: u16, name: &'static str, aliases: &'static [&'static str]) -> Named {
    Named { code_point, name, aliases, newest_version: TlsVersion::V1_3 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_name_and_no_code_point_stands_for_two_things() {
        for table in [SUITES, GROUPS] {
            let names = || table.iter().flat_map(|named| named.aliases.iter().chain([&named.name]));
            let distinct: HashSet<_> = names().map(|name| name.to_lowercase()).collect();
            assert_eq!(distinct.len(), names().count());
            let code_points: HashSet<_> = table.iter().map(|named| named.code_point).collect();
            assert_eq!(code_points.len(), table.len());
        }
    }
}
