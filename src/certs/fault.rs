//! Why a pair of files is not a bundle: which file, which part of it, and what is wrong there.
//!
//! Knows no path: whoever read the files puts the path in front. Never carries bytes of a file. The tests of the
//! scanner and of the bundle show each problem; the one below holds the labels.

use std::fmt;

/// The input to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum File {
    /// The file that the chain is read from.
    Certificate,
    /// The file that the private key is read from.
    Key,
    /// Each file is good by itself, but they do not belong together.
    Pair,
}

/// The part of the file to blame. Ordinals count from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The file as a whole.
    Whole,
    /// The n-th certificate.
    Certificate(usize),
    /// The only private key.
    Key,
    /// The n-th private key of several.
    KeyOf(usize),
    /// The n-th block, when it is neither a certificate nor a key.
    Block(usize),
}

/// What is wrong with the part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Problem {
    /// Nothing but blanks, if that.
    Empty,
    /// More bytes than [`super::FILE_LIMIT_BYTES`].
    TooLarge,
    /// A zero byte: a write that was cut, or text in UTF-16.
    NulByte,
    /// Binary (DER, PKCS#12), not text.
    NotPem,
    /// The input ends, or the next block begins, before the END line.
    MissingEnd,
    /// An END line without its BEGIN line, or with another label.
    UnexpectedEnd,
    /// A BEGIN or END line with something before, within or after it that does not belong there.
    MalformedMarker,
    /// The content of a block is not base64.
    NotBase64,
    /// More certificates than [`super::CERTIFICATE_LIMIT`].
    TooManyCertificates,
    /// No certificate in the certificate file.
    NoCertificate,
    /// No private key in the key file.
    NoKey,
    /// More than one private key in the key file.
    SeveralKeys,
    /// The key needs a passphrase.
    EncryptedKey,
    /// A block that holds certificates or a key in a format that is not supported.
    UnsupportedFormat,
    /// Not a certificate, or one that can't be read.
    UnreadableCertificate,
    /// Not a private key of a supported kind.
    UnreadableKey,
    /// The certificate is not issued by the one that follows it.
    NotIssuedByNext,
    /// The key belongs to another certificate.
    KeyMismatch,
    /// The key does not tell its public half, so that nothing shows it belongs to the certificate.
    KeyNotComparable,
}

/// A file pair that can't be served, in words for a log line and in labels for a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fault {
    /// The input to blame.
    pub file: File,
    /// The part of it.
    pub part: Part,
    /// What is wrong there.
    pub problem: Problem,
}

impl Fault {
    pub(super) const fn new(file: File, part: Part, problem: Problem) -> Self {
        Self { file, part, problem }
    }

    /// A stable label in snake_case, one for each [`Problem`].
    pub const fn reason(&self) -> &'static str {
        self.problem.words().0
    }
}

impl Problem {
    /// The label and the sentence of each problem.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Empty => ("empty", "is empty"),
            Self::TooLarge => ("too_large", "is larger than 1 MiB"),
            Self::NulByte => ("nul_byte", "holds a NUL byte (an unfinished write, or not plain text)"),
            Self::NotPem => ("not_pem", "is binary; PEM text is needed"),
            Self::MissingEnd => ("missing_end", "block without its END line"),
            Self::UnexpectedEnd => ("unexpected_end", "END line that closes no block"),
            Self::MalformedMarker => ("malformed_marker", "BEGIN or END does not stand alone on its line"),
            Self::NotBase64 => ("not_base64", "content is not base64"),
            Self::TooManyCertificates => ("too_many_certificates", "holds more than 64 certificates"),
            Self::NoCertificate => ("no_certificate", "holds no certificate"),
            Self::NoKey => ("no_key", "holds no private key"),
            Self::SeveralKeys => ("several_keys", "holds more than one private key"),
            Self::EncryptedKey => ("encrypted_key", "is encrypted; a key without passphrase is needed"),
            Self::UnsupportedFormat => ("unsupported_format", "is in a format that is not supported"),
            Self::UnreadableCertificate => {
                ("unreadable_certificate", "can't be read as an X.509 certificate")
            }
            Self::UnreadableKey => ("unreadable_key", "can't be read as an RSA, ECDSA or Ed25519 key"),
            Self::NotIssuedByNext => ("not_issued_by_next", "is not issued by the certificate after it"),
            Self::KeyMismatch => ("key_mismatch", "does not match the leaf certificate"),
            Self::KeyNotComparable => ("key_not_comparable", "can't be compared with the leaf certificate"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.part, self.problem)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words().1)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => write!(f, "file"),
            Self::Certificate(n) => write!(f, "certificate {n}"),
            Self::Key => write!(f, "private key"),
            Self::KeyOf(n) => write!(f, "private key {n}"),
            Self::Block(n) => write!(f, "block {n}"),
        }
    }
}

impl std::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::super::{CERTIFICATE_LIMIT, FILE_LIMIT_BYTES};
    use super::*;
    use std::collections::BTreeSet;

    const ALL: [Problem; 19] = [
        Problem::Empty,
        Problem::TooLarge,
        Problem::NulByte,
        Problem::NotPem,
        Problem::MissingEnd,
        Problem::UnexpectedEnd,
        Problem::MalformedMarker,
        Problem::NotBase64,
        Problem::TooManyCertificates,
        Problem::NoCertificate,
        Problem::NoKey,
        Problem::SeveralKeys,
        Problem::EncryptedKey,
        Problem::UnsupportedFormat,
        Problem::UnreadableCertificate,
        Problem::UnreadableKey,
        Problem::NotIssuedByNext,
        Problem::KeyMismatch,
        Problem::KeyNotComparable,
    ];

    #[test]
    fn every_problem_has_a_label_of_its_own_in_snake_case() {
        let labels: BTreeSet<_> = ALL.iter().map(|problem| problem.words().0).collect();
        assert_eq!(labels.len(), ALL.len());
        let is_snake = |label: &&str| label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        assert!(labels.iter().all(is_snake), "{labels:?}");
    }

    #[test]
    fn words_name_the_limits_in_force() {
        let words = |problem: Problem| problem.words().1;
        assert!(words(Problem::TooLarge).contains(&format!("{} MiB", FILE_LIMIT_BYTES >> 20)));
        assert!(words(Problem::TooManyCertificates).contains(&CERTIFICATE_LIMIT.to_string()));
    }
}
