//! One value's text to the value: words, switches, counts, durations, lists, paths. A refusal says what is wrong and
//! what would be right; where it stood is not known here. Shown by the tables below and in `tests/configuration.rs`.

use std::ffi::OsStr;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::limits::{ALPN_NAME_BYTES_MAX, LIST_ENTRIES_MAX, PATH_BYTES_MAX, Span};
use super::tls_names::{self, Named};

/// The value as text; everything but a path must be UTF-8.
pub(super) fn utf8(value: &OsStr) -> Result<&str, String> {
    value.to_str().map(str::trim).ok_or_else(|| "is not valid UTF-8".into())
}

/// The meaning of one of a few words, whatever the case of its letters.
pub(super) fn word<T: Copy>(value: &OsStr, meanings: &[(&str, T)]) -> Result<T, String> {
    let value = utf8(value)?;
    let found = meanings.iter().find(|(word, _)| word.eq_ignore_ascii_case(value));
    found.map(|&(_, meaning)| meaning).ok_or_else(|| {
        let words: Vec<_> = meanings.iter().map(|&(word, _)| word).collect();
        format!("is not one of {}", words.join(", "))
    })
}

/// `on` or `off` for a switch.
pub(super) fn switch<T: Copy>(value: &OsStr, on: T, off: T) -> Result<T, String> {
    word(value, &[("true", on), ("false", off), ("1", on), ("0", off), ("yes", on), ("no", off)])
}

/// A whole number.
pub(super) fn count(value: &OsStr, span: Span<u32>) -> Result<NonZeroUsize, String> {
    let problem = || format!("is not a whole number from {} to {}", span.least, span.most);
    let value = utf8(value)?;
    let number: u32 = value.parse().map_err(|_| problem())?;
    let count = usize::try_from(number).ok().and_then(NonZeroUsize::new);
    count.filter(|_| (span.least..=span.most).contains(&number)).ok_or_else(problem)
}

/// A whole number, or 0 for no limit.
pub(super) fn count_or_unlimited(value: &OsStr, span: Span<u32>) -> Result<Option<NonZeroUsize>, String> {
    if utf8(value)? == "0" {
        return Ok(None);
    }
    count(value, span).map(Some).map_err(|problem| format!("{problem}, nor 0 for no limit"))
}

/// A duration with units; a bare 0 needs none.
pub(super) fn duration(value: &OsStr, span: Span<Duration>) -> Result<Duration, String> {
    let duration = unbounded_duration(utf8(value)?)?;
    if duration < span.least || duration > span.most {
        let (least, most) = (humantime::format_duration(span.least), humantime::format_duration(span.most));
        return Err(format!("is not between {least} and {most}"));
    }
    Ok(duration)
}

/// A duration with units, or 0 for never.
pub(super) fn duration_or_off(value: &OsStr, span: Span<Duration>) -> Result<Option<Duration>, String> {
    if unbounded_duration(utf8(value)?)?.is_zero() {
        return Ok(None);
    }
    duration(value, span).map(Some).map_err(|problem| format!("{problem}, nor 0 for off"))
}

fn unbounded_duration(value: &str) -> Result<Duration, String> {
    if value == "0" {
        return Ok(Duration::ZERO);
    }
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("has no unit; write {value}s for seconds"));
    }
    humantime::parse_duration(value)
        .map_err(|_| "is not a duration; write for example 250ms, 10s, 1m 30s or 2h".into())
}

/// The code points of a comma-separated list of names, in its order.
pub(super) fn code_points(value: &OsStr, table: &'static [Named]) -> Result<Vec<u16>, String> {
    let mut code_points = Vec::new();
    for name in list(utf8(value)?)? {
        let Some(named) = tls_names::by_name(table, name) else {
            let known: Vec<_> = table.iter().map(|named| named.name).collect();
            return Err(format!("names {name:?}, which is not one of {}", known.join(", ")));
        };
        if code_points.contains(&named.code_point) {
            return Err(format!("names {} twice", named.name));
        }
        code_points.push(named.code_point);
    }
    Ok(code_points)
}

/// The application protocols of a comma-separated list, in its order.
pub(super) fn alpn(value: &OsStr) -> Result<Vec<Vec<u8>>, String> {
    let mut protocols: Vec<Vec<u8>> = Vec::new();
    for name in list(utf8(value)?)? {
        if name.len() > ALPN_NAME_BYTES_MAX {
            return Err(format!("has a name of {} bytes; the most is {ALPN_NAME_BYTES_MAX}", name.len()));
        }
        if protocols.iter().any(|protocol| protocol == name.as_bytes()) {
            return Err(format!("names {name:?} twice"));
        }
        protocols.push(name.as_bytes().to_vec());
    }
    Ok(protocols)
}

fn list(value: &str) -> Result<Vec<&str>, String> {
    if value.is_empty() {
        return Err("is empty; write names separated by commas".into());
    }
    let entries: Vec<_> = value.split(',').map(str::trim).collect();
    if entries.iter().any(|entry| entry.is_empty()) {
        return Err("has an empty name; write names separated by single commas".into());
    }
    if entries.len() > LIST_ENTRIES_MAX {
        return Err(format!("has {} names; the most is {LIST_ENTRIES_MAX}", entries.len()));
    }
    Ok(entries)
}

/// The absolute path of a file; only its text is looked at. `..` and links stay: they mean what the file system says
/// when it is asked.
pub(super) fn file(value: &OsStr, working_directory: &Path) -> Result<PathBuf, String> {
    let bytes = value.as_bytes();
    if bytes.is_empty() {
        return Err("is empty; write the path of a file".into());
    }
    if bytes.contains(&0) {
        return Err("has a NUL byte, which no path has".into());
    }
    if bytes.ends_with(b"/") {
        return Err(
            "ends with a slash, as only the path of a directory does; write the path of a file".into()
        );
    }
    if [&b"/."[..], b"/.."].iter().any(|end| bytes.ends_with(end)) || bytes == b"." || bytes == b".." {
        return Err("is a directory; write the path of a file in it".into());
    }
    let path = working_directory.join(value);
    let length_bytes = path.as_os_str().len();
    if length_bytes > PATH_BYTES_MAX {
        return Err(format!("is a path of {length_bytes} bytes; the most is {PATH_BYTES_MAX}"));
    }
    Ok(path)
}
