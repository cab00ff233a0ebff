//! What is wrong with an examination, or could be better, each with what to do about it.
//!
//! Functions of the data: nothing is looked at again. An *error* means that the pair can't be served, that clients will
//! refuse it, or that a rotation of it would never be seen. A *hint* is everything that works and has a weakness; hints
//! alone leave the verdict good, because what they tell of is often meant to be so. The tests beside each file and
//! `tests/doctor.rs` show them.

mod acceptance;
mod contents;
mod events;
mod paths;

use serde::Serialize;

pub(super) use contents::span;

use super::examination::{Examination, Inode, Owner, Viewer};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The pair can't be served, would be refused, or would go stale.
    Error,
    /// It works, and has a weakness.
    Hint,
}

/// One thing that is wrong or could be better.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// A stable word in snake_case.
    pub code: &'static str,
    /// The file or directory it is about, if it is about one.
    pub path: Option<String>,
    /// What is wrong.
    pub problem: String,
    /// What to do.
    pub advice: String,
}

impl Finding {
    fn new(
        severity: Severity,
        code: &'static str,
        problem: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { severity, code, path: None, problem: problem.into(), advice: advice.into() }
    }

    fn at(self, path: impl Into<String>) -> Self {
        Self { path: Some(path.into()), ..self }
    }
}

/// Everything, errors first, each thing once.
#[must_use]
pub fn findings(examination: &Examination) -> Vec<Finding> {
    let mut all: Vec<Finding> = Vec::new();
    let found = [paths::findings, contents::findings, events::findings].into_iter();
    for finding in found.flat_map(|part| part(examination)) {
        if !all.contains(&finding) {
            all.push(finding);
        }
    }
    all.sort_by_key(|finding| finding.severity);
    all
}

/// `uid 65534 (nobody), gid 65534 (nogroup), groups 1000, 1001`
pub(super) fn who(viewer: &Viewer) -> String {
    let named = |name: &Option<String>| name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
    let Owner { uid, user, gid, group } = &viewer.owner;
    let others: Vec<String> =
        viewer.supplementary_groups.iter().filter(|other| *other != gid).map(ToString::to_string).collect();
    let others = if others.is_empty() { String::new() } else { format!(", groups {}", others.join(", ")) };
    format!("uid {uid}{}, gid {gid}{}{others}", named(user), named(group))
}

/// `0(root):1000`
pub(super) fn whose(owner: &Owner) -> String {
    let named = |name: &Option<String>| name.as_ref().map(|name| format!("({name})")).unwrap_or_default();
    format!("{}{}:{}{}", owner.uid, named(&owner.user), owner.gid, named(&owner.group))
}

/// `owner 0(root):1000, mode 0640`
fn rights(inode: &Inode) -> String {
    format!("owner {}, mode {}", whose(&inode.owner), inode.mode)
}
