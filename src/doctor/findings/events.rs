//! What stands between a change and an event about it.
//!
//! All of it are hints: where events can't be relied on, the files are looked at every few seconds. The test below shows
//! the limits; `tests/doctor.rs` directories that may not be watched.

use super::{Finding, Severity, who};
use crate::doctor::examination::{Content, Events, Examination};
use crate::printable::printable;
use crate::watch::Reason;

pub(super) fn findings(examination: &Examination) -> Vec<Finding> {
    let obstacles = examination.events.obstacles.iter().filter(|reason| !told_elsewhere(reason, examination));
    let mut found: Vec<Finding> = obstacles.map(|reason| obstacle(reason, examination)).collect();
    found.extend(nearly_used(&examination.events));
    found
}

/// A file or directory that may not be read is an error by itself, and a mounted file another.
fn told_elsewhere(reason: &Reason, examination: &Examination) -> bool {
    match reason {
        Reason::Pinned(_) => true,
        Reason::Unwatchable(_) if !examination.has_proc => true,
        Reason::Unwatchable(path) => examination.files.iter().any(|file| {
            let is_unread = !matches!(file.content, Content::Read | Content::Moving);
            let mut blamed = file.steps.iter().rev().filter(|step| step.inode.is_some());
            is_unread && blamed.next().is_some_and(|step| step.path == printable(path))
        }),
        Reason::NoQueue
        | Reason::NoRoom
        | Reason::Remote(..)
        | Reason::Failing(_)
        | Reason::TooDeep(_)
        | Reason::TooMany
        | Reason::ResolvesElsewhere(_)
        | Reason::Missed => false,
    }
}

fn obstacle(reason: &Reason, examination: &Examination) -> Finding {
    let seen = examination.events.in_use;
    let who = who(&examination.viewer);
    let (code, path, advice) = match reason {
        Reason::NoQueue => (
            "no_inotify_instance",
            None,
            format!(
                "raise fs.inotify.max_user_instances, or find out who holds them: {} are seen in use by this user",
                seen.instances
            ),
        ),
        Reason::NoRoom => (
            "no_inotify_watch",
            None,
            format!(
                "raise fs.inotify.max_user_watches, or find out who holds them: {} are seen in use by this user",
                seen.watches
            ),
        ),
        Reason::Unwatchable(path) => (
            "unwatchable",
            Some(path),
            format!("let {who} read it, as watching needs, for example chmod g+r"),
        ),
        Reason::Remote(path, _) => {
            ("remote_filesystem", Some(path), "put the files on a file system of this machine".to_owned())
        }
        Reason::Failing(path) => {
            ("look_up_failing", Some(path), "see whether the file system there answers".to_owned())
        }
        Reason::TooDeep(path) => {
            ("path_too_deep", Some(path), "write a path with fewer directories and links".to_owned())
        }
        Reason::TooMany => {
            ("too_many_watches", None, "write paths with fewer directories and links".to_owned())
        }
        Reason::ResolvesElsewhere(path) => (
            "resolved_elsewhere",
            Some(path),
            "write a path that does not go through an automount".to_owned(),
        ),
        Reason::Missed | Reason::Pinned(_) => ("events_missed", None, "run this again".to_owned()),
    };
    let advice = format!("{advice}; until then changes are found by looking every few seconds");
    let finding = Finding::new(Severity::Hint, code, reason.to_string(), advice);
    match path {
        Some(path) => finding.at(printable(path)),
        None => finding,
    }
}

/// Limits of which nine tenths are taken: the next process may get none.
fn nearly_used(events: &Events) -> Vec<Finding> {
    let rows = [
        ("fs.inotify.max_user_instances", events.limits.max_user_instances, events.in_use.instances),
        ("fs.inotify.max_user_watches", events.limits.max_user_watches, events.in_use.watches),
    ];
    let is_scarce = |limit: u64, used: u64| used >= limit - limit / 10;
    let scarce = rows.into_iter().filter_map(|(name, limit, used)| {
        let limit = limit.filter(|limit| is_scarce(*limit, used))?;
        let problem = format!("{used} of the {limit} that {name} allows this user are in use");
        Some(Finding::new(Severity::Hint, "inotify_nearly_used", problem, format!("raise {name}")))
    });
    scarce.collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::examination::{QueueLimits, QueueUse};
    use super::*;

    #[test]
    fn a_limit_is_named_when_nine_tenths_of_it_are_taken() {
        for (limit, used, scarce) in [
            (Some(128), 0, false),
            (Some(128), 115, false),
            (Some(128), 116, true),
            (Some(0), 0, true),
            (Some(u64::MAX), 1 << 40, false),
            (None, 1 << 40, false),
        ] {
            let limits = QueueLimits { max_user_instances: limit, ..QueueLimits::default() };
            let in_use = QueueUse { instances: used, ..QueueUse::default() };
            let events = Events { watches: 0, obstacles: Vec::new(), limits, in_use };
            let found = nearly_used(&events);
            assert_eq!(found.len(), usize::from(scarce), "{limit:?} {used}");
            assert!(found.iter().all(|finding| finding.advice.contains("max_user_instances")));
        }
    }
}
