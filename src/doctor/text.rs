//! A report as text for a person: the way to each file, what they hold, whether changes would be seen, and what to do.
//!
//! Columns are the same with and without colours. It judges nothing; findings come last, where a terminal shows them.
//! `tests/doctor.rs` reads it.

use std::fmt;
use std::io::{self, Write};

use super::examination::{
    Certificate, Content, Events, Examination, ExaminedFile, Follower, Kind, Pair, Purpose, Replacement, Step,
};
use super::findings::{Finding, Severity, span, who, whose};
use super::{Report, Verdict};
use crate::certs::Rfc3339;

/// Whether the output goes to somebody who sees colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// Letters only.
    #[default]
    Plain,
    /// With the terminal's own colours.
    Coloured,
}

/// What a word means to the eye.
#[derive(Clone, Copy, Debug)]
enum Paint {
    Heading,
    Good,
    Hint,
    Error,
}

/// A text in its colour.
struct Painted<'a>(Style, Paint, &'a str);

impl fmt::Display for Painted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(style, paint, text) = self;
        let code = match (style, paint) {
            (Style::Plain, _) => return f.write_str(text),
            (Style::Coloured, Paint::Heading) => 1,
            (Style::Coloured, Paint::Good) => 32,
            (Style::Coloured, Paint::Hint) => 33,
            (Style::Coloured, Paint::Error) => 31,
        };
        write!(f, "\x1b[{code}m{text}\x1b[0m")
    }
}

/// Writes all of it.
pub(super) fn write(report: &Report, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let examination = &report.examination;
    writeln!(out, "Examined on {} by {}", Rfc3339(examination.examined.0), who(&examination.viewer))?;
    let widths = Widths::of(examination);
    for file in &examination.files {
        write_file(file, &widths, style, out)?;
    }
    write_contents(examination, style, out)?;
    write_events(&examination.events, style, out)?;
    write_findings(report, style, out)
}

/// The columns of the steps.
#[derive(Debug)]
struct Widths {
    owner: usize,
    mount: usize,
}

impl Widths {
    fn of(examination: &Examination) -> Self {
        let steps = || examination.files.iter().flat_map(|file| &file.steps);
        let widest = |width: &dyn Fn(&Step) -> usize| steps().map(width).max().unwrap_or(0);
        Self {
            owner: widest(&|step| owner(step).chars().count()),
            mount: widest(&|step| mount(step).chars().count()),
        }
    }
}

fn owner(step: &Step) -> String {
    step.inode.as_ref().map(|inode| whose(&inode.owner)).unwrap_or_default()
}

fn mount(step: &Step) -> String {
    let Some(inode) = &step.inode else { return String::new() };
    match &inode.mount {
        Some(mount) => format!("{} on {}", mount.filesystem, mount.point),
        None => "unknown".to_owned(),
    }
}

fn write_file(file: &ExaminedFile, widths: &Widths, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let name = match file.purpose {
        Purpose::Certificate => "Certificate",
        Purpose::Key => "Key",
    };
    writeln!(out, "\n{} {}", Painted(style, Paint::Heading, name), file.path)?;
    for step in &file.steps {
        let mode = step.inode.as_ref().map(|inode| inode.mode.to_string()).unwrap_or_default();
        let leads_to = leads_to(step);
        let (owner_width, mount_width) = (widths.owner, widths.mount);
        let (kind, owner, mount) = (kind(step.kind), owner(step), mount(step));
        writeln!(
            out,
            "  {kind:9}  {owner:owner_width$}  {mode:4}  {mount:mount_width$}  {}{leads_to}",
            step.path
        )?;
    }
    let size_bytes =
        file.steps.last().and_then(|step| step.inode.as_ref()).map_or(0, |inode| inode.size_bytes);
    let (paint, read) = match &file.content {
        Content::Read => (Paint::Good, format!("{size_bytes} bytes read")),
        Content::Moving => (Paint::Error, "changed while it was read".to_owned()),
        Content::Unresolved { problem, .. } => (Paint::Error, problem.clone()),
        Content::Forbidden => (Paint::Error, "may not be read".to_owned()),
        Content::TooLarge => (Paint::Error, "too large".to_owned()),
        Content::Failed { problem } => (Paint::Error, problem.clone()),
    };
    writeln!(out, "  {}", Painted(style, paint, &read))?;
    match file.replacement {
        None if file.steps.last().is_some_and(|step| step.kind == Kind::File) => {
            let unknown = "whether a new file in its place would be seen is not known, as the mounts are not";
            writeln!(out, "  {}", Painted(style, Paint::Hint, unknown))
        }
        None => Ok(()),
        Some(Replacement::Seen) => {
            writeln!(out, "  {}", Painted(style, Paint::Good, "a new file in its place would be seen"))
        }
        Some(
            Replacement::SingleFileMount
            | Replacement::SingleFileMountOfDeleted
            | Replacement::OpenFile
            | Replacement::MountOfDeletedDirectory
            | Replacement::MountOfOneGeneration,
        ) => {
            writeln!(out, "  {}", Painted(style, Paint::Error, "a new file in its place would never be seen"))
        }
    }
}

fn leads_to(step: &Step) -> String {
    let follower = match step.followed_by {
        Some(Follower::Kernel) => " (followed by the kernel)",
        Some(Follower::Text) | None => "",
    };
    step.link_text.as_ref().map(|text| format!(" -> {text}{follower}")).unwrap_or_default()
}

fn kind(of: Kind) -> &'static str {
    match of {
        Kind::Directory => "directory",
        Kind::File => "file",
        Kind::Link => "link",
        Kind::Fifo => "fifo",
        Kind::Socket => "socket",
        Kind::Device => "device",
        Kind::Nothing => "nothing",
    }
}

fn write_contents(examination: &Examination, style: Style, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n{}", Painted(style, Paint::Heading, "Content"))?;
    for certificate in &examination.certificates {
        write_certificate(certificate, examination, out)?;
    }
    let (paint, pair) = match examination.pair {
        Pair::Good if examination.certificates.len() > 1 => {
            (Paint::Good, "the key is that of certificate 1, and each certificate is issued by the next")
        }
        Pair::Good => (Paint::Good, "the key is that of certificate 1"),
        Pair::NoSuiteForKey => {
            (Paint::Error, "the key is that of certificate 1, but no cipher suite works with it")
        }
        Pair::Faulty => (Paint::Error, "key and certificates do not belong together"),
        Pair::Unknown => (Paint::Error, "key and certificates can't be compared"),
    };
    writeln!(out, "  {}", Painted(style, paint, pair))
}

fn write_certificate(
    certificate: &Certificate,
    examination: &Examination,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Certificate { position, subject, issuer, serial, names, not_before, not_after, .. } = certificate;
    let now = examination.examined.0;
    let left = if now > not_after.0 {
        format!("over for {}", span(not_after.0, now))
    } else if now < not_before.0 {
        format!("begins in {}", span(now, not_before.0))
    } else {
        format!("{} left", span(now, not_after.0))
    };
    writeln!(out, "  certificate {position}  {subject}, serial {serial}, issued by {issuer}")?;
    writeln!(out, "    valid  {} to {} ({left})", Rfc3339(not_before.0), Rfc3339(not_after.0))?;
    if !names.is_empty() {
        writeln!(out, "    names  {}", names.join(", "))?;
    }
    Ok(())
}

fn write_events(events: &Events, style: Style, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n{}", Painted(style, Paint::Heading, "Events"))?;
    let placed = format!("{} inotify watches placed", events.watches);
    if events.call_for_polling() {
        let polling = format!("{placed}; not every change would be an event");
        writeln!(out, "  {}", Painted(style, Paint::Hint, &polling))?;
    } else {
        writeln!(
            out,
            "  {}",
            Painted(style, Paint::Good, &format!("{placed}; every change would be an event"))
        )?;
    }
    let (limits, used) = (&events.limits, &events.in_use);
    let limit = |limit: Option<u64>| limit.map_or("an unknown number".to_owned(), |limit| limit.to_string());
    writeln!(
        out,
        "  instances  {} seen in use besides those of this look, {} allowed",
        used.instances,
        limit(limits.max_user_instances)
    )?;
    writeln!(
        out,
        "  watches    {} seen in use besides those of this look, {} allowed",
        used.watches,
        limit(limits.max_user_watches)
    )?;
    writeln!(out, "  queue      {} events at most", limit(limits.max_queued_events))?;
    if used.processes_hidden > 0 {
        writeln!(
            out,
            "  {} processes of this user can't be looked into: more may be in use",
            used.processes_hidden
        )?;
    }
    Ok(())
}

fn write_findings(report: &Report, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let count = |severity| report.findings.iter().filter(|finding| finding.severity == severity).count();
    let (errors, hints) = (count(Severity::Error), count(Severity::Hint));
    let counted = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let (paint, verdict) = match report.verdict {
        Verdict::Well if hints == 0 => (Paint::Good, "All is well".to_owned()),
        Verdict::Well => (Paint::Good, format!("All is well, with {}", counted(hints, "hint"))),
        Verdict::Ill if hints == 0 => (Paint::Error, counted(errors, "error")),
        Verdict::Ill => {
            (Paint::Error, format!("{} and {}", counted(errors, "error"), counted(hints, "hint")))
        }
    };
    writeln!(out, "\n{}", Painted(style, paint, &verdict))?;
    report.findings.iter().try_for_each(|finding| write_finding(finding, style, out))
}

fn write_finding(finding: &Finding, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let severity = match finding.severity {
        Severity::Error => Painted(style, Paint::Error, "error"),
        Severity::Hint => Painted(style, Paint::Hint, "hint "),
    };
    // A problem that is about a place names it itself.
    let path = finding.path.as_ref().filter(|path| !finding.problem.contains(path.as_str()));
    let path = path.map(|path| format!("{path}: ")).unwrap_or_default();
    writeln!(out, "  {severity}  {path}{}", finding.problem)?;
    writeln!(out, "         {}: {}", finding.code, finding.advice)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::super::examination::{Mode, Moment, Owner, QueueLimits, QueueUse, Viewer};
    use super::*;

    fn report() -> Report {
        let owner = Owner { uid: 7, user: None, gid: 8, group: Some("tls".into()) };
        let inode = super::super::examination::Inode {
            owner: owner.clone(),
            mode: Mode(0o1777),
            hard_links: 1,
            size_bytes: 0,
            is_mount_root: false,
            mount: None,
        };
        let step = Step {
            path: "/a".into(),
            kind: Kind::Link,
            link_text: Some("b".into()),
            followed_by: Some(Follower::Text),
            inode: Some(inode),
        };
        let file = ExaminedFile {
            purpose: Purpose::Key,
            path: "/a".into(),
            steps: vec![step],
            content: Content::Forbidden,
            replacement: None,
        };
        Report::new(Examination {
            version: "1",
            examined: Moment(SystemTime::UNIX_EPOCH),
            viewer: Viewer { owner, supplementary_groups: vec![8, 9] },
            has_proc: true,
            files: vec![file],
            certificates: Vec::new(),
            pair: Pair::Unknown,
            faults: Vec::new(),
            useless_versions: Vec::new(),
            expired_allowed: false,
            events: Events {
                watches: 3,
                obstacles: Vec::new(),
                limits: QueueLimits { max_user_instances: Some(1), ..QueueLimits::default() },
                in_use: QueueUse { instances: 1, watches: 2, processes_hidden: 0 },
            },
        })
    }

    fn written(style: Style) -> String {
        let mut out = Vec::new();
        write(&report(), style, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_is_unknown_or_without_a_name_leaves_no_hole() {
        let text = written(Style::Plain);
        for line in [
            "Examined on 1970-01-01T00:00:00Z by uid 7, gid 8 (tls), groups 9",
            "  link       7:8(tls)  1777  unknown  /a -> b",
            "  instances  1 seen in use besides those of this look, 1 allowed",
            "  watches    2 seen in use besides those of this look, an unknown number allowed",
            "1 error and 1 hint",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }

    #[test]
    fn colours_change_nothing_but_colours() {
        let coloured = written(Style::Coloured);
        let mut bare = String::new();
        for part in coloured.split("\x1b[") {
            bare.push_str(
                part.split_once('m')
                    .filter(|(code, _)| code.parse::<u8>().is_ok())
                    .map_or(part, |(_, rest)| rest),
            );
        }
        assert_ne!(coloured, bare);
        assert_eq!(bare, written(Style::Plain));
    }
}
