//! Where the blocks of a PEM file lie, and whether the file can be a finished one.
//!
//! Readers of PEM are lenient: a file that is cut between two lines, or that lost one newline, often still reads as a
//! shorter chain. This scanner refuses everything that a finished file does not show:
//!
//! - each BEGIN line has its END line with the same label, and both stand alone on their lines;
//! - no zero bytes, no more than [`FILE_LIMIT_BYTES`] bytes and [`CERTIFICATE_LIMIT`] certificates;
//! - what stands between BEGIN and END of a certificate or a key is base64.
//!
//! A file cut exactly between two blocks stays a good file: only waiting for the writer to be done tells the two apart,
//! and that is not done here. Text between blocks, a byte order mark, CRLF and trailing blanks are fine.
//! Blocks of other kinds (`EC PARAMETERS`, `DH PARAMETERS`, `X509 CRL`, ...) need their END and are ignored.
//! Decoding is rustls' part. The tests below cut a file at every byte.

use super::{Fault, File, Part, Problem};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};

/// The largest file that is read as PEM, in bytes.
pub const FILE_LIMIT_BYTES: usize = 1 << 20;

/// The most certificates in one file.
pub const CERTIFICATE_LIMIT: usize = 64;

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"-----END ";
const DASHES: &[u8] = b"-----";
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What a block holds, by its label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An X.509 certificate.
    Certificate,
    /// Certificates in a format that rustls does not read.
    ForeignCertificate,
    /// A private key in PKCS#8, PKCS#1 or SEC1.
    Key,
    /// A private key that needs a passphrase.
    EncryptedKey,
    /// A private key in a format that rustls does not read.
    ForeignKey,
    /// Anything else.
    Other,
}

impl Kind {
    fn of(label: &[u8]) -> Self {
        match label {
            b"CERTIFICATE" => Self::Certificate,
            b"X509 CERTIFICATE" | b"TRUSTED CERTIFICATE" | b"PKCS7" | b"PKCS #7 SIGNED DATA" | b"CMS" => {
                Self::ForeignCertificate
            }
            b"PRIVATE KEY" | b"RSA PRIVATE KEY" | b"EC PRIVATE KEY" => Self::Key,
            b"ENCRYPTED PRIVATE KEY" => Self::EncryptedKey,
            _ if label.ends_with(b"PRIVATE KEY") => Self::ForeignKey,
            _ => Self::Other,
        }
    }

    pub(super) const fn is_certificate(self) -> bool {
        matches!(self, Self::Certificate | Self::ForeignCertificate)
    }

    pub(super) const fn is_key(self) -> bool {
        matches!(self, Self::Key | Self::EncryptedKey | Self::ForeignKey)
    }
}

/// One block, from its BEGIN line to its END line.
#[derive(Clone, Copy)]
pub(super) struct Block<'a> {
    pub(super) kind: Kind,
    text: &'a [u8],
}

impl Block<'_> {
    /// The bytes of a certificate, if the block holds one. They may not be X.509 yet.
    pub(super) fn certificate(&self) -> Option<CertificateDer<'static>> {
        CertificateDer::from_pem_slice(self.text).ok()
    }

    /// The bytes of a private key, if the block holds one. The caller sees to it that they are wiped.
    pub(super) fn key(&self) -> Option<PrivateKeyDer<'static>> {
        PrivateKeyDer::from_pem_slice(self.text).ok()
    }
}

/// Finds the blocks of a file.
///
/// # Errors
/// The first thing a finished PEM file would not show.
pub(super) fn scan(file: File, bytes: &[u8]) -> Result<Vec<Block<'_>>, Fault> {
    let text = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    check_whole(text).map_err(|problem| Fault::new(file, Part::Whole, problem))?;
    let mut scanner = Scanner { file, text, blocks: Vec::new(), certificates: 0, keys: 0, open: None };
    let mut start = 0;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let end = start + line.len();
        scanner.read_line(Line::new(line), start, end)?;
        start = end;
    }
    scanner.finish()
}

fn check_whole(text: &[u8]) -> Result<(), Problem> {
    if text.len() > FILE_LIMIT_BYTES {
        return Err(Problem::TooLarge);
    }
    if text.trim_ascii().is_empty() {
        return Err(Problem::Empty);
    }
    // A DER sequence with a long length: no text begins like this, and few such files are free of zero bytes.
    if let [0x30, 0x80..=0x84, ..] = text {
        return Err(Problem::NotPem);
    }
    if text.contains(&0) { Err(Problem::NulByte) } else { Ok(()) }
}

/// A line without its end.
struct Line<'a> {
    text: &'a [u8],
    end: LineEnd,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LineEnd {
    Newline,
    /// The last line of an input that does not end with a newline: perhaps only half of it was written.
    Input,
}

enum Marker<'a> {
    None,
    Begin(&'a [u8]),
    End(&'a [u8]),
    Malformed,
}

impl<'a> Line<'a> {
    fn new(line: &'a [u8]) -> Self {
        let end = if line.ends_with(b"\n") { LineEnd::Newline } else { LineEnd::Input };
        let mut text = line;
        while let [rest @ .., b'\n' | b'\r' | b' '] = text {
            text = rest;
        }
        Self { text, end }
    }

    fn marker(&self) -> Marker<'a> {
        let label = |rest: &'a [u8]| rest.strip_suffix(DASHES).filter(|label| is_label(label));
        if let Some(rest) = self.text.strip_prefix(BEGIN) {
            label(rest).map_or(Marker::Malformed, Marker::Begin)
        } else if let Some(rest) = self.text.strip_prefix(END) {
            label(rest).map_or(Marker::Malformed, Marker::End)
        } else if contains(self.text, BEGIN) || contains(self.text, END) {
            Marker::Malformed
        } else {
            Marker::None
        }
    }

    /// Somebody's note, perhaps a block that was taken out of use.
    fn is_comment(&self) -> bool {
        self.text.trim_ascii_start().starts_with(b"#")
    }

    /// Ends where a BEGIN line may have been meant to go on.
    fn is_cut_begin(&self) -> bool {
        self.end == LineEnd::Input && !self.text.is_empty() && BEGIN.starts_with(self.text)
    }

    fn is_base64(&self) -> bool {
        let base64 =
            |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b' ' | b'\t');
        self.text.iter().all(base64)
    }
}

fn is_label(label: &[u8]) -> bool {
    !label.is_empty() && !contains(label, b"--") && label.iter().all(|byte| matches!(byte, b' '..=b'~'))
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

struct Open<'a> {
    kind: Kind,
    label: &'a [u8],
    start: usize,
}

struct Scanner<'a> {
    file: File,
    text: &'a [u8],
    blocks: Vec<Block<'a>>,
    certificates: usize,
    keys: usize,
    open: Option<Open<'a>>,
}

impl<'a> Scanner<'a> {
    fn read_line(&mut self, line: Line<'a>, start: usize, end: usize) -> Result<(), Fault> {
        match self.open.take() {
            Some(open) => self.read_inside(open, &line, end),
            None => self.read_between(&line, start),
        }
    }

    fn read_between(&mut self, line: &Line<'a>, start: usize) -> Result<(), Fault> {
        let fault = |scanner: &Self, problem| Err(scanner.fault(Kind::Other, problem));
        match line.marker() {
            _ if line.is_comment() => Ok(()),
            _ if line.is_cut_begin() => fault(self, Problem::MissingEnd),
            Marker::None => Ok(()),
            Marker::Begin(label) => {
                self.open = Some(Open { kind: Kind::of(label), label, start });
                Ok(())
            }
            Marker::Malformed if line.end == LineEnd::Input => fault(self, Problem::MissingEnd),
            Marker::Malformed => fault(self, Problem::MalformedMarker),
            Marker::End(_) => fault(self, Problem::UnexpectedEnd),
        }
    }

    fn read_inside(&mut self, mut open: Open<'a>, line: &Line<'a>, end: usize) -> Result<(), Fault> {
        let fault = |scanner: &Self, problem| Err(scanner.fault(open.kind, problem));
        match line.marker() {
            Marker::End(label) if label == open.label => return self.close(&open, end),
            _ if line.end == LineEnd::Input => return fault(self, Problem::MissingEnd),
            Marker::Begin(_) => return fault(self, Problem::MissingEnd),
            Marker::End(_) => return fault(self, Problem::UnexpectedEnd),
            Marker::Malformed => return fault(self, Problem::MalformedMarker),
            Marker::None => {}
        }
        match open.kind {
            Kind::Key if is_encryption_header(line.text) => open.kind = Kind::EncryptedKey,
            Kind::Certificate | Kind::Key if !line.is_base64() => return fault(self, Problem::NotBase64),
            Kind::Certificate | Kind::Key => {}
            // What is not decoded may hold headers of its own.
            Kind::ForeignCertificate | Kind::EncryptedKey | Kind::ForeignKey | Kind::Other => {}
        }
        self.open = Some(open);
        Ok(())
    }

    fn close(&mut self, open: &Open<'a>, end: usize) -> Result<(), Fault> {
        let text = self.text.get(open.start..end).unwrap_or_default();
        self.blocks.push(Block { kind: open.kind, text });
        self.certificates += usize::from(open.kind.is_certificate());
        self.keys += usize::from(open.kind.is_key());
        if self.certificates > CERTIFICATE_LIMIT {
            return Err(Fault::new(self.file, Part::Whole, Problem::TooManyCertificates));
        }
        Ok(())
    }

    fn finish(self) -> Result<Vec<Block<'a>>, Fault> {
        match &self.open {
            Some(open) => Err(self.fault(open.kind, Problem::MissingEnd)),
            None => Ok(self.blocks),
        }
    }

    /// A fault in the block that follows the finished ones.
    fn fault(&self, kind: Kind, problem: Problem) -> Fault {
        let part = match kind {
            Kind::Certificate | Kind::ForeignCertificate => Part::Certificate(self.certificates + 1),
            Kind::Key | Kind::EncryptedKey | Kind::ForeignKey if self.keys == 0 => Part::Key,
            Kind::Key | Kind::EncryptedKey | Kind::ForeignKey => Part::KeyOf(self.keys + 1),
            Kind::Other => Part::Block(self.blocks.len() + 1),
        };
        Fault::new(self.file, part, problem)
    }
}

/// The header by which old OpenSSL formats say that a key is encrypted.
fn is_encryption_header(line: &[u8]) -> bool {
    line.starts_with(b"Proc-Type:") && contains(line, b"ENCRYPTED")
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Leaf, Pair, crlf};
    use super::*;
    use proptest::prelude::*;

    fn kinds(text: &str) -> Vec<Kind> {
        scan(File::Certificate, text.as_bytes()).unwrap().iter().map(|block| block.kind).collect()
    }

    fn fault(text: impl AsRef<[u8]>) -> (Part, Problem) {
        match scan(File::Certificate, text.as_ref()) {
            Ok(blocks) => panic!("{} blocks instead of a fault", blocks.len()),
            Err(fault) => (fault.part, fault.problem),
        }
    }

    #[test]
    fn a_file_cut_anywhere_but_between_blocks_is_a_fault() {
        let pair = Pair::new(&Leaf::default());
        let plain = pair.chain();
        let headed = format!("subject=CN = leaf\n{}issuer=CN = root\n\n{}", pair.leaf, pair.intermediate);
        for (file, blocks) in [(plain.clone(), 3), (crlf(&plain), 3), (headed, 2)] {
            let mut by_count = vec![0; blocks + 1];
            for cut in 0..=file.len() {
                let prefix = &file[..cut];
                let Ok(found) = scan(File::Certificate, prefix.as_bytes()) else { continue };
                // Here only time tells a finished file from one whose writer goes on.
                let whole = prefix.matches("-----END CERTIFICATE-----").count();
                assert_eq!(found.len(), whole, "cut at {cut}");
                let begun = prefix.matches("-----BEGIN").count();
                assert_eq!(begun, whole, "cut at {cut}");
                let rest = prefix.rsplit("-----END CERTIFICATE-----").next().unwrap();
                assert!(whole == 0 || !rest.contains("--"), "cut at {cut} leaves {rest:?}");
                by_count[whole] += 1;
            }
            assert!(by_count[1..].iter().all(|cuts| *cuts >= 2), "{by_count:?}");
        }
    }

    #[test]
    fn a_cut_file_with_nothing_between_its_blocks_is_good_only_around_line_ends() {
        let chain = Pair::new(&Leaf::default()).chain();
        let good = (0..=chain.len()).filter(|cut| scan(File::Certificate, &chain.as_bytes()[..*cut]).is_ok());
        // Before and after the newline that follows each END.
        assert_eq!(good.count(), 6);
    }

    #[test]
    fn a_cut_names_the_certificate_it_went_through() {
        let pair = Pair::new(&Leaf::default());
        let chain = pair.chain();
        let inside_second = pair.leaf.len() + 100;
        assert_eq!(fault(&chain[..inside_second]), (Part::Certificate(2), Problem::MissingEnd));
        let before_newline = pair.leaf.len() + pair.intermediate.len() - 3;
        assert_eq!(fault(&chain[..before_newline]), (Part::Certificate(2), Problem::MissingEnd));
        assert_eq!(fault(format!("{}-----BEG", pair.leaf)), (Part::Block(2), Problem::MissingEnd));
        assert_eq!(fault(format!("{}-----BEGIN CERTI", pair.leaf)), (Part::Block(2), Problem::MissingEnd));
    }

    #[test]
    fn text_line_ends_and_blanks_around_blocks_do_not_matter() {
        let pair = Pair::new(&Leaf::default());
        let three = [Kind::Certificate, Kind::Certificate, Kind::Key];
        let blocks = [&*pair.leaf, &pair.intermediate, &pair.key];
        let plain = blocks.concat();
        assert_eq!(kinds(&plain), three);
        assert_eq!(kinds(&crlf(&plain)), three);
        assert_eq!(kinds(&format!("\u{feff}{plain}")), three);
        assert_eq!(kinds(plain.trim_end()), three);
        assert_eq!(kinds(&plain.replace("-----\n", "-----  \n")), three);
        assert_eq!(kinds(&format!("\n\n{plain}\n  \n\t\n")), three);
        let text =
            "Certificate:\n    Data:\n        Version: 3 (0x2)\n-----\nBag Attributes\n  friendlyName: x\n";
        assert_eq!(kinds(&format!("{text}{}", blocks.join(text))), three);
        assert_eq!(kinds(&format!("{plain}# -----BEGIN CERTIFICATE-----\n# MIIB\n")), three);
    }

    #[test]
    fn what_no_finished_file_shows_is_a_fault() {
        let pair = Pair::new(&Leaf::default());
        let (leaf, key) = (&pair.leaf, &pair.key);
        let whole = |problem| (Part::Whole, problem);
        let second = |problem| (Part::Certificate(2), problem);
        assert_eq!(fault(""), whole(Problem::Empty));
        assert_eq!(fault("\n \r\n"), whole(Problem::Empty));
        assert_eq!(fault(format!("{leaf}\0\0\0")), whole(Problem::NulByte));
        assert_eq!(fault(leaf.replacen('M', "\0", 1)), whole(Problem::NulByte));
        assert_eq!(fault([0x30, 0x82, 0x03, 0x11, 0x30]), whole(Problem::NotPem));
        assert_eq!(fault("#".repeat(FILE_LIMIT_BYTES + 1)), whole(Problem::TooLarge));
        assert_eq!(fault(leaf.repeat(CERTIFICATE_LIMIT + 1)), whole(Problem::TooManyCertificates));
        assert_eq!(kinds(&leaf.repeat(CERTIFICATE_LIMIT)).len(), CERTIFICATE_LIMIT);

        let nested = format!("{leaf}-----BEGIN CERTIFICATE-----\nMIIB\n{leaf}");
        assert_eq!(fault(nested), second(Problem::MissingEnd));
        let joined = format!("{}{leaf}", leaf.trim_end());
        assert_eq!(fault(joined), (Part::Certificate(1), Problem::MalformedMarker));
        let other_end = format!("{leaf}{}", leaf.replace("END CERTIFICATE", "END PRIVATE KEY"));
        assert_eq!(fault(other_end), second(Problem::UnexpectedEnd));
        assert_eq!(
            fault(format!("{leaf}-----END CERTIFICATE-----\n")),
            (Part::Block(2), Problem::UnexpectedEnd)
        );
        let block = |problem| (Part::Block(1), problem);
        assert_eq!(fault(format!("  {leaf}")), block(Problem::MalformedMarker));
        assert_eq!(fault(format!("some text{leaf}")), block(Problem::MalformedMarker));
        assert_eq!(fault(format!("-----BEGIN CERTIFICATE----\n{leaf}")), block(Problem::MalformedMarker));
        assert_eq!(
            fault(format!("{leaf}{}", leaf.replacen("\nMII", "\nM*I", 1))),
            second(Problem::NotBase64)
        );
        assert_eq!(fault(format!("{key}{}", &key[..60])), (Part::KeyOf(2), Problem::MissingEnd));
        assert_eq!(fault(&key[..60]), (Part::Key, Problem::MissingEnd));
    }

    #[test]
    fn labels_and_headers_tell_what_a_block_is() {
        let block =
            |label: &str, body: &str| format!("-----BEGIN {label}-----\n{body}-----END {label}-----\n");
        let encrypted = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n";
        for (label, body, kind) in [
            ("CERTIFICATE", "AAAA\n", Kind::Certificate),
            ("TRUSTED CERTIFICATE", "AAAA\n", Kind::ForeignCertificate),
            ("PKCS7", "AAAA\n", Kind::ForeignCertificate),
            ("PRIVATE KEY", "AAAA\n", Kind::Key),
            ("RSA PRIVATE KEY", "AAAA\n", Kind::Key),
            ("EC PRIVATE KEY", "AAAA\n", Kind::Key),
            ("RSA PRIVATE KEY", encrypted, Kind::EncryptedKey),
            ("ENCRYPTED PRIVATE KEY", "AAAA\n", Kind::EncryptedKey),
            ("OPENSSH PRIVATE KEY", "AAAA\n", Kind::ForeignKey),
            ("EC PARAMETERS", "AAAA\n", Kind::Other),
            ("CERTIFICATE REQUEST", "AAAA\n", Kind::Other),
        ] {
            assert_eq!(kinds(&block(label, body)), [kind], "{label}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_can_panic_it(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            let _ = scan(File::Key, &bytes);
        }

        #[test]
        fn no_shuffle_of_the_telling_parts_can_panic_it(parts in prop::collection::vec(0..PARTS.len(), 0..24)) {
            let text: String = parts.iter().map(|part| PARTS[*part]).collect();
            for block in scan(File::Key, text.as_bytes()).unwrap_or_default() {
                let _ = (block.certificate(), block.key().is_some());
            }
        }
    }

    const PARTS: [&str; 14] = [
        "-----BEGIN ",
        "-----END ",
        "CERTIFICATE",
        "PRIVATE KEY",
        "-----",
        "-",
        "\n",
        "\r\n",
        "\r",
        "AAAA",
        "=",
        ":",
        " ",
        "Proc-Type: 4,ENCRYPTED",
    ];
}
