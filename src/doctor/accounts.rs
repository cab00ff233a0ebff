//! Names of users and groups, from the texts of `/etc/passwd` and `/etc/group`.
//!
//! It does not read the files and asks no directory service: the image of a container often has neither, and a number
//! without a name is good enough. The table below shows it.

use std::collections::BTreeMap;

use super::examination::Owner;
use crate::printable::printable;

/// Who is called what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Accounts {
    users: BTreeMap<u32, String>,
    groups: BTreeMap<u32, String>,
}

impl Accounts {
    /// From the texts of both files; empty texts know nobody.
    #[must_use]
    pub(super) fn parse(passwd: &[u8], group: &[u8]) -> Self {
        Self { users: names(passwd), groups: names(group) }
    }

    /// A user and a group with the names that are known.
    #[must_use]
    pub(super) fn owner(&self, uid: u32, gid: u32) -> Owner {
        Owner { uid, user: self.users.get(&uid).cloned(), gid, group: self.groups.get(&gid).cloned() }
    }
}

/// Both files begin their lines with `name:password:number`. The first name of a number counts, as for the C library.
fn names(text: &[u8]) -> BTreeMap<u32, String> {
    let mut names = BTreeMap::new();
    for line in text.split(|byte| *byte == b'\n') {
        let mut fields = line.split(|byte| *byte == b':');
        let (Some(name), Some(_), Some(number)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let number = std::str::from_utf8(number).ok().and_then(|number| number.parse().ok());
        if let Some(number) = number.filter(|_| !name.is_empty() && !name.starts_with(b"#")) {
            names.entry(number).or_insert_with(|| printable(name));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_name_of_a_number_counts_and_broken_lines_do_not() {
        let passwd = b"root:x:0:0:root:/root:/bin/sh\ntoor:x:0:0\n\nbad\n:x:1:1\n#off:x:2:2\nx:x:-3:\n\
            big:x:4294967296:\nna\x1bme:x:5:5:\n";
        let accounts = Accounts::parse(passwd, b"wheel:*:0:\ntls:x:1000:web,root");
        let owner = |uid, user: Option<&str>, gid, group: Option<&str>| Owner {
            uid,
            user: user.map(str::to_owned),
            gid,
            group: group.map(str::to_owned),
        };
        assert_eq!(accounts.owner(0, 1000), owner(0, Some("root"), 1000, Some("tls")));
        assert_eq!(accounts.owner(5, 0), owner(5, Some("na\\u{1b}me"), 0, Some("wheel")));
        for uid in [1, 2, 3, 4] {
            assert_eq!(accounts.owner(uid, 7), owner(uid, None, 7, None));
        }
        assert_eq!(Accounts::parse(b"", b""), Accounts::default());
    }
}
