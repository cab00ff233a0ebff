//! What is behind a certificate and its key, whether they can be served, and whether a change of them would be seen.
//!
//! Everything is looked at with the eyes of the serving path: its walk, its event queue, its checks. `gather` is the
//! part that touches the system; what it finds is an [`Examination`], from which `findings` and the texts are made
//! by functions of it. It serves nothing, changes nothing and shows no byte of a key file. Shown by `tests/doctor.rs`.

mod accounts;
pub mod examination;
mod findings;
mod gather;
mod kernel;
mod material;
mod mounts;
mod replacement;
mod text;
mod trail;

use std::io::{self, Write};

use serde::Serialize;

use crate::config::{self, Output};
use examination::Examination;
pub use findings::{Finding, Severity, findings};
pub use text::Style;

/// Whether something is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Nothing is; there may be hints.
    Well,
    /// At least one finding is an error.
    Ill,
}

/// An examination with what follows from it: the JSON document.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Whether something is wrong.
    pub verdict: Verdict,
    /// What is, errors first.
    pub findings: Vec<Finding>,
    /// What it was found in.
    #[serde(flatten)]
    pub examination: Examination,
}

impl Report {
    /// Draws the conclusions.
    #[must_use]
    pub fn new(examination: Examination) -> Self {
        let findings = findings(&examination);
        let is_error = |finding: &Finding| finding.severity == Severity::Error;
        let verdict = if findings.iter().any(is_error) { Verdict::Ill } else { Verdict::Well };
        Self { verdict, findings, examination }
    }
}

/// Examines and writes what was found, as text or as one JSON document.
///
/// # Errors
/// When `out` takes no more. Whatever is wrong with the files is no error but a finding.
pub fn run(doctor: &config::Doctor, style: Style, out: &mut dyn Write) -> io::Result<Verdict> {
    let report = Report::new(gather::examine(doctor));
    match doctor.output {
        Output::Text => text::write(&report, style, out)?,
        Output::Json => {
            serde_json::to_writer_pretty(&mut *out, &report)?;
            writeln!(out)?;
        }
    }
    out.flush()?;
    Ok(report.verdict)
}
