//! Text and bytes from outside as text that a person can read and that can't pretend to be something else.
//!
//! Names of files, of certificates and of users end in logs, reports and pages. There a line break would begin a line of
//! the writer's own making, an escape character would draw over the terminal, and a mark of text direction would show a
//! name in another order than it has. It does not know what a text is about or how long it may be. Shown by the table
//! below.

use std::ffi::OsStr;
use std::fmt::{self, Write as _};
use std::path::Path;

/// Shows bytes with everything escaped that is not UTF-8, that a terminal would obey, that breaks a line, that changes
/// the direction of text, or that can't be seen. Backslashes stay as they are: what is shown is for people, not to be
/// read back.
#[derive(Clone, Copy, Debug)]
pub struct Printable<'a>(pub &'a [u8]);

impl<'a> From<&'a [u8]> for Printable<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }
}

impl<'a> From<&'a Vec<u8>> for Printable<'a> {
    fn from(bytes: &'a Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl<'a> From<&'a str> for Printable<'a> {
    fn from(text: &'a str) -> Self {
        Self(text.as_bytes())
    }
}

impl<'a> From<&'a Path> for Printable<'a> {
    fn from(path: &'a Path) -> Self {
        Self::from(path.as_os_str())
    }
}

impl<'a> From<&'a OsStr> for Printable<'a> {
    fn from(text: &'a OsStr) -> Self {
        Self(text.as_encoded_bytes())
    }
}

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                if is_obeyed(character) {
                    write!(f, "{}", character.escape_default())?;
                } else {
                    f.write_char(character)?;
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

/// The same as a text of its own.
#[must_use]
pub fn printable<'a>(text: impl Into<Printable<'a>>) -> String {
    text.into().to_string()
}

/// Characters that do something rather than being something.
fn is_obeyed(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            // Marks, embeddings, overrides and isolates of direction, and the two other line breaks of Unicode.
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}'
            // Characters without width.
            | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2065}' | '\u{feff}'
            // A second alphabet that is never drawn.
            | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_obeyed_is_escaped_and_the_rest_stays() {
        for (bytes, text) in [
            (&b"/etc/tls"[..], "/etc/tls"),
            ("/é \\ \" 証明書 שלום".as_bytes(), "/é \\ \" 証明書 שלום"),
            (b"", ""),
            (b"/a\x1b[2J\n\r\t\x00\x7f", "/a\\u{1b}[2J\\n\\r\\t\\u{0}\\u{7f}"),
            ("a\u{85}\u{9b}31m".as_bytes(), "a\\u{85}\\u{9b}31m"),
            ("a\u{202e}b\u{2066}c\u{2069}".as_bytes(), "a\\u{202e}b\\u{2066}c\\u{2069}"),
            ("\u{200e}\u{200f}\u{61c}".as_bytes(), "\\u{200e}\\u{200f}\\u{61c}"),
            ("a\u{2028}b\u{2029}c".as_bytes(), "a\\u{2028}b\\u{2029}c"),
            ("a\u{200b}\u{feff}\u{e0041}".as_bytes(), "a\\u{200b}\\u{feff}\\u{e0041}"),
            (b"/\xff\xc3", "/\\xff\\xc3"),
        ] {
            assert_eq!(printable(bytes), text);
        }
        assert_eq!(printable(Path::new("/a\nb")), "/a\\nb");
        assert_eq!(Printable::from("x\u{202e}").to_string(), "x\\u{202e}");
    }

    #[test]
    fn no_mark_of_direction_passes() {
        let marks = ('\u{202a}'..='\u{202e}').chain('\u{2066}'..='\u{2069}').chain('\u{200e}'..='\u{200f}');
        for mark in marks {
            assert!(printable(&*mark.to_string()).is_ascii(), "{}", mark.escape_default());
        }
    }
}
