//! What became of the looks at the files: for the status, for the numbers and for the log, so that the three agree.
//!
//! Does not know how files are read or why something is decided. Shown by `tests/admin.rs`.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::complaint::Complaint;
use super::story;
use crate::certs::{Facts, Generation, unix_seconds};
use crate::metrics::{InForce, Metrics};
use crate::watch::{Announcement, Commit, Publication, Trigger};

/// A moment on both clocks: one to measure with, one to show.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) at: Instant,
    pub(crate) wall: SystemTime,
}

impl Moment {
    /// When the calendar said what it said `ago` before.
    pub(crate) fn before(self, ago: Duration) -> SystemTime {
        self.wall.checked_sub(ago).unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

/// How the files compare with what is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnDisk {
    Same,
    Other,
}

/// How what is served came to be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    pub(crate) trigger: Trigger,
    pub(crate) publication: Publication,
    pub(crate) noticed: SystemTime,
    pub(crate) published: SystemTime,
    pub(crate) took: Duration,
}

/// What became of the looks at the files of one set.
#[derive(Debug)]
pub(crate) struct History {
    pub(crate) metrics: Arc<Metrics>,
    /// Path of the certificate, which names the set.
    file: String,
    /// How what is served came to be.
    pub(crate) origin: Option<Origin>,
    /// Since when the files hold something else than what is served.
    pub(crate) differs_since: Option<Moment>,
    /// The last look.
    pub(crate) looked: Option<(Trigger, SystemTime)>,
    /// The last complaint that was told, and when.
    pub(crate) told: Option<(Complaint, SystemTime)>,
}

impl History {
    pub(crate) fn new(file: String, metrics: Arc<Metrics>) -> Self {
        for trigger in [Trigger::Start, Trigger::Event, Trigger::Signal, Trigger::Retry, Trigger::Timer] {
            metrics.reload.looks.show([[trigger.label()]]);
            metrics.reload.rotations.show([[trigger.label()]]);
        }
        metrics.certificate.compare_with_disk(&file, None);
        Self { metrics, file, origin: None, differs_since: None, looked: None, told: None }
    }

    /// All files were looked at.
    pub(crate) fn looked(&mut self, trigger: Trigger, on_disk: OnDisk, moment: Moment) {
        self.metrics.reload.looks.inc([trigger.label()]);
        self.looked = Some((trigger, moment.wall));
        let differs_since = match on_disk {
            OnDisk::Same => None,
            OnDisk::Other => Some(self.differs_since.unwrap_or(moment)),
        };
        if differs_since.is_some() != self.differs_since.is_some() {
            let since = differs_since.map(|since| unix_seconds(since.wall));
            self.metrics.certificate.compare_with_disk(&self.file, since);
        }
        self.differs_since = differs_since;
    }

    /// Something else is in force than `before`.
    pub(crate) fn published(
        &mut self,
        commit: &Commit,
        before: Option<&Generation>,
        generation: &Generation,
        moment: Moment,
    ) {
        let took = generation.published.saturating_duration_since(commit.noticed);
        match before {
            None => story::loaded(generation),
            Some(before) => story::changed(before, generation, commit, took),
        }
        let reload = &self.metrics.reload;
        reload.reloads.inc(["published", commit.publication.label()]);
        reload.rotations.inc([commit.trigger.label()]);
        reload.notice_to_publish.observe(took);
        if commit.announcement == Announcement::Missed {
            reload.rotations_found_by_timer.inc();
        }
        self.metrics.certificate.put_in_force(&in_force(&self.file, generation));
        self.origin = Some(Origin {
            trigger: commit.trigger,
            publication: commit.publication,
            noticed: moment.before(moment.at.saturating_duration_since(commit.noticed)),
            published: moment.before(moment.at.saturating_duration_since(generation.published)),
            took,
        });
    }

    /// The files were laid out anew, with the chain and the key that are served.
    pub(crate) fn unchanged(&self, commit: &Commit) {
        tracing::debug!("the files were laid out anew; the chain and the key are the same");
        self.metrics.reload.reloads.inc(["unchanged", commit.publication.label()]);
    }

    /// What is on disk can't be served.
    pub(crate) fn refused(&mut self, complaint: &Complaint, served: Option<&Generation>, wall: SystemTime) {
        story::refused(complaint, served);
        self.metrics.reload.reloads.inc(["refused", complaint.reason]);
        self.told = Some((complaint.clone(), wall));
    }
}

fn in_force<'a>(file: &'a str, generation: &'a Generation) -> InForce<'a> {
    let Facts { serial, leaf_sha256, not_before, not_after, chain_not_after, .. } = &*generation.facts;
    InForce {
        file,
        serial,
        sha256: leaf_sha256,
        not_before: unix_seconds(*not_before),
        not_after: unix_seconds(*not_after),
        chain_not_after: unix_seconds(*chain_not_after),
        generation: generation.number,
    }
}
