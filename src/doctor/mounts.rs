//! The mounts of a process, from the text of `/proc/self/mountinfo`.
//!
//! It does not read the file, and takes nothing in it for granted: a line that is not understood is left out. The
//! tables below show it.

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    /// Its number, as statx(2) tells it.
    pub(super) id: u64,
    /// Which part of its file system is mounted; ends in `//deleted` when that has been removed.
    pub(super) root: Vec<u8>,
    /// Where, as seen from the process's root.
    pub(super) point: Vec<u8>,
    /// The type of file system.
    pub(super) filesystem: Vec<u8>,
}

/// All mounts of a text, in its order.
#[must_use]
pub(super) fn parse(text: &[u8]) -> Vec<Mount> {
    text.split(|byte| *byte == b'\n').filter_map(line).collect()
}

/// `id parent device root point options [optional]... - type source options`
fn line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let mut fields = fields.skip(2);
    let (root, point) = (fields.next()?, fields.next()?);
    let filesystem = fields.skip(1).skip_while(|field| *field != b"-").nth(1)?;
    if root.is_empty() || !point.starts_with(b"/") || filesystem.is_empty() {
        return None;
    }
    Some(Mount { id, root: unescaped(root), point: unescaped(point), filesystem: unescaped(filesystem) })
}

/// The kernel writes blanks and backslashes as a backslash and three octal digits.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [byte, after @ ..] = rest {
        rest = after;
        match (byte, after) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', beyond @ ..]) => {
                plain.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = beyond;
            }
            _ => plain.push(*byte),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(id: u64, root: &str, point: &str, filesystem: &str) -> Mount {
        let bytes = |text: &str| text.as_bytes().to_vec();
        Mount { id, root: bytes(root), point: bytes(point), filesystem: bytes(filesystem) }
    }

    #[test]
    fn each_line_is_a_mount() {
        let text = b"22 27 0:21 / /proc rw,relatime - proc proc rw\n\
            36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n\
            401 27 0:51 /..2026_11/tls.crt//deleted /etc/tls.crt ro shared:7 master:1 propagate_from:2 - tmpfs tmpfs rw\n\
            402 27 0:52 / /a\\040b\\011\\012\\134x rw - fuse.sshfs a:\\040b rw\n\
            403 27 0:4 net:[4026532] /run/netns/x rw - nsfs nsfs rw\n\
            404 27 0:53 / /empty rw - tmpfs  rw\n";
        let expected = [
            mount(22, "/", "/proc", "proc"),
            mount(36, "/mnt1", "/mnt2", "ext3"),
            mount(401, "/..2026_11/tls.crt//deleted", "/etc/tls.crt", "tmpfs"),
            mount(402, "/", "/a b\t\n\\x", "fuse.sshfs"),
            mount(403, "net:[4026532]", "/run/netns/x", "nsfs"),
            mount(404, "/", "/empty", "tmpfs"),
        ];
        assert_eq!(parse(text), expected);
    }

    #[test]
    fn a_line_that_is_not_understood_does_not_hide_the_others() {
        let good = "22 27 0:21 / /proc rw - proc proc rw";
        for bad in [
            "",
            "22",
            "-1 27 0:21 / /proc rw - proc proc rw",
            "99999999999999999999 27 0:21 / /proc rw - proc proc rw",
            "22 27 0:21 / relative rw - proc proc rw",
            "22 27 0:21 / /proc rw",
            "22 27 0:21 / /proc rw -",
            "22 27 0:21 / /proc rw - ",
            "\u{fffd} 27 0:21 / /proc rw - proc proc rw",
        ] {
            let text = format!("{bad}\n{good}\n{bad}");
            assert_eq!(parse(text.as_bytes()), [mount(22, "/", "/proc", "proc")], "{bad:?}");
        }
    }

    #[test]
    fn a_backslash_that_escapes_nothing_stays() {
        for (escaped, plain) in [
            (&b"\\040"[..], &b" "[..]),
            (b"\\", b"\\"),
            (b"\\04", b"\\04"),
            (b"\\400", b"\\400"),
            (b"\\08x", b"\\08x"),
            (b"\\377\\134040", b"\xff\\040"),
            (b"\\\\040", b"\\ "),
        ] {
            assert_eq!(unescaped(escaped), plain, "{escaped:?}");
        }
    }
}
