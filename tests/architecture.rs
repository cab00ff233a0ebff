//! The house rules, read from the sources: which module may name which, who owns each outside crate, how long a file may
//! be, where unsafe code may stand. A new arrow between modules is a change of the table below.
//!
//! It knows the sources as text; what the compiler and clippy already hold is not repeated. The last tests plant
//! violations and see them caught.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub,
    reason = "a failed assertion is a test's verdict, and nobody uses a test as a library"
)]

#[path = "architecture/source.rs"]
mod source;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use source::{Mention, Named, Token, declarations, mentions, tokens};

/// What one module may name: of the crate, and of other crates. The longest name that fits a file is its row.
struct Row {
    module: &'static str,
    inside: &'static [&'static str],
    outside: &'static [&'static str],
}

const fn row(module: &'static str, inside: &'static [&'static str], outside: &'static [&'static str]) -> Row {
    Row { module, inside, outside }
}

const VOCABULARY: &[&str] = &["deadlines", "metrics", "printable"];
const BELOW_SERVER: &[&str] =
    &["admin", "certs", "config", "deadlines", "metrics", "printable", "relay", "sys", "watch"];

const TABLE: &[Row] = &[
    // The roots.
    row("lib", &[], &[]),
    row("main", &["config", "demo", "doctor", "printable", "server"], &["anyhow", "tracing"]),
    row("log", &["config"], &["tracing", "tracing_subscriber"]),
    // Vocabulary.
    row("deadlines", &[], &[]),
    row("metrics", &[], &["prometheus_client"]),
    row("printable", &[], &[]),
    // Raw calls.
    row("sys", &[], &["libc", "nix", "zeroize"]),
    row("sys::inotify", &[], &["inotify", "libc", "nix"]),
    // The domain: no arrows among these.
    row("admin", VOCABULARY, &["httparse", "humantime", "serde", "serde_json"]),
    row(
        "certs",
        VOCABULARY,
        &["arc_swap", "aws_lc_rs", "rustls", "rustls_pki_types", "x509_parser", "zeroize"],
    ),
    row("config", VOCABULARY, &["clap", "humantime"]),
    row("relay", VOCABULARY, &[]),
    row("relay::tls", VOCABULARY, &["rustls", "rustls_pki_types"]),
    row("watch", VOCABULARY, &[]),
    // The shells.
    row("server", BELOW_SERVER, &["mio", "slab", "tracing"]),
    row("server::admin", BELOW_SERVER, &["httparse", "mio", "slab", "tracing"]),
    row("demo", &[], &["humantime", "rcgen", "rustls", "rustls_pki_types", "x509_parser"]),
    row("demo::serving", &["config", "server"], &["tracing"]),
    row("doctor", &["certs", "config", "printable", "server", "sys", "watch"], &["serde", "serde_json"]),
];

/// Modules that are functions of their arguments, and what of the standard library would make them more than that.
const PURE: &[&str] = &["admin", "certs", "deadlines", "metrics", "printable", "relay", "watch"];
const WORLD: &[&str] = &[
    "std::env",
    "std::fs",
    "std::net::TcpListener",
    "std::net::TcpStream",
    "std::net::UdpSocket",
    "std::os::unix::net",
    "std::process",
    "std::thread",
];

const FILE_LINES_MAX: usize = 500;
const EMPTY_NAMES: &[&str] = &["common", "helper", "helpers", "manager", "misc", "util", "utils"];

/// A file of the repository with what it is in the crate.
struct File {
    path: PathBuf,
    tokens: Vec<Token>,
    /// The module that the file is: empty for the roots.
    module: Vec<String>,
    /// The whole file is compiled for tests only.
    test: bool,
}

impl File {
    fn new(path: PathBuf, text: &str) -> Self {
        let inside = path.strip_prefix(root().join("src")).unwrap_or(&path).with_extension("");
        let mut module: Vec<String> = inside.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        if matches!(module.last().map(String::as_str), Some("mod" | "lib" | "main"))
            && inside != Path::new("mod")
        {
            module.pop();
        }
        let tokens = tokens(text);
        Self { path, tokens, module, test: false }
    }

    fn row(&self) -> Option<&'static Row> {
        let own = match self.module.as_slice() {
            [] => self.path.file_stem().unwrap().to_string_lossy().into_owned(),
            module => module.join("::"),
        };
        let fits = |row: &&Row| own == row.module || own.starts_with(&format!("{}::", row.module));
        TABLE.iter().filter(fits).max_by_key(|row| row.module.len())
    }

    fn mentions(&self) -> Vec<Mention> {
        let library = self.path.ends_with("src/main.rs").then_some("tlsidecar");
        mentions(&self.tokens, &self.module, library)
    }

    fn place(&self, line: usize) -> String {
        format!("{}:{line}", self.path.strip_prefix(root()).unwrap_or(&self.path).display())
    }

    /// Lines with code that the product is made of.
    fn code_lines(&self) -> usize {
        let lines: BTreeSet<usize> =
            self.tokens.iter().filter(|token| !token.test).map(|token| token.line).collect();
        lines.len()
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![root().join(folder)]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().unwrap_or_default() == extension {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The sources of the product, each marked when only tests compile it.
fn sources() -> Vec<File> {
    let read = |path: PathBuf| File::new(path.clone(), &fs::read_to_string(path).unwrap());
    let mut sources: Vec<File> = files("src", "rs").into_iter().map(read).collect();
    let for_tests: Vec<Vec<String>> = sources
        .iter()
        .flat_map(|file| {
            declarations(&file.tokens).into_iter().map(|declared| (file.module.clone(), declared))
        })
        .filter(|(_, declared)| declared.test && declared.elsewhere)
        .map(|(module, declared)| [module, vec![declared.name]].concat())
        .collect();
    for file in &mut sources {
        file.test = for_tests.iter().any(|module| file.module.starts_with(module));
        let test = file.test;
        file.tokens.iter_mut().for_each(|token| token.test |= test);
    }
    assert!(!sources.is_empty());
    sources
}

/// The crates that Cargo.toml lists for the product, as code calls them.
fn dependencies() -> BTreeSet<String> {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let section = manifest.split("[dependencies]").nth(1).unwrap().split("\n[").next().unwrap();
    let names: BTreeSet<String> = section
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, _)| name.trim().replace('-', "_"))
        .collect();
    assert!(names.contains("rustls"));
    names
}

/// What is wrong with `mention` in a module of `row`, if anything.
fn verdict(mention: &Mention, row: &Row, dependencies: &BTreeSet<String>) -> Option<String> {
    match &mention.named {
        Named::Inside(path) => {
            let Some(target) = path.first() else {
                return Some("names the crate's root as a whole".to_owned());
            };
            let own = row.module.split("::").next().unwrap() == target;
            // Tests may make certificates and volumes with what the demo has for it.
            let allowed = own || row.module == "lib" || row.inside.contains(&target.as_str());
            let excused = mention.test && target == "demo";
            (!allowed && !excused).then(|| format!("{} may not name crate::{target}", row.module))
        }
        Named::Outside(path) => {
            let name = path.first().unwrap();
            let owned = !dependencies.contains(name) || row.outside.contains(&name.as_str());
            if !owned && !mention.test {
                return Some(format!("{} may not name the crate {name}", row.module));
            }
            let joined = path.join("::");
            let reaches = |world: &&str| joined == *world || joined.starts_with(&format!("{world}::"));
            let pure = PURE.contains(&row.module.split("::").next().unwrap());
            (pure && !mention.test && WORLD.iter().any(reaches))
                .then(|| format!("{} is pure and may not name {joined}", row.module))
        }
    }
}

/// Everything that is wrong with what `file` names.
fn violations(file: &File, dependencies: &BTreeSet<String>) -> Vec<String> {
    let Some(row) = file.row() else {
        return vec![format!("{}: no row of the table is for it", file.place(1))];
    };
    let judged = file.mentions().into_iter().filter_map(|mention| {
        let verdict = verdict(&mention, row, dependencies)?;
        Some(format!("{}: {verdict}", file.place(mention.line)))
    });
    judged.collect()
}

fn assert_none(violations: &[String]) {
    assert!(violations.is_empty(), "\n{}\n", violations.join("\n"));
}

#[test]
fn modules_name_only_what_their_row_allows() {
    let dependencies = dependencies();
    let found: Vec<String> = sources().iter().flat_map(|file| violations(file, &dependencies)).collect();
    assert_none(&found);
}

#[test]
fn every_dependency_has_an_owner_and_every_owned_crate_is_a_dependency() {
    let owned: BTreeSet<String> = TABLE.iter().flat_map(|row| row.outside).map(ToString::to_string).collect();
    assert_eq!(owned, dependencies());
}

#[test]
fn every_source_file_is_part_of_the_crate() {
    let sources = sources();
    let declared: BTreeSet<Vec<String>> = sources
        .iter()
        .flat_map(|file| {
            declarations(&file.tokens).into_iter().map(|declared| (file.module.clone(), declared))
        })
        .filter(|(_, declared)| declared.elsewhere)
        .map(|(module, declared)| [module, vec![declared.name]].concat())
        .collect();
    let orphan = |file: &&File| !file.module.is_empty() && !declared.contains(&file.module);
    let found: Vec<String> = sources.iter().filter(orphan).map(|file| file.place(1)).collect();
    assert_none(&found);
}

#[test]
fn every_file_opens_with_its_purpose() {
    let all = [files("src", "rs"), files("tests", "rs")].concat();
    let silent = |path: &&PathBuf| !fs::read_to_string(path).unwrap().starts_with("//! ");
    let found: Vec<String> = all.iter().filter(silent).map(|path| path.display().to_string()).collect();
    assert_none(&found);
}

#[test]
fn files_stay_short() {
    let long = |file: &File| {
        let lines = file.code_lines();
        (lines > FILE_LINES_MAX).then(|| format!("{}: {lines} lines of code", file.place(1)))
    };
    assert_none(&sources().iter().filter_map(long).collect::<Vec<_>>());
}

/// Unsafe code, and lint attributes that would allow it.
fn unsafe_places(file: &File) -> Vec<String> {
    let raw = file.module.first().is_some_and(|module| module == "sys");
    let words = file.tokens.iter().filter(|token| matches!(token.text.as_str(), "unsafe" | "unsafe_code"));
    if raw { Vec::new() } else { words.map(|token| file.place(token.line)).collect() }
}

#[test]
fn unsafe_code_stays_in_sys() {
    assert_none(&sources().iter().flat_map(unsafe_places).collect::<Vec<_>>());
}

#[test]
fn names_of_files_and_modules_say_something() {
    let paths = [files("src", "rs"), files("tests", "rs")].concat();
    let of_files = paths.iter().flat_map(|path| {
        let below = path.strip_prefix(root()).unwrap().with_extension("");
        below.iter().map(|part| part.to_string_lossy().into_owned()).collect::<Vec<_>>()
    });
    let of_modules = paths.iter().flat_map(|path| declarations(&tokens(&fs::read_to_string(path).unwrap())));
    let names: BTreeSet<String> = of_files.chain(of_modules.map(|declared| declared.name)).collect();
    let empty: Vec<String> = names.into_iter().filter(|name| EMPTY_NAMES.contains(&name.as_str())).collect();
    assert_none(&empty);
}

/// Lines that somebody meant to come back to, and tests that are switched off without a reason.
fn leftovers(text: &str) -> Vec<usize> {
    let marks = ["TO", "FIX", "XX", "HA"].iter().zip(["DO", "ME", "X", "CK"]).map(|(a, b)| format!("{a}{b}"));
    let marks: Vec<String> = marks.collect();
    let left = |line: &str| {
        let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        let ignored = line.trim_start().starts_with("#[ignore") && !line.contains("= \"");
        words.any(|word| marks.iter().any(|mark| mark == word)) || ignored
    };
    text.lines().enumerate().filter(|(_, line)| left(line)).map(|(index, _)| index + 1).collect()
}

#[test]
fn nothing_is_left_for_later() {
    let scripts = ["", "sh", "py"].iter().flat_map(|extension| files("ci", extension));
    let all = [files("src", "rs"), files("tests", "rs"), scripts.collect()].concat();
    let found = all.iter().flat_map(|path| {
        let lines = leftovers(&fs::read_to_string(path).unwrap());
        lines.into_iter().map(move |line| format!("{}:{line}", path.display()))
    });
    assert_none(&found.collect::<Vec<_>>());
}

/// A file of the product that is not there.
fn planted(path: &str, text: &str) -> File {
    File::new(root().join("src").join(path), text)
}

#[test]
fn planted_arrows_are_caught() {
    let dependencies = dependencies();
    for (path, text) in [
        ("certs/store.rs", "use crate::watch::Watcher;"),
        ("certs/store.rs", "use crate::{metrics, watch::Watcher};"),
        ("certs/store.rs", "use crate::{metrics, {deadlines, relay as r}};"),
        ("certs/store.rs", "fn f() { let x = crate::server::start(); }"),
        ("certs/store.rs", "use super::super::config::Config;"),
        ("certs/mod.rs", "use super::config;"),
        ("certs/mod.rs", "mod inner { use super::super::config; }"),
        ("certs/mod.rs", "use super::*;"),
        ("certs/mod.rs", "use crate as everything;"),
        ("certs/mod.rs", "use crate::*;"),
        ("certs/mod.rs", "use crate::{self as everything};"),
        ("certs/mod.rs", "use mio::Poll;"),
        ("certs/mod.rs", "use ::mio::Poll;"),
        ("certs/mod.rs", "use {std::fmt, mio};"),
        ("certs/mod.rs", "extern crate mio;"),
        ("certs/mod.rs", "fn f(poll: &mio::Poll) {}"),
        ("certs/mod.rs", "fn f() -> <mio::Poll as Clone>::Owned {}"),
        ("certs/mod.rs", "#[derive(clap::Parser)] struct A;"),
        ("certs/mod.rs", "const A: &str = \"\\\"\"; use mio::Poll;"),
        ("certs/mod.rs", "const A: char = '\"'; use mio::Poll; const B: char = '\"';"),
        ("certs/mod.rs", "fn f<'a>(x: &'a str) { mio::f() }"),
        ("certs/mod.rs", "const A: &str = r#\"a \" b\"#; use mio::Poll;"),
        ("certs/mod.rs", "/* a /* b */ c */ use mio::Poll;"),
        ("certs/mod.rs", "use std::fs;"),
        ("certs/mod.rs", "fn f() { std::fs::read(\"x\"); }"),
        ("certs/mod.rs", "#[cfg(test)] use tempfile as t; use mio::Poll;"),
        ("certs/mod.rs", "#[cfg(test)] mod tests { fn f() {} } use mio::Poll;"),
        ("certs/mod.rs", "#[cfg(test)] mod tests { use crate::watch::Watcher; }"),
        ("certs/mod.rs", "#[cfg(test)] mod tests { use crate::certs::mio; } fn f() { mio::f() }"),
        ("relay/mod.rs", "use rustls::ServerConfig;"),
        ("relay/tls/deep.rs", "use crate::certs::Bundle;"),
        ("sys/mod.rs", "use crate::metrics::Table;"),
        ("sys/files.rs", "use inotify::Inotify;"),
        ("metrics.rs", "use crate::deadlines::Deadlines;"),
        ("server/mod.rs", "use crate::demo::Volume;"),
        ("main.rs", "use tlsidecar::certs::Store;"),
        ("lib.rs", "use mio::Poll;"),
        ("newcomer.rs", "fn f() {}"),
    ] {
        assert_eq!(violations(&planted(path, text), &dependencies).len(), 1, "{path}: {text}");
    }
}

#[test]
fn what_only_looks_like_an_arrow_is_left_alone() {
    let dependencies = dependencies();
    for (path, text) in [
        ("certs/store.rs", "// use crate::watch::Watcher;\n/* use mio::Poll; */"),
        ("certs/store.rs", "//! [`crate::watch`]\n/// mio::Poll\nfn f() {}"),
        ("certs/store.rs", "const A: &str = \"use mio::Poll; crate::watch::x\";"),
        ("certs/store.rs", "const A: &[u8] = br##\"mio::Poll \"# \"##;"),
        ("certs/store.rs", "use super::Bundle; use crate::certs::Fault; use crate::metrics::Table;"),
        ("certs/mod.rs", "mod tests { use super::*; }"),
        (
            "certs/mod.rs",
            "#[cfg(test)] mod tests { use tempfile::TempDir; use crate::demo::volume::Volume; }",
        ),
        ("certs/mod.rs", "pub(crate) fn f() {} pub(in crate::certs) fn g() {}"),
        ("certs/mod.rs", "use std::net::SocketAddr; use std::time::Duration;"),
        ("certs/mod.rs", "fn f(x: X) { x.mio::<u8>(); }"),
        ("certs/mod.rs", "const A: char = '\\''; const B: u8 = b'\\\\'; const C: char = '\\u{41}';"),
        ("sys/mod.rs", "mod inotify; fn f() { inotify::open() }"),
        ("server/mod.rs", "fn f() { inotify::open() } use crate::sys::inotify;"),
        ("server/mod.rs", "use crate::sys::inotify::{self, Record}; fn f() { inotify::open() }"),
        ("demo/client.rs", "use rustls::crypto::aws_lc_rs; fn f() { aws_lc_rs::default_provider() }"),
        ("server/mod.rs", "use crate::{certs, config::Config, sys::{files, socket}};"),
        ("relay/tls/deep.rs", "use rustls::ServerConfig; use super::super::Half;"),
        (
            "main.rs",
            "use tlsidecar::{config, server}; fn main() -> anyhow::Result<()> { tlsidecar::demo::run() }",
        ),
    ] {
        assert_none(&violations(&planted(path, text), &dependencies));
    }
}

#[test]
fn planted_marks_and_unsafe_code_are_caught() {
    let mark = ["TO", "DO"].concat();
    for text in [
        format!("// {mark}: later"),
        format!("{mark}(me)"),
        "#[ignore]".to_owned(),
        "#[ignore = 3]".to_owned(),
    ] {
        assert_eq!(leftovers(&text), [1], "{text}");
    }
    assert!(leftovers("let todos = 1; // all that is to do\n#[ignore = \"needs a network\"]").is_empty());
    for text in ["fn f() { unsafe { g() } }", "#![allow(unsafe_code)]", "unsafe impl Send for X {}"] {
        assert_eq!(unsafe_places(&planted("relay/mod.rs", text)).len(), 1, "{text}");
        assert!(unsafe_places(&planted("sys/mod.rs", text)).is_empty(), "{text}");
    }
    assert!(unsafe_places(&planted("relay/mod.rs", "// unsafe\nconst A: &str = \"unsafe\";")).is_empty());
}

#[test]
fn tests_and_comments_do_not_count_as_lines_of_code() {
    let text = "//! Header.\n\nfn f() {\n    // why\n}\n\n#[cfg(test)]\nmod tests {\n    fn g() {}\n}\n";
    assert_eq!(planted("relay/mod.rs", text).code_lines(), 2);
}
