//! The table of metrics, the text of `/metrics` and `docs/metrics.md` are three views of one thing.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may stop at the first surprise"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::iter::successors;

use tlsidecar::metrics::{InForce, Metrics, Row};
use tlsidecar::relay::{CloseReason, Fault, FaultKind};

const DOCUMENT: &str = include_str!("../docs/metrics.md");

/// The text of a process that has counted something of everything with labels.
fn text() -> String {
    let metrics = Metrics::new("1.2.3");
    metrics.connections.closed.inc(["finished"]);
    metrics.connections.by_generation.set(["current"], 1);
    metrics.connections.paused.set(["descriptors"], 1);
    metrics.connections.refused.inc(["client_connections"]);
    metrics.connections.limits_reached.inc(["descriptors"]);
    metrics.handshakes.done.inc(["TLSv1_3", "full"]);
    metrics.handshakes.failed.inc(["alert"]);
    metrics.certificate.put_in_force(&InForce {
        file: "/tls/a \"quoted\" name\\tls.crt",
        serial: "CA0B",
        sha256: "ab",
        not_before: 1,
        not_after: 2,
        chain_not_after: 2,
        generation: 3,
    });
    metrics.certificate.compare_with_disk("/tls/tls.crt", Some(1));
    metrics.reload.looks.inc(["event"]);
    metrics.reload.reloads.inc(["refused", "mismatch"]);
    metrics.reload.rotations.inc(["event"]);
    metrics.watch.mode.set(["events"], 1);
    metrics.admin.responses.inc(["200"]);
    metrics.text()
}

/// One line of values: name, labels, value.
fn sample(line: &str) -> (&str, Vec<&str>, f64) {
    let (series, value) = line.rsplit_once(' ').expect("a value behind a blank");
    let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
    let mut rest = labels.strip_suffix('}').expect("labels end with a brace");
    let mut names = Vec::new();
    while !rest.is_empty() {
        let (label, after) = rest.split_once("=\"").expect("a label has a quoted value");
        names.push(label);
        let end = (0..after.len()).find(|&at| {
            let escapes = after[..at].bytes().rev().take_while(|&byte| byte == b'\\').count();
            after[at..].starts_with('"') && escapes % 2 == 0
        });
        rest = &after[end.expect("a closing quote") + 1..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    (name, names, value.parse().expect("a number"))
}

/// What the text declares, in its order, each with the labels of its samples.
fn declared(text: &str) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut helped = "";
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, words) = help.split_once(' ').unwrap();
            assert!(words.len() > 10 && words.ends_with('.'), "{line}");
            helped = name;
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert_eq!(name, helped, "help stands before the type");
            let kind = ["counter", "gauge", "histogram"].into_iter().find(|known| *known == kind).unwrap();
            assert!(rows.iter().all(|row| row.name != name), "{name} is declared twice");
            rows.push(Row { name: name.to_owned(), kind, labels: Vec::new() });
        } else {
            let row = rows.last_mut().unwrap();
            add(row, line);
        }
    }
    rows
}

fn add(row: &mut Row, line: &str) {
    let (name, labels, _) = sample(line);
    let suffix =
        name.strip_prefix(row.name.as_str()).unwrap_or_else(|| panic!("{line} is not of {}", row.name));
    let suffixes: &[&str] = if row.kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
    assert!(suffixes.contains(&suffix), "{line}");
    let rows = row_labels();
    let expected = rows.get(row.name.as_str()).map_or(&[][..], Vec::as_slice);
    let labels: Vec<_> = labels.into_iter().filter(|label| *label != "le").collect();
    assert_eq!(labels, expected, "{line}");
    row.labels = expected.to_vec();
}

fn row_labels() -> BTreeMap<String, Vec<&'static str>> {
    Metrics::new("1").rows().iter().map(|row| (row.name.clone(), row.labels.clone())).collect()
}

/// The rows of the document: name, type and labels, meaning, alerts.
fn documented() -> Vec<([String; 3], String, String)> {
    let rows = DOCUMENT.lines().filter(|line| line.starts_with("| `tlsidecar_"));
    rows.map(|row| {
        let cells: Vec<_> = row.split('|').map(|cell| cell.trim().to_owned()).collect();
        assert_eq!(cells.len(), 7, "{row}");
        let bare = |cell: &str| cell.replace('`', "");
        ([bare(&cells[1]), bare(&cells[2]), bare(&cells[3])], cells[4].clone(), cells[5].clone())
    })
    .collect()
}

#[test]
fn the_text_is_the_table() {
    assert_eq!(declared(&text()), Metrics::new("1").rows());
}

#[test]
fn the_document_is_the_table() {
    let metrics = Metrics::new("1");
    let table: Vec<_> = metrics
        .rows()
        .iter()
        .map(|row| [row.name.clone(), row.kind.to_owned(), row.labels.join(", ")])
        .collect();
    let document: Vec<_> = documented().into_iter().map(|(row, ..)| row).collect();
    assert_eq!(document, table);
    assert!(documented().iter().all(|(_, meaning, _)| meaning.len() > 10));
}

/// The first cells of the document's table with this heading.
fn words(heading: &str) -> Vec<&'static str> {
    let (_, table) = DOCUMENT.split_once(&format!("| {heading} | ")).unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.split('`').nth(1).unwrap()).collect()
}

fn reason_after(reason: &CloseReason) -> Option<CloseReason> {
    use CloseReason as R;
    Some(match reason {
        R::Finished => R::ClientTorn,
        R::ClientTorn => R::ClientReset,
        R::ClientReset => R::ClientProbe,
        R::ClientProbe => R::ClientLeft,
        R::ClientLeft => R::ClientFault(Box::new(Fault { kind: FaultKind::Alert, text: String::new() })),
        R::ClientFault(_) => R::UpstreamRefused,
        R::UpstreamRefused => R::UpstreamUnreachable,
        R::UpstreamUnreachable => R::UpstreamConnectTimeout,
        R::UpstreamConnectTimeout => R::UpstreamConnectFailed,
        R::UpstreamConnectFailed => R::UpstreamReset,
        R::UpstreamReset => R::UpstreamStoppedReading,
        R::UpstreamStoppedReading => R::HandshakeTimeout,
        R::HandshakeTimeout => R::IdleTimeout,
        R::IdleTimeout => R::HalfCloseTimeout,
        R::HalfCloseTimeout => R::MaximumAge,
        R::MaximumAge => R::Drain,
        R::Drain => R::Exhausted,
        R::Exhausted => R::Bug(""),
        R::Bug(_) => return None,
    })
}

fn kind_after(kind: FaultKind) -> Option<FaultKind> {
    use FaultKind as K;
    Some(match kind {
        K::PlainHttp => K::NotTls,
        K::NotTls => K::NoSharedVersion,
        K::NoSharedVersion => K::NoSharedParameters,
        K::NoSharedParameters => K::NoSharedProtocol,
        K::NoSharedProtocol => K::Alert,
        K::Alert => K::BadRecord,
        K::BadRecord => K::BadMessage,
        K::BadMessage => K::Misbehaved,
        K::Misbehaved => K::ClientCertificate,
        K::ClientCertificate => K::TooLong,
        K::TooLong => K::KeysExhausted,
        K::KeysExhausted => K::Internal,
        K::Internal => return None,
    })
}

#[test]
fn the_document_lists_every_reason_and_every_kind() {
    let reasons = successors(Some(CloseReason::Finished), reason_after);
    assert_eq!(words("reason"), reasons.map(|reason| reason.label()).collect::<Vec<_>>());
    let kinds = successors(Some(FaultKind::PlainHttp), |kind| kind_after(*kind));
    assert_eq!(words("kind"), kinds.map(FaultKind::label).collect::<Vec<_>>());
}

#[test]
fn names_follow_the_conventions() {
    for Row { name, kind, .. } in Metrics::new("1").rows() {
        assert!(name.starts_with("tlsidecar_"), "{name}");
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit()), "{name}");
        assert_eq!(*kind == "counter", name.ends_with("_total"), "{name}");
        assert!(*kind != "histogram" || name.ends_with("_seconds"), "{name}");
        assert!(!name.contains("milli") && !name.contains("micro"), "{name} has a base unit");
    }
}

/// The metrics that an expression names.
fn named(expression: &str) -> BTreeSet<&str> {
    let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("tlsidecar_")).collect()
}

#[test]
fn alerts_name_metrics_that_there_are() {
    let names: BTreeSet<String> = Metrics::new("1")
        .rows()
        .iter()
        .flat_map(|row| match row.kind {
            "histogram" => {
                ["_bucket", "_sum", "_count"].map(|suffix| format!("{}{suffix}", row.name)).to_vec()
            }
            _ => vec![row.name.clone()],
        })
        .collect();
    let mut alerts = 0;
    for ([name, ..], _, alert) in documented() {
        let named = named(&alert);
        assert!(named.iter().all(|named| names.contains(*named)), "{alert}");
        assert!(
            alert.is_empty() || named.iter().any(|named| named.starts_with(&name)),
            "{alert} is not of {name}"
        );
        alerts += usize::from(!alert.is_empty());
    }
    assert!(alerts > 10, "a reader of the document that finds nothing would find nothing wrong");
}
