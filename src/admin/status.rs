//! All that is known of the process and of what it serves, and whether clients should be sent to it.
//!
//! Plain values, as JSON for machines and people. Does not know how they are gathered or what time it is. Shown by the
//! tests below.

use std::fmt;
use std::time::{Duration, SystemTime};

use serde::{Serialize, Serializer};

/// The process.
#[derive(Debug, Clone, Serialize)]
pub struct Status {
    /// Version of the program.
    pub version: &'static str,
    /// The moment that all of this is about.
    pub now: Timestamp,
    /// Time since it started.
    #[serde(rename = "uptime_seconds", serialize_with = "seconds")]
    pub uptime: Duration,
    /// What the process is up to.
    pub phase: Phase,
    /// Threads that serve clients.
    pub workers: usize,
    /// Clients.
    pub connections: Connections,
    /// How long files may hold something else than what is served before the process is no longer ready; `None`: for
    /// ever.
    #[serde(rename = "stale_limit_seconds", serialize_with = "maybe_seconds")]
    pub stale_limit: Option<Duration>,
    /// Each set of files that is served from.
    pub sets: Vec<Set>,
}

/// What the process is up to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// There has been no certificate yet: nobody listens for clients.
    Starting,
    /// Clients are welcome.
    Serving,
    /// No new clients.
    Draining,
}

/// How many connections there are.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Connections {
    /// Accepted since the start.
    pub accepted: u64,
    /// Open now.
    pub open: u64,
    /// Of these, with their handshake under way.
    pub handshaking: u64,
    /// Open ones by what they were greeted with.
    pub by_generation: ByGeneration,
}

/// Connections by the age of the generation they were greeted with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ByGeneration {
    /// The one in force.
    pub current: usize,
    /// The one before it.
    pub previous: usize,
    /// All before that.
    pub older: usize,
}

/// A set of files and what became of it.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Set {
    /// Path of the certificate chain.
    pub cert: String,
    /// Path of the private key.
    pub key: String,
    /// What is served; nothing before the first certificate.
    pub in_force: Option<InForce>,
    /// Generations in memory: the one in force and those that connections were greeted with.
    pub live_generations: usize,
    /// How the files compare with it.
    pub on_disk: OnDisk,
    /// The last content, or lack of one, that was refused.
    pub last_failure: Option<Failure>,
    /// How changes are noticed.
    pub watcher: Watcher,
}

/// What is served, and how it came to be.
#[derive(Debug, Clone, Serialize)]
pub struct InForce {
    /// Counts from one.
    pub generation: u64,
    /// The leaf of the chain.
    pub certificate: Certificate,
    /// What made the watcher look.
    pub trigger: &'static str,
    /// Why the content was taken to be complete.
    pub publication: &'static str,
    /// When the change was noticed.
    pub noticed: Timestamp,
    /// When it was put in force.
    pub published: Timestamp,
    /// From the one to the other.
    #[serde(rename = "notice_to_publish_seconds", serialize_with = "seconds")]
    pub notice_to_publish: Duration,
    /// When the first handshake with it ended.
    pub first_handshake: Option<Timestamp>,
}

/// A certificate.
#[derive(Debug, Clone, Serialize)]
pub struct Certificate {
    /// Serial number in hex.
    pub serial: String,
    /// SHA-256 of its DER in hex.
    pub sha256: String,
    /// Its subject.
    pub subject: String,
    /// Its issuer.
    pub issuer: String,
    /// Names it is valid for.
    pub names: Vec<String>,
    /// First moment of validity.
    pub not_before: Timestamp,
    /// Last moment of validity.
    pub not_after: Timestamp,
    /// The same of the first certificate to end in the whole chain.
    pub chain_not_after: Timestamp,
    /// Length of the chain.
    pub chain_certificates: usize,
}

/// How the files compare with what is served.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct OnDisk {
    /// Whether they hold the same; as of the last look.
    pub equals_served: bool,
    /// Since when they do not.
    pub differs_since: Option<Timestamp>,
    /// For how long that has been.
    #[serde(rename = "differs_seconds", serialize_with = "maybe_seconds")]
    pub differs_for: Option<Duration>,
    /// When they were last looked at.
    pub looked: Option<Timestamp>,
    /// What asked for that look.
    pub trigger: Option<&'static str>,
}

/// A content, or lack of one, that was refused.
#[derive(Debug, Clone, Serialize)]
pub struct Failure {
    /// When it was found.
    pub at: Timestamp,
    /// Whether it is still so.
    pub stands: bool,
    /// The file to blame.
    pub file: String,
    /// The part of it.
    pub part: String,
    /// What is wrong there.
    pub problem: String,
    /// The same in a word.
    pub reason: &'static str,
}

/// How changes are noticed.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Watcher {
    /// Whether events alone can be relied on.
    pub mode: WatchMode,
    /// What stands between a change and an event about it.
    pub reasons: Vec<String>,
    /// Directories and files watched.
    pub watches: usize,
    /// The directories.
    pub directories: Vec<String>,
}

/// Whether events alone can be relied on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WatchMode {
    /// They can.
    #[default]
    Events,
    /// The files are also looked at every few seconds.
    Polling,
}

impl Status {
    /// Why clients should not be sent here; empty when they should.
    #[must_use]
    pub fn obstacles(&self) -> Vec<String> {
        let draining = (self.phase == Phase::Draining).then(|| "draining".to_owned());
        let of_sets =
            self.sets.iter().flat_map(|set| [self.certificate_obstacle(set), self.stale_obstacle(set)]);
        draining.into_iter().chain(of_sets.flatten()).collect()
    }

    fn certificate_obstacle(&self, set: &Set) -> Option<String> {
        let Some(in_force) = &set.in_force else {
            return Some(set.explained("no certificate"));
        };
        let certificate = &in_force.certificate;
        (self.now.0 > certificate.not_after.0)
            .then(|| format!("certificate {} has expired: {}", certificate.serial, certificate.not_after))
    }

    fn stale_obstacle(&self, set: &Set) -> Option<String> {
        let (differs_for, limit) = (set.on_disk.differs_for?, self.stale_limit?);
        (set.in_force.is_some() && differs_for >= limit).then(|| {
            let what = format!(
                "the files have held something else than what is served for {}s",
                differs_for.as_secs()
            );
            set.explained(&what)
        })
    }

    /// The whole, with the verdict in front.
    pub(super) fn json(&self) -> serde_json::Result<String> {
        #[derive(Serialize)]
        struct Document<'a> {
            ready: bool,
            obstacles: &'a [String],
            #[serde(flatten)]
            status: &'a Status,
        }
        let obstacles = self.obstacles();
        let document = Document { ready: obstacles.is_empty(), obstacles: &obstacles, status: self };
        serde_json::to_string_pretty(&document).map(|json| json + "\n")
    }
}

impl Set {
    /// `what`, with the failure that stands.
    fn explained(&self, what: &str) -> String {
        match &self.last_failure {
            Some(Failure { stands: true, file, part, problem, .. }) => {
                format!("{what}: {file}: {part}: {problem}")
            }
            Some(_) | None => what.to_owned(),
        }
    }
}

/// A moment, as RFC 3339 in UTC with milliseconds. One before 1970 or after the year 9999 is shown as seconds since
/// 1970, after an `@`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timestamp(pub SystemTime);

/// The first second of the year 10000.
const YEAR_10000: u64 = 253_402_300_800;

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) if since.as_secs() < YEAR_10000 => humantime::format_rfc3339_millis(self.0).fmt(f),
            Ok(since) => write!(f, "@{}", since.as_secs()),
            Err(before) => write!(f, "@-{}", before.duration().as_secs()),
        }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}

fn maybe_seconds<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    duration.map(|duration| duration.as_secs_f64()).serialize(serializer)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;

    fn at(seconds: u64) -> Timestamp {
        Timestamp(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
    }

    const NOW: u64 = 1_800_000_000;

    /// A process that serves one certificate which is on disk.
    pub(in crate::admin) fn serving() -> Status {
        let certificate = Certificate {
            serial: "CA0B".to_owned(),
            sha256: "ab".to_owned(),
            subject: "CN=leaf".to_owned(),
            issuer: "CN=authority".to_owned(),
            names: vec!["example.org".to_owned()],
            not_before: at(NOW - 100),
            not_after: at(NOW + 100),
            chain_not_after: at(NOW + 90),
            chain_certificates: 2,
        };
        let in_force = InForce {
            generation: 3,
            certificate,
            trigger: "event",
            publication: "atomic",
            noticed: at(NOW - 50),
            published: Timestamp(at(NOW - 50).0 + Duration::from_millis(2)),
            notice_to_publish: Duration::from_millis(2),
            first_handshake: None,
        };
        let set = Set {
            cert: "/tls/tls.crt".to_owned(),
            key: "/tls/tls.key".to_owned(),
            in_force: Some(in_force),
            live_generations: 1,
            on_disk: OnDisk { equals_served: true, ..OnDisk::default() },
            ..Set::default()
        };
        Status {
            version: "1.2.3",
            now: at(NOW),
            uptime: Duration::from_millis(1500),
            phase: Phase::Serving,
            workers: 2,
            connections: Connections { accepted: 9, open: 4, ..Connections::default() },
            stale_limit: Some(Duration::from_secs(300)),
            sets: vec![set],
        }
    }

    fn failure(stands: bool) -> Option<Failure> {
        let text = |text: &str| text.to_owned();
        let (file, part, problem) = (text("/tls/tls.key"), text("private key"), text("is encrypted"));
        Some(Failure { at: at(NOW - 9), stands, file, part, problem, reason: "encrypted_key" })
    }

    fn changed(change: impl FnOnce(&mut Status, &mut Set)) -> Vec<String> {
        let mut status = serving();
        let mut set = status.sets.remove(0);
        change(&mut status, &mut set);
        status.sets.push(set);
        status.obstacles()
    }

    fn differs(seconds: u64) -> OnDisk {
        let differs_for = Some(Duration::from_secs(seconds));
        OnDisk { differs_since: Some(at(NOW - seconds)), differs_for, ..OnDisk::default() }
    }

    #[test]
    fn what_keeps_clients_away() {
        const STALE: &str = "the files have held something else than what is served for 300s";
        let none: &[&str] = &[];
        for (name, obstacles, expected) in [
            ("all is well", changed(|_, _| ()), none),
            ("draining", changed(|status, _| status.phase = Phase::Draining), &["draining"]),
            ("no certificate", changed(|_, set| set.in_force = None), &["no certificate"]),
            (
                "a refused one",
                changed(|_, set| (set.in_force, set.last_failure) = (None, failure(true))),
                &["no certificate: /tls/tls.key: private key: is encrypted"],
            ),
            ("its last second", changed(|status, _| status.now = at(NOW + 100)), none),
            (
                "expired",
                changed(|status, _| status.now = at(NOW + 101)),
                &["certificate CA0B has expired: 2027-01-15T08:01:40.000Z"],
            ),
            ("differs for a moment", changed(|_, set| set.on_disk = differs(299)), none),
            ("differs for long", changed(|_, set| set.on_disk = differs(300)), &[STALE]),
            (
                "differs without a limit",
                changed(|status, set| (status.stale_limit, set.on_disk) = (None, differs(9999))),
                none,
            ),
            (
                "differed before there was one",
                changed(|_, set| (set.in_force, set.on_disk) = (None, differs(300))),
                &["no certificate"],
            ),
            (
                "a failure that is over explains nothing",
                changed(|_, set| (set.on_disk, set.last_failure) = (differs(300), failure(false))),
                &[STALE],
            ),
        ] {
            assert_eq!(obstacles, expected, "{name}");
        }
        let explained = changed(|_, set| (set.on_disk, set.last_failure) = (differs(300), failure(true)));
        assert_eq!(explained, [format!("{STALE}: /tls/tls.key: private key: is encrypted")]);
    }

    #[test]
    fn the_document_has_the_verdict_and_the_facts() {
        let document: serde_json::Value = serde_json::from_str(&serving().json().unwrap()).unwrap();
        for (pointer, expected) in [
            ("/ready", json!(true)),
            ("/obstacles", json!([])),
            ("/version", json!("1.2.3")),
            ("/now", json!("2027-01-15T08:00:00.000Z")),
            ("/uptime_seconds", json!(1.5)),
            ("/phase", json!("serving")),
            ("/workers", json!(2)),
            ("/connections/open", json!(4)),
            ("/connections/by_generation/previous", json!(0)),
            ("/stale_limit_seconds", json!(300.0)),
            ("/sets/0/cert", json!("/tls/tls.crt")),
            ("/sets/0/in_force/generation", json!(3)),
            ("/sets/0/in_force/certificate/names/0", json!("example.org")),
            ("/sets/0/in_force/certificate/not_after", json!("2027-01-15T08:01:40.000Z")),
            ("/sets/0/in_force/published", json!("2027-01-15T07:59:10.002Z")),
            ("/sets/0/in_force/notice_to_publish_seconds", json!(0.002)),
            ("/sets/0/in_force/first_handshake", json!(null)),
            ("/sets/0/on_disk/equals_served", json!(true)),
            ("/sets/0/on_disk/differs_seconds", json!(null)),
            ("/sets/0/watcher/mode", json!("events")),
        ] {
            assert_eq!(document.pointer(pointer), Some(&expected), "{pointer} {document:#}");
        }
        let mut draining = serving();
        draining.phase = Phase::Draining;
        let document: serde_json::Value = serde_json::from_str(&draining.json().unwrap()).unwrap();
        assert_eq!((&document["ready"], &document["obstacles"][0]), (&json!(false), &json!("draining")));
    }

    #[test]
    fn no_date_of_a_certificate_is_beyond_showing() {
        let epoch = SystemTime::UNIX_EPOCH;
        for (moment, shown) in [
            (epoch, "1970-01-01T00:00:00.000Z"),
            (epoch - Duration::from_secs(86_400), "@-86400"),
            (epoch + Duration::from_secs(YEAR_10000 - 1), "9999-12-31T23:59:59.000Z"),
            (epoch + Duration::from_secs(YEAR_10000), "@253402300800"),
        ] {
            assert_eq!(Timestamp(moment).to_string(), shown);
        }
    }
}
