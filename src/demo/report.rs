//! What the demo tells a person: an opening, a row a rotation, a summary.
//!
//! The columns are the same with and without colour, so that what is piped stays a table. It knows nothing of how a
//! rotation is made or measured. Its inline tests compare whole lines.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// Whether the output goes to somebody who sees colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// Letters only.
    #[default]
    Plain,
    /// With the terminal's own colours.
    Coloured,
}

/// How the connection that was opened before the first rotation fared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// It has had this many answers.
    Answers(u64),
    /// It failed.
    Broken(String),
}

/// One rotation as measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rotation {
    /// Counted from one.
    pub(super) number: u32,
    /// The serial on the wire before the swap.
    pub(super) before: String,
    /// The serial that was swapped in.
    pub(super) after: String,
    /// From the rename to the new generation in force.
    pub(super) publish: Option<Duration>,
    /// From the rename to the end of the first handshake that showed `after`, or why there was none.
    pub(super) handshake: Result<Duration, String>,
    /// The old connection.
    pub(super) kept: Kept,
}

impl Rotation {
    /// The new certificate was seen on the wire and in force, and the old connection lives.
    pub(super) fn seen(&self) -> bool {
        self.handshake.is_ok() && self.publish.is_some() && matches!(self.kept, Kept::Answers(_))
    }
}

/// Where things are, for the opening.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places<'a> {
    pub(super) volume: &'a Path,
    pub(super) root: &'a Path,
    pub(super) upstream: SocketAddr,
    pub(super) front: SocketAddr,
}

#[derive(Clone, Copy)]
enum Paint {
    Bold,
    Dim,
    Green,
    Red,
}

/// Writes the demo's lines to `out`.
pub(super) struct Report<'a> {
    out: &'a mut dyn Write,
    style: Style,
}

impl<'a> Report<'a> {
    pub(super) fn new(out: &'a mut dyn Write, style: Style) -> Self {
        Self { out, style }
    }

    /// Says what was set up, and the line to paste meanwhile.
    pub(super) fn opening(&mut self, places: Places<'_>, pause: Duration) -> io::Result<()> {
        let title = self.paint(Paint::Bold, "A secret volume that rotates, and TLS that follows it");
        let (volume, root) = (places.volume.display(), places.root.display());
        let port = places.front.port();
        writeln!(self.out, "{title}\n")?;
        writeln!(self.out, "  volume    {volume} (tls.crt, tls.key)")?;
        writeln!(self.out, "  upstream  http://{}", places.upstream)?;
        writeln!(self.out, "  serving   https://{}", places.front)?;
        writeln!(self.out, "  swapping  every {}\n", humantime::format_duration(pause))?;
        let line = self.paint(Paint::Bold, &format!("curl --cacert {root} https://localhost:{port}/"));
        writeln!(self.out, "Ask it yourself:\n  {line}\n")?;
        let heads = self.paint(
            Paint::Dim,
            &format!(
                "{:>8}  {:<16} {:>12} {:>17}  {}",
                "rotation", "serial", "to published", "to 1st handshake", "connection from before"
            ),
        );
        writeln!(self.out, "{heads}")?;
        self.out.flush()
    }

    /// One line for one rotation.
    pub(super) fn rotation(&mut self, rotation: &Rotation) -> io::Result<()> {
        let serials = format!("{} -> {}", rotation.before, rotation.after);
        let publish = rotation.publish.map_or_else(|| "never".to_owned(), milliseconds);
        let handshake =
            rotation.handshake.as_ref().map_or_else(|_| "never".to_owned(), |took| milliseconds(*took));
        let paint = if rotation.handshake.is_ok() { Paint::Green } else { Paint::Red };
        let handshake = self.paint(paint, &format!("{handshake:>17}"));
        let kept = match &rotation.kept {
            Kept::Answers(count) => format!("answers ({count} so far)"),
            Kept::Broken(reason) => self.paint(Paint::Red, &format!("broken: {reason}")),
        };
        writeln!(self.out, "{:>8}  {serials:<16} {publish:>12} {handshake}  {kept}", rotation.number)?;
        if let Err(reason) = &rotation.handshake {
            writeln!(self.out, "{:>10}{}", "", self.paint(Paint::Red, reason))?;
        }
        self.out.flush()
    }

    /// The closing line: how many were seen, and the medians of those.
    pub(super) fn summary(&mut self, rotations: &[Rotation]) -> io::Result<()> {
        let seen = rotations.iter().filter(|rotation| rotation.seen()).count();
        let publish = median(rotations.iter().filter_map(|rotation| rotation.publish).collect());
        let handshake =
            median(rotations.iter().filter_map(|rotation| rotation.handshake.clone().ok()).collect());
        let medians = match (publish, handshake) {
            (Some(publish), Some(handshake)) => format!(
                "; median from rename to published {}, to the first handshake {}",
                milliseconds(publish),
                milliseconds(handshake)
            ),
            _ => String::new(),
        };
        let paint = if seen == rotations.len() { Paint::Green } else { Paint::Red };
        let counts = self.paint(paint, &format!("{seen} of {} rotations seen", rotations.len()));
        writeln!(self.out, "\n{counts}{medians}")?;
        self.out.flush()
    }

    fn paint(&self, paint: Paint, text: &str) -> String {
        let code = match (self.style, paint) {
            (Style::Plain, _) => return text.to_owned(),
            (Style::Coloured, Paint::Bold) => 1,
            (Style::Coloured, Paint::Dim) => 2,
            (Style::Coloured, Paint::Green) => 32,
            (Style::Coloured, Paint::Red) => 31,
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

fn milliseconds(duration: Duration) -> String {
    format!("{:.2} ms", duration.as_secs_f64() * 1000.0)
}

/// The middle value, or the mean of the two middle ones; `None` of nothing.
fn median(mut values: Vec<Duration>) -> Option<Duration> {
    values.sort_unstable();
    let upper = *values.get(values.len() / 2)?;
    let lower = *values.get(values.len().saturating_sub(1) / 2)?;
    Some((lower + upper) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rotation() -> Rotation {
        Rotation {
            number: 3,
            before: "1003".to_owned(),
            after: "1004".to_owned(),
            publish: Some(Duration::from_micros(410)),
            handshake: Ok(Duration::from_micros(1_934)),
            kept: Kept::Answers(4),
        }
    }

    fn missed() -> Rotation {
        let kept = Kept::Broken("reset".to_owned());
        Rotation { publish: None, handshake: Err("still 1003".to_owned()), kept, ..rotation() }
    }

    fn written(style: Style, write: impl FnOnce(&mut Report<'_>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut Report::new(&mut out, style)).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn rows_keep_their_columns() {
        assert_eq!(
            written(Style::Plain, |report| report.rotation(&rotation())),
            "       3  1003 -> 1004          0.41 ms           1.93 ms  answers (4 so far)\n"
        );
        assert_eq!(
            written(Style::Plain, |report| report.rotation(&missed())),
            "       3  1003 -> 1004            never             never  broken: reset\n          still 1003\n"
        );
    }

    #[test]
    fn colour_adds_nothing_but_colour() {
        for rotation in [rotation(), missed()] {
            let coloured = written(Style::Coloured, |report| report.rotation(&rotation));
            let bare = ["\x1b[31m", "\x1b[32m", "\x1b[0m"]
                .iter()
                .fold(coloured.clone(), |text, code| text.replace(code, ""));
            assert_ne!(coloured, bare);
            assert_eq!(bare, written(Style::Plain, |report| report.rotation(&rotation)));
        }
    }

    #[test]
    fn the_summary_counts_what_was_not_seen() {
        assert_eq!(
            written(Style::Plain, |report| report.summary(&[rotation(), missed()])),
            "\n1 of 2 rotations seen; median from rename to published 0.41 ms, to the first handshake 1.93 ms\n"
        );
        assert_eq!(written(Style::Plain, |report| report.summary(&[])), "\n0 of 0 rotations seen\n");
    }

    #[test]
    fn the_median_of_an_even_count_lies_between_the_middle_two() {
        let of = |values: &[u64]| median(values.iter().copied().map(Duration::from_secs).collect());
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[9, 1, 5]), Some(Duration::from_secs(5)));
        assert_eq!(of(&[9, 1, 5, 7]), Some(Duration::from_secs(6)));
    }
}
