//! What is wrong with a configuration, and where it was written. Knows no flag by name; a fault never repeats text
//! that looks like PEM, because it may be a private key. Shown by the tests below and by `tests/configuration.rs`.

use std::ffi::{OsStr, OsString};
use std::fmt;

use super::limits::FAULT_VALUE_CHARS_MAX;

/// How PEM text begins; no path or address we accept does.
pub(super) const PEM_MARK: &str = "-----BEGIN ";

/// A value as it was written, and where.
#[derive(Debug, Clone)]
pub(super) struct Text {
    pub(super) place: String,
    pub(super) value: OsString,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The flag or the environment variable it was written in; both flags of a combination.
    pub place: String,
    /// What was written, as far as it may be shown.
    pub value: Option<String>,
    /// What is wrong with it and what would be right.
    pub problem: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            // Debug escapes control characters, so that a value can't draw over the terminal.
            Some(value) => write!(f, "{} {value:?}: {}", self.place, self.problem),
            None => write!(f, "{}: {}", self.place, self.problem),
        }
    }
}

/// Everything that is wrong, in the order of the flags.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults(Vec<Fault>);

impl Faults {
    /// Each fault.
    pub fn iter(&self) -> std::slice::Iter<'_, Fault> {
        self.0.iter()
    }

    /// The checked value, or `None` and one more fault.
    pub(super) fn check<T>(
        &mut self,
        text: &Text,
        checked: impl FnOnce(&OsStr) -> Result<T, String>,
    ) -> Option<T> {
        let checked = match shown(&text.value) {
            Some(_) => checked(&text.value),
            None => Err("holds PEM text; write the name of the file that holds it".into()),
        };
        checked
            .map_err(|problem| {
                self.0.push(Fault { place: text.place.clone(), value: shown(&text.value), problem });
            })
            .ok()
    }

    /// As [`Faults::check`], for a value that must be there.
    pub(super) fn require<T>(
        &mut self,
        text: Option<&Text>,
        flag: &str,
        checked: impl FnOnce(&OsStr) -> Result<T, String>,
    ) -> Option<T> {
        if let Some(text) = text {
            return self.check(text, checked);
        }
        self.add(format!("--{flag}"), &format!("is missing; give it or set {}", variable(flag)));
        None
    }

    /// A fault of two values that are each right.
    pub(super) fn combination(&mut self, texts: [&Text; 2], problem: &str) {
        let [first, second] = texts.map(|text| &text.place);
        self.add(format!("{first} and {second}"), problem);
    }

    fn add(&mut self, place: String, problem: &str) {
        self.0.push(Fault { place, value: None, problem: problem.into() });
    }

    /// `value` if nothing was wrong.
    pub(super) fn or<T>(self, value: Option<T>) -> Result<T, Self> {
        match value {
            Some(value) if self.0.is_empty() => Ok(value),
            Some(_) | None => Err(self),
        }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            1 => write!(f, "error: 1 fault in the configuration")?,
            count => write!(f, "error: {count} faults in the configuration")?,
        }
        self.0.iter().try_for_each(|fault| write!(f, "\n  {fault}"))
    }
}

/// The environment variable that stands in for `--flag`.
pub(super) fn variable(flag: &str) -> String {
    format!("TLSIDECAR_{}", flag.replace('-', "_").to_uppercase())
}

fn shown(value: &OsStr) -> Option<String> {
    let value = value.to_string_lossy();
    if value.contains(PEM_MARK) {
        return None;
    }
    let mut shown: String = value.chars().take(FAULT_VALUE_CHARS_MAX).collect();
    if shown.len() < value.len() {
        shown.push_str("...");
    }
    Some(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault_for(value: &str) -> String {
        let mut faults = Faults::default();
        let text = Text { place: "--key".into(), value: value.into() };
        assert!(faults.check::<()>(&text, |_| Err("is wrong; write x".into())).is_none());
        faults.0[0].to_string()
    }

    #[test]
    fn a_fault_names_place_value_and_problem() {
        assert_eq!(fault_for("abc"), r#"--key "abc": is wrong; write x"#);
    }

    #[test]
    fn control_characters_are_escaped_and_long_values_cut() {
        assert_eq!(fault_for("a\x1b[2J\nb"), r#"--key "a\u{1b}[2J\nb": is wrong; write x"#);
        let long = fault_for(&"é".repeat(5000));
        assert!(long.contains("...\"") && long.len() < 1000, "{long}");
    }

    #[test]
    fn a_key_written_in_place_of_its_path_is_not_repeated() {
        let line = fault_for("-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n");
        assert_eq!(line, "--key: holds PEM text; write the name of the file that holds it");
    }

    #[test]
    fn a_value_that_is_right_is_no_configuration_while_another_is_wrong() {
        let mut faults = Faults::default();
        assert_eq!(faults.clone().or(Some(1)), Ok(1));
        faults.add("--listen and --upstream".into(), "lead to each other");
        assert_eq!(faults.clone().or(Some(1)).unwrap_err().iter().count(), 1);
    }
}
