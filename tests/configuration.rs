//! The command line as its users meet it: tables of right and wrong values, all faults at once with their places, and
//! `--help`, `docs/configuration.md` and the program held together. Values go through `config::parse`; variables and
//! exit codes through the real binary, with an environment of its own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may stop at the first surprise"
)]

#[path = "configuration/code_points.rs"]
mod code_points;
#[path = "configuration/document.rs"]
mod document;
#[path = "configuration/environment.rs"]
mod environment;
#[path = "configuration/faults.rs"]
mod faults;
#[path = "configuration/values.rs"]
mod values;

use std::ffi::OsString;
use std::path::Path;

use tlsidecar::config::{self, Command, Config, Refusal};

const REQUIRED: [&str; 4] =
    ["--listen=127.0.0.1:8443", "--upstream=127.0.0.1:8080", "--cert=/tls/tls.crt", "--key=/tls/tls.key"];

/// Parses words after the program's name, in the working directory `/srv/here`.
fn parse<T: Into<OsString>>(words: impl IntoIterator<Item = T>) -> Result<Command, Refusal> {
    let words = [OsString::from("tlsidecar")].into_iter().chain(words.into_iter().map(Into::into));
    config::parse(words, Path::new("/srv/here"))
}

/// `serve` with the flags it needs, in which `flags` replace or add some.
fn serve(flags: &[&str]) -> Result<Config, Refusal> {
    let name = |flag: &str| flag.split('=').next().map(str::to_owned);
    let untouched = REQUIRED.iter().filter(|required| flags.iter().all(|flag| name(flag) != name(required)));
    match parse(["serve"].iter().chain(untouched).chain(flags))? {
        Command::Serve(config) => Ok(*config),
        Command::Demo(_) | Command::Doctor(_) => panic!("serve is serve"),
    }
}

/// The lines of a refusal that name a fault.
fn fault_lines(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("  ")).collect()
}
