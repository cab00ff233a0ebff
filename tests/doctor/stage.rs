//! A folder with certificates in it, and what the program answers about them.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::SystemTime;

use serde_json::Value;
use tempfile::TempDir;
use tlsidecar::demo::authority::{Authority, Leaf, Profile};

const DOCUMENT: &str = include_str!("../../docs/configuration.md");

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_tlsidecar");

/// A folder that is gone afterwards, and an authority.
pub(crate) struct Stage {
    folder: TempDir,
    authority: Authority,
    now: SystemTime,
}

/// What the program said, in both forms.
pub(crate) struct Answer {
    pub(crate) code: Option<i32>,
    pub(crate) text: String,
    pub(crate) json: Value,
}

#[expect(clippy::disallowed_methods, reason = "a test may look at the calendar")]
fn today() -> SystemTime {
    SystemTime::now()
}

impl Stage {
    pub(crate) fn new() -> Self {
        let now = today();
        let folder = TempDir::new().unwrap();
        // Nobody else gets in: rights are the business of the tests that set others.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        Self { folder, authority: Authority::new("test root", now).unwrap(), now }
    }

    pub(crate) fn issue(&mut self) -> Leaf {
        self.authority.issue().unwrap()
    }

    pub(crate) fn issue_between(&mut self, life: impl Fn(SystemTime) -> (SystemTime, SystemTime)) -> Leaf {
        let (not_before, not_after) = life(self.now);
        let profile = Profile { not_before, not_after, ..self.authority.profile() };
        self.authority.issue_as(&profile).unwrap()
    }

    pub(crate) fn root_pem(&self) -> String {
        self.authority.root_pem()
    }

    /// Below the folder, which is no link.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn set_mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Writes both files and asks about them.
    pub(crate) fn pair(&self, certificate: &str, key: &str) -> Answer {
        self.write("tls.crt", certificate);
        self.write("tls.key", key);
        self.doctor(&self.path("tls.crt"), &self.path("tls.key"))
    }

    pub(crate) fn doctor(&self, cert: &Path, key: &Path) -> Answer {
        self.doctor_with(cert, key, &[])
    }

    pub(crate) fn doctor_with(&self, cert: &Path, key: &Path, flags: &[&str]) -> Answer {
        Answer::of(|format| {
            let words = words(cert, key).into_iter().chain(flags.iter().map(OsString::from));
            self.program(&words.chain(format.map(OsString::from)).collect::<Vec<_>>())
        })
    }

    pub(crate) fn program<T: AsRef<OsStr>>(&self, words: &[T]) -> Output {
        program(Command::new(PROGRAM).current_dir(self.folder.path()).args(words))
    }
}

/// The words that ask about two files.
pub(crate) fn words(cert: &Path, key: &Path) -> Vec<OsString> {
    vec!["doctor".into(), "--cert".into(), cert.into(), "--key".into(), key.into()]
}

/// Runs a command to its end, without what the environment would configure.
pub(crate) fn program(command: &mut Command) -> Output {
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TLSIDECAR_"))
    {
        command.env_remove(name);
    }
    command.output().unwrap()
}

/// The leaf's certificate without that of its issuer.
pub(crate) fn leaf_alone(leaf: &Leaf) -> String {
    const END: &str = "-----END CERTIFICATE-----\n";
    let (first, _) = leaf.chain_pem.split_once(&END.replace('\n', "")).unwrap();
    format!("{first}{END}")
}

impl Answer {
    /// Asks for text, then for JSON: `run` is given the flag.
    pub(crate) fn of(run: impl Fn(Option<&str>) -> Output) -> Self {
        let (text, json) = (run(None), run(Some("--json")));
        let whole = |output: &Output| String::from_utf8(output.stdout.clone()).unwrap();
        assert_eq!(text.status.code(), json.status.code());
        assert!(text.stderr.is_empty(), "{}", String::from_utf8_lossy(&text.stderr));
        assert!(!whole(&text).contains('\u{1b}'), "a pipe gets no colours");
        let json = serde_json::from_str(&whole(&json)).unwrap();
        Self { code: text.status.code(), text: whole(&text), json }
    }

    /// The exit code, and each finding as `severity code`. Each must be in the text with what to do.
    pub(crate) fn assert(&self, code: i32, findings: &[&str]) {
        let word = |finding: &Value, name: &str| finding[name].as_str().unwrap().to_owned();
        // Of the machine that the tests run on nothing is asked.
        let is_of_machine = |finding: &&Value| match finding["code"].as_str() {
            Some("inotify_nearly_used") => !findings.iter().any(|expected| expected.contains("inotify")),
            Some("writable_by_others") => !word(finding, "path").contains("/.tmp"),
            _ => false,
        };
        let all = self.json["findings"].as_array().unwrap();
        let listed: Vec<&Value> = all.iter().filter(|finding| !is_of_machine(finding)).collect();
        let found: Vec<String> = listed
            .iter()
            .map(|finding| format!("{} {}", word(finding, "severity"), word(finding, "code")))
            .collect();
        assert_eq!(
            (self.code, found),
            (Some(code), findings.iter().map(ToString::to_string).collect()),
            "{}",
            self.text
        );
        assert_eq!(self.json["verdict"], if code == 0 { "well" } else { "ill" });
        for finding in listed {
            let (code, severity) = (word(finding, "code"), word(finding, "severity"));
            let mut rows = DOCUMENT.lines().filter(|line| line.contains(&format!("`{code}`")));
            let is_documented = |row: &str| row.split('|').nth(2).is_some_and(|cell| cell.trim() == severity);
            // Of an end that was foreseen the row itself tells.
            assert!(rows.any(|row| is_documented(row) || code == "expired"), "{severity} {code}");
            assert!(word(finding, "advice").len() > 10);
            for name in ["problem", "advice"] {
                assert!(self.text.contains(&word(finding, name)), "{name} of {finding}\n{}", self.text);
            }
        }
    }

    /// The steps of a file as `kind path -> text`.
    pub(crate) fn steps(&self, file: usize) -> Vec<String> {
        let steps = self.json["files"][file]["steps"].as_array().unwrap();
        let word = |step: &Value, name: &str| step[name].as_str().map(str::to_owned);
        let line = |step: &Value| {
            let text = word(step, "link_text").map(|text| format!(" -> {text}")).unwrap_or_default();
            format!("{} {}{text}", word(step, "kind").unwrap(), word(step, "path").unwrap())
        };
        steps.iter().map(line).collect()
    }
}
