//! `--help` and `docs/configuration.md` are two views of one thing, and the bounds in the document are those of the
//! program.

use std::collections::BTreeSet;

use tlsidecar::config::tls_names::{GROUPS, SUITES};

use crate::{parse, serve};

/// A flag as its readers know it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) group: String,
    pub(crate) flag: String,
    pub(crate) value: String,
    pub(crate) default: String,
    pub(crate) variable: String,
    pub(crate) alias: String,
}

/// The flags in the help text of a subcommand, in its order.
pub(crate) fn help_entries(subcommand: &str) -> Vec<Entry> {
    let help = parse([subcommand, "--help"]).unwrap_err();
    assert_eq!(help.exit_code, 0);
    let mut group = String::new();
    let mut paragraphs: Vec<(String, String)> = Vec::new();
    for line in help.text.lines() {
        let (indent, words) = (line.len() - line.trim_start().len(), line.trim());
        if indent == 0 {
            group = words.trim_end_matches(':').to_owned();
        } else if words.starts_with('-') && indent < 10 {
            paragraphs.push((group.clone(), words.to_owned()));
        } else if let Some((_, paragraph)) = paragraphs.last_mut() {
            *paragraph = format!("{paragraph} {words}");
        }
    }
    let flags = paragraphs.iter().filter(|(_, text)| text.starts_with("--"));
    flags.map(|(group, text)| help_entry(group, text)).collect()
}

fn help_entry(group: &str, text: &str) -> Entry {
    let note = |name: &str| {
        let after = text.split_once(&format!("[{name}: ")).map(|(_, after)| after);
        after.and_then(|after| after.split(']').next()).unwrap_or_default().to_owned()
    };
    let flag = text.split([' ', '[']).next().unwrap().to_owned();
    let value = text.split_once('<').and_then(|(_, after)| after.split('>').next()).unwrap_or_default();
    Entry {
        group: group.to_owned(),
        flag,
        value: value.to_owned(),
        default: note("default"),
        variable: note("env"),
        alias: note("alias").trim_start().to_owned(),
    }
}

const DOCUMENT: &str = include_str!("../../docs/configuration.md");

/// The rows of the document's tables of flags below `## subcommand`, each with the bounds beside its value.
fn document_entries(subcommand: &str) -> Vec<(Entry, String)> {
    let (_, section) =
        DOCUMENT.split_once(&format!("\n## {subcommand}\n")).expect("a section for each command");
    let section = section.split("\n## ").next().unwrap();
    // The flags of a command without groups are what the help calls options.
    let mut group = "Options".to_owned();
    let mut entries = Vec::new();
    for line in section.lines() {
        if let Some(heading) = line.strip_prefix("### ") {
            group = heading.to_owned();
        }
        if line.starts_with("| `--") {
            entries.push(document_entry(&group, line));
        }
    }
    entries
}

fn document_entry(group: &str, row: &str) -> (Entry, String) {
    let row = row.replace("\\|", "\u{1}");
    let cells: Vec<_> = row.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect();
    let code = |cell: &str| cell.split('`').nth(1).unwrap_or_default().to_owned();
    let entry = Entry {
        group: group.to_owned(),
        flag: code(&cells[1]),
        value: code(&cells[2]),
        default: code(&cells[3]),
        variable: code(&cells[4]),
        alias: code(&cells[5]),
    };
    assert!(cells[6].len() > 10, "{} has no meaning", entry.flag);
    (entry, cells[2].split("`, ").nth(1).unwrap_or_default().to_owned())
}

#[test]
fn help_and_document_tell_the_same_of_every_flag() {
    for (subcommand, flags) in [("serve", 27), ("demo", 3), ("doctor", 8)] {
        let help: Vec<_> = help_entries(subcommand);
        let document: Vec<_> = document_entries(subcommand).into_iter().map(|(entry, _)| entry).collect();
        assert_eq!(help, document);
        // A reader of help that finds nothing would make both sides equal.
        assert_eq!(help.len(), flags, "{subcommand}");
    }
}

#[test]
fn doctor_takes_the_flags_of_serve_that_decide_whether_a_pair_can_be_served() {
    let serve = help_entries("serve");
    let shared: Vec<_> = help_entries("doctor").into_iter().filter(|entry| serve.contains(entry)).collect();
    assert_eq!(shared.len(), 7);
}

#[test]
fn a_variable_is_the_name_of_its_flag() {
    for entry in help_entries("serve") {
        let expected =
            format!("TLSIDECAR_{}", entry.flag.trim_start_matches('-').replace('-', "_").to_uppercase());
        assert_eq!(entry.variable, expected);
        // Kubernetes sets these by itself beside a service of our name.
        assert!(
            !entry.variable.starts_with("TLSIDECAR_PORT")
                && !entry.variable.starts_with("TLSIDECAR_SERVICE_")
        );
    }
}

#[test]
fn the_bounds_in_the_document_are_the_last_values_accepted() {
    let mut bounded = 0;
    for subcommand in ["serve", "demo"] {
        for (entry, bounds) in document_entries(subcommand) {
            let accepts = |value: &str| match subcommand {
                "serve" => serve(&[&format!("{}={value}", entry.flag)]).is_ok(),
                _ => parse([subcommand, &format!("{}={value}", entry.flag)]).is_ok(),
            };
            let Some((least, most)) = bounds.trim_end_matches(", or 0").split_once(" to ") else { continue };
            bounded += 1;
            let (below, above) = match (least.parse::<u64>(), most.parse::<u64>()) {
                (Ok(least), Ok(most)) => ((least - 1).to_string(), (most + 1).to_string()),
                _ => (just_below(least), format!("{most} 1ns")),
            };
            assert!(accepts(least) && accepts(most), "{} {bounds}", entry.flag);
            assert!(!accepts(&above), "{} {above}", entry.flag);
            let zero_allowed = bounds.ends_with(", or 0") || least == "0ms";
            assert_eq!(accepts("0"), zero_allowed, "{} 0", entry.flag);
            assert!(
                zero_allowed && below == "0" || below.is_empty() || !accepts(&below),
                "{} {below}",
                entry.flag
            );
        }
    }
    assert_eq!(bounded, 16);
}

/// A nanosecond less than so many milliseconds.
fn just_below(millis: &str) -> String {
    let millis: u64 = millis.strip_suffix("ms").unwrap().parse().unwrap();
    (millis * 1_000_000).checked_sub(1).map(|nanos| format!("{nanos}ns")).unwrap_or_default()
}

#[test]
fn the_document_lists_every_name_of_a_suite_or_group_and_no_other() {
    let (_, section) = DOCUMENT.split_once("\n## Names of cipher suites and groups\n").unwrap();
    let rows = section.split("\n## ").next().unwrap().lines().filter(|line| line.starts_with("| `"));
    let documented: BTreeSet<Vec<&str>> =
        rows.map(|row| row.split('`').skip(1).step_by(2).collect()).collect();
    let accepted = SUITES.iter().chain(GROUPS);
    let accepted = accepted.map(|named| [&[named.name], named.aliases].concat()).collect();
    assert_eq!(documented, accepted);
}

#[test]
fn the_faults_shown_in_the_document_are_the_ones_printed() {
    let refusal = serve(&["--listen=10.0.0.1", "--idle-timeout=5"]).unwrap_err();
    let shown = refusal.text.replace("--idle-timeout", "TLSIDECAR_IDLE_TIMEOUT");
    assert!(DOCUMENT.contains(&shown), "{shown}");
}
