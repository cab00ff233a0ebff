//! What is wrong with the files on disk, told once per content and not before it has stood for a moment.
//!
//! Writers that change a file at a time pass through states that are wrong for some milliseconds; whoever reads the log
//! wants to hear of those that stay. Does not know how a fault is found. Shown by the tests below.

use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, Instant};

/// How long a fault must stand before it is told: longer than a writer pauses between two files of a pair.
const PATIENCE: Duration = Duration::from_millis(300);

/// How many told complaints are remembered, so that two writers that undo each other do not fill the log.
const REMEMBERED: usize = 16;

/// What is wrong, in the words of a log line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Complaint {
    /// The path of the file to blame, or of both.
    pub(crate) file: String,
    /// Which part of it.
    pub(crate) part: String,
    /// What is wrong there.
    pub(crate) problem: String,
    /// A stable label.
    pub(crate) reason: &'static str,
    /// Which content it is about; nothing when none could be read.
    pub(crate) digest: Option<[u8; 32]>,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.file, self.part, self.problem)
    }
}

/// The complaints of one set of files.
#[derive(Debug, Default)]
pub(crate) struct Complaints {
    standing: Option<(Complaint, Instant)>,
    told: VecDeque<Complaint>,
}

impl Complaints {
    /// The last look found this.
    pub(crate) fn raise(&mut self, complaint: Complaint, now: Instant) {
        if self.standing.as_ref().is_none_or(|(standing, _)| *standing != complaint) {
            self.standing = Some((complaint, now + PATIENCE));
        }
    }

    /// The last look found nothing wrong. Whether that ends something that was told.
    pub(crate) fn settle(&mut self) -> bool {
        self.standing = None;
        let told = !self.told.is_empty();
        self.told.clear();
        told
    }

    /// What is wrong now, told or not.
    pub(crate) fn standing(&self) -> Option<&Complaint> {
        self.standing.as_ref().map(|(complaint, _)| complaint)
    }

    /// When [`Self::due`] may have something.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let (complaint, at) = self.standing.as_ref()?;
        (!self.told.contains(complaint)).then_some(*at)
    }

    /// The complaint to tell now.
    pub(crate) fn due(&mut self, now: Instant) -> Option<&Complaint> {
        if self.deadline()? > now {
            return None;
        }
        let (complaint, _) = self.standing.as_ref()?;
        if self.told.len() == REMEMBERED {
            self.told.pop_front();
        }
        self.told.push_back(complaint.clone());
        Some(complaint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(digest: u8) -> Complaint {
        let text = |text: &str| text.to_owned();
        let (file, part, problem) = (text("tls.key"), text("private key"), text("does not match"));
        Complaint { file, part, problem, reason: "mismatch", digest: Some([digest; 32]) }
    }

    fn told(complaints: &mut Complaints, now: Instant) -> Option<Complaint> {
        complaints.due(now).cloned()
    }

    #[test]
    fn a_fault_that_stays_is_told_once() {
        let start = super::super::clock::now();
        let mut complaints = Complaints::default();
        complaints.raise(complaint(1), start);
        assert_eq!(told(&mut complaints, start), None);
        complaints.raise(complaint(1), start + PATIENCE / 2);
        assert_eq!(told(&mut complaints, start + PATIENCE), Some(complaint(1)));
        complaints.raise(complaint(1), start + PATIENCE * 2);
        assert_eq!(complaints.deadline(), None);
        assert_eq!(told(&mut complaints, start + PATIENCE * 9), None);
    }

    #[test]
    fn a_fault_that_passes_is_not_told() {
        let start = super::super::clock::now();
        let mut complaints = Complaints::default();
        complaints.raise(complaint(1), start);
        complaints.settle();
        assert_eq!(told(&mut complaints, start + PATIENCE), None);
    }

    #[test]
    fn two_contents_that_alternate_are_told_once_each() {
        let mut now = super::super::clock::now();
        let mut complaints = Complaints::default();
        let mut lines = 0;
        for turn in 0..10 {
            complaints.raise(complaint(turn % 2), now);
            now += PATIENCE;
            lines += usize::from(told(&mut complaints, now).is_some());
        }
        assert_eq!(lines, 2);
    }

    #[test]
    fn what_was_wrong_before_a_repair_is_told_again() {
        let start = super::super::clock::now();
        let mut complaints = Complaints::default();
        complaints.raise(complaint(1), start);
        assert!(told(&mut complaints, start + PATIENCE).is_some());
        complaints.settle();
        complaints.raise(complaint(1), start + PATIENCE);
        assert!(told(&mut complaints, start + PATIENCE * 2).is_some());
    }
}
