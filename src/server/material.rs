//! Reads the files that a look found, and says whether what they hold may be served.
//!
//! Knows nothing of events or of what is decided with its answer. Shown by the end-to-end tests of broken files.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::complaint::Complaint;
use crate::certs::{self, Bundle, Fault, File, Staged, Store};
use crate::printable::{Printable, printable};
use crate::sys::files::{self, Contents, ReadError, Stability};
use crate::watch::{Digest, Reading, Unresolved, Verdict};

/// A pinned file.
type Node = Arc<OwnedFd>;

/// What the files hold.
#[derive(Debug)]
pub(crate) struct Found {
    /// For the watcher.
    pub(crate) reading: Reading,
    /// What may be served; present exactly when the verdict is not [`Verdict::Invalid`] and the content is new.
    pub(crate) candidate: Option<Candidate>,
    /// What is wrong, if something is.
    pub(crate) complaint: Option<Complaint>,
    /// When time alone may change the verdict.
    pub(crate) retry: Option<SystemTime>,
}

/// A bundle that may be served.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) bundle: Bundle,
    pub(crate) staged: Staged,
}

/// The files of one set and the last content that was parsed.
#[derive(Debug)]
pub(crate) struct Material {
    /// The certificate's and the key's, in the order of the watcher's targets.
    paths: [PathBuf; 2],
    parsed: Option<(Digest, Result<Bundle, Fault>)>,
}

impl Material {
    pub(crate) fn new(paths: [PathBuf; 2]) -> Self {
        Self { paths, parsed: None }
    }

    /// The certificate's and the key's.
    pub(crate) fn paths(&self) -> &[PathBuf; 2] {
        &self.paths
    }

    /// Reads the files behind the watcher's targets. `served` is the digest in force.
    pub(crate) fn read(
        &mut self,
        targets: &[Result<Node, Unresolved>],
        served: Option<Digest>,
        store: &Store,
        wall: SystemTime,
    ) -> Found {
        match self.contents(targets) {
            Ok([certificate, key]) => self.judge(&certificate, &key, served, (store, wall)),
            Err(found) => *found,
        }
    }

    /// The bytes of both files, or why there are none.
    fn contents(&self, targets: &[Result<Node, Unresolved>]) -> Result<[Contents; 2], Box<Found>> {
        let mut nodes = Vec::with_capacity(targets.len());
        for (path, target) in self.paths.iter().zip(targets) {
            match target {
                Ok(node) => nodes.push((path, node)),
                Err(unresolved) => return Err(Box::new(lost(path, unresolved))),
            }
        }
        let [certificate, key] = nodes.as_slice() else {
            return Err(Box::new(Found::bare(Reading::Unresolved)));
        };
        let read = |(path, node): &(&PathBuf, &Node)| {
            files::read(node.as_fd(), certs::FILE_LIMIT_BYTES)
                .map_err(|error| Box::new(unreadable(path, &error)))
        };
        Ok([read(certificate)?, read(key)?])
    }

    fn judge(
        &mut self,
        certificate: &Contents,
        key: &Contents,
        served: Option<Digest>,
        (store, wall): (&Store, SystemTime),
    ) -> Found {
        if certificate.stability == Stability::Moving || key.stability == Stability::Moving {
            return Found::bare(Reading::Moving);
        }
        let digest = certs::digest(&[&certificate.bytes, &key.bytes]);
        let newest = certificate.changed.max(key.changed);
        // A clock that was set back makes a file look younger than it is: it settles, which is safe.
        let age = wall.duration_since(newest).unwrap_or(Duration::ZERO);
        let content = |verdict| Reading::Content { digest, verdict, age };
        if served == Some(digest) {
            return Found::bare(content(Verdict::Valid));
        }
        let bundle = match self.parse(digest, certificate, key) {
            Ok(bundle) => bundle,
            Err(fault) => {
                let complaint = Some(self.refused(&fault, digest));
                return Found { complaint, ..Found::bare(content(Verdict::Invalid)) };
            }
        };
        match store.stage(bundle.clone(), wall) {
            Ok(staged) => {
                let shorter = store
                    .current()
                    .is_some_and(|current| bundle.facts().certificates < current.facts.certificates);
                let verdict = if shorter { Verdict::Doubtful } else { Verdict::Valid };
                Found { candidate: Some(Candidate { bundle, staged }), ..Found::bare(content(verdict)) }
            }
            Err(refusal) => Found {
                complaint: Some(Complaint {
                    file: self.name(File::Certificate),
                    part: "certificate 1".to_owned(),
                    problem: refusal.to_string(),
                    reason: refusal.reason(),
                    digest: Some(digest),
                }),
                retry: refusal.retry_at(),
                ..Found::bare(content(Verdict::Invalid))
            },
        }
    }

    /// Parses a content once.
    fn parse(&mut self, digest: Digest, certificate: &Contents, key: &Contents) -> Result<Bundle, Fault> {
        match &self.parsed {
            Some((known, result)) if *known == digest => result.clone(),
            _ => {
                let result = Bundle::parse(&certificate.bytes, &key.bytes);
                self.parsed = Some((digest, result.clone()));
                result
            }
        }
    }

    /// The parsed content is no longer of use.
    pub(crate) fn forget(&mut self) {
        self.parsed = None;
    }

    fn refused(&self, fault: &Fault, digest: Digest) -> Complaint {
        Complaint {
            file: self.name(fault.file),
            part: fault.part.to_string(),
            problem: fault.problem.to_string(),
            reason: fault.reason(),
            digest: Some(digest),
        }
    }

    fn name(&self, file: File) -> String {
        let [certificate, key] = &self.paths;
        match file {
            File::Certificate => printable(&**certificate),
            File::Key => printable(&**key),
            File::Pair => format!("{} and {}", Printable::from(&**certificate), Printable::from(&**key)),
        }
    }
}

impl Found {
    fn bare(reading: Reading) -> Self {
        Self { reading, candidate: None, complaint: None, retry: None }
    }
}

fn unreadable(path: &Path, error: &ReadError) -> Found {
    let (reading, reason) = match error {
        ReadError::TooLarge(_) => (Reading::Unreadable, "too_large"),
        ReadError::NotARegularFile => (Reading::Unreadable, "not_a_file"),
        ReadError::Io(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            (Reading::Unreadable, "forbidden")
        }
        ReadError::Io(_) => (Reading::Failed, "unreadable"),
    };
    Found {
        complaint: Some(Complaint {
            file: printable(path),
            part: "whole file".to_owned(),
            problem: error.to_string(),
            reason,
            digest: None,
        }),
        ..Found::bare(reading)
    }
}

fn lost(path: &Path, unresolved: &Unresolved) -> Found {
    Found {
        complaint: Some(Complaint {
            file: printable(path),
            part: "path".to_owned(),
            problem: unresolved.to_string(),
            reason: unresolved.cause.label(),
            digest: None,
        }),
        ..Found::bare(Reading::Unresolved)
    }
}
