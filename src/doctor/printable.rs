//! Bytes that come from the file system as text that can't draw over a terminal. The table below shows it.

/// The text with control characters, and bytes that are not UTF-8, as escapes. Backslashes stay as they are: paths are
/// for people here, not to be read back.
pub(super) fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_control() {
                text.extend(character.escape_default());
            } else {
                text.push(character);
            }
        }
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        for (bytes, text) in [
            (&b"/etc/tls"[..], "/etc/tls"),
            ("/é \\ \"".as_bytes(), "/é \\ \""),
            (b"/a\x1b[2J\n", "/a\\u{1b}[2J\\n"),
            (b"/\xff\xc3", "/\\xff\\xc3"),
        ] {
            assert_eq!(printable(bytes), text);
        }
    }
}
