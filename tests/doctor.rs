//! `tlsidecar doctor` on real folders, driven as a person or an init container would: what it says of each layout and of
//! each thing that can be wrong, and with which exit code.
//!
//! What needs root, a namespace or a tool that is not there prints why it was left out.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    missing_docs,
    unreachable_pub,
    reason = "a failed assertion is a test's verdict, and nobody uses a test as a library"
)]

#[path = "doctor/acceptance.rs"]
mod acceptance;
#[path = "doctor/rights.rs"]
mod rights;
#[path = "doctor/stage.rs"]
mod stage;
#[path = "doctor/surroundings.rs"]
mod surroundings;

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tlsidecar::demo::volume::{Order, Volume};

use stage::{Stage, leaf_alone};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[test]
fn a_kubelet_volume_is_well_and_every_look_up_is_shown() {
    let mut stage = Stage::new();
    let leaf = stage.issue();
    let mut volume = Volume::create(stage.path("volume"), Order::LinksLast).unwrap();
    let swap = volume
        .write(&[("tls.crt", leaf.chain_pem.as_bytes()), ("tls.key", leaf.key_pem.as_bytes())])
        .unwrap();
    let answer = stage.doctor(&volume.path("tls.crt"), &volume.path("tls.key"));
    answer.assert(0, &[]);
    let generation = swap.directory.to_str().unwrap().to_owned();
    let data = volume.path("..data").to_str().unwrap().to_owned();
    let file = volume.path("tls.crt").to_str().unwrap().to_owned();
    let steps = answer.steps(0);
    let end = &steps[steps.len() - 5..];
    let name = generation.rsplit('/').next().unwrap();
    assert_eq!(
        end,
        [
            format!("directory {}", volume.root().display()),
            format!("link {file} -> ..data/tls.crt"),
            format!("link {data} -> {name}"),
            format!("directory {generation}"),
            format!("file {generation}/tls.crt"),
        ]
    );
    assert_eq!(steps[0], "directory /");
    assert!(answer.text.contains("All is well"), "{}", answer.text);
    assert!(answer.text.contains("every change would be an event"), "{}", answer.text);
    assert_eq!(answer.json["pair"], "good");
    assert_eq!(answer.json["certificates"][0]["names"][0], "localhost");
}

#[expect(
    clippy::disallowed_methods,
    reason = "a writer that is never done, and yet leaves the disk to others"
)]
fn pause() {
    std::thread::sleep(Duration::from_millis(1));
}

#[test]
fn a_volume_that_is_swapped_all_the_time_is_well() {
    let mut stage = Stage::new();
    let leaf = stage.issue();
    let mut volume = Volume::create(stage.path("volume"), Order::LinksLast).unwrap();
    let (cert, key) = (volume.path("tls.crt"), volume.path("tls.key"));
    let payload = [("tls.crt", leaf.chain_pem.as_bytes()), ("tls.key", leaf.key_pem.as_bytes())];
    volume.write(&payload).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let writer = threads.spawn(|| {
            let mut swaps = 0;
            while !done.load(Ordering::Relaxed) {
                volume.write(&payload).unwrap();
                swaps += 1;
                pause();
            }
            swaps
        });
        let examine = || (0..6).for_each(|_| stage.doctor(&cert, &key).assert(0, &[]));
        let examined = std::panic::catch_unwind(std::panic::AssertUnwindSafe(examine));
        done.store(true, Ordering::Relaxed);
        assert!(writer.join().unwrap() > 6);
        examined.unwrap();
    });
}

#[test]
fn a_certbot_layout_is_followed_through_its_parent_directories() {
    let mut stage = Stage::new();
    let leaf = stage.issue();
    for directory in ["live/x", "archive/x"] {
        fs::create_dir_all(stage.path(directory)).unwrap();
    }
    for (name, text) in [("fullchain", &leaf.chain_pem), ("privkey", &leaf.key_pem)] {
        stage.write(&format!("archive/x/{name}1.pem"), text);
        symlink(format!("../../archive/x/{name}1.pem"), stage.path(&format!("live/x/{name}.pem"))).unwrap();
    }
    let answer = stage.doctor(&stage.path("live/x/fullchain.pem"), &stage.path("live/x/privkey.pem"));
    answer.assert(0, &[]);
    let root = stage.path("").display().to_string();
    let root = root.trim_end_matches('/');
    let steps = answer.steps(1);
    assert_eq!(
        steps[steps.len() - 8..],
        [
            format!("directory {root}/live"),
            format!("directory {root}/live/x"),
            format!("link {root}/live/x/privkey.pem -> ../../archive/x/privkey1.pem"),
            format!("directory {root}/live"),
            format!("directory {root}"),
            format!("directory {root}/archive"),
            format!("directory {root}/archive/x"),
            format!("file {root}/archive/x/privkey1.pem"),
        ]
    );
}

#[test]
fn an_absolute_link_starts_again_at_the_root() {
    let mut stage = Stage::new();
    let leaf = stage.issue();
    for directory in ["a/b", "c"] {
        fs::create_dir_all(stage.path(directory)).unwrap();
    }
    stage.write("c/both.pem", &format!("{}{}", leaf.key_pem, leaf.chain_pem));
    symlink(stage.path("c"), stage.path("a/b/current")).unwrap();
    let file = stage.path("a/b/.././b//current/both.pem");
    let answer = stage.doctor(&file, &file);
    answer.assert(0, &[]);
    let (root, steps) = (stage.path("c"), answer.steps(0));
    let root = root.parent().unwrap().display();
    let link = steps.iter().position(|step| step.starts_with("link ")).unwrap();
    assert_eq!(
        steps[link - 2..=link],
        [
            format!("directory {root}/a"),
            format!("directory {root}/a/b"),
            format!("link {root}/a/b/current -> {root}/c"),
        ]
    );
    assert_eq!(steps[link + 1], steps[1], "after the root comes its first name");
    assert_eq!(steps.last(), Some(&format!("file {root}/c/both.pem")));
}

#[test]
fn a_key_of_another_certificate_is_an_error_and_the_certificate_is_shown_all_the_same() {
    let mut stage = Stage::new();
    let (one, two) = (stage.issue(), stage.issue());
    let answer = stage.pair(&one.chain_pem, &two.key_pem);
    answer.assert(1, &["error key_mismatch"]);
    assert_eq!(answer.json["pair"], "faulty");
    assert_eq!(answer.json["certificates"][0]["serial"], format!("{:X}", one.serial));
    assert_eq!(answer.json["findings"][0]["path"], answer.json["files"][1]["path"]);
}

#[test]
fn an_expired_certificate_is_an_error_unless_it_is_allowed() {
    let mut stage = Stage::new();
    let leaf = stage.issue_between(|now| (now - 90 * DAY, now - DAY));
    let refused = stage.pair(&leaf.chain_pem, &leaf.key_pem);
    refused.assert(1, &["error expired"]);
    assert!(
        refused.text.contains("serving does not begin with it unless --allow-expired"),
        "{}",
        refused.text
    );
    let (cert, key) = (stage.path("tls.crt"), stage.path("tls.key"));
    let allowed = stage.doctor_with(&cert, &key, &["--allow-expired"]);
    allowed.assert(0, &["hint expired"]);
    let told = "served at start, or in place of one that has expired too";
    assert!(allowed.text.contains(told), "{}", allowed.text);
}

#[test]
fn a_path_too_deep_to_be_watched_is_read_and_told() {
    let mut stage = Stage::new();
    let leaf = stage.issue();
    let deep = ["d"; 300].join("/");
    fs::create_dir_all(stage.path(&deep)).unwrap();
    let [cert, key] = ["tls.crt", "tls.key"].map(|name| format!("{deep}/{name}"));
    stage.write(&cert, &leaf.chain_pem);
    stage.write(&key, &leaf.key_pem);
    let answer = stage.doctor(&stage.path(&cert), &stage.path(&key));
    answer.assert(0, &["hint path_too_deep", "hint path_too_deep"]);
    assert!(answer.text.contains("takes more than 256 look-ups"), "{}", answer.text);
    assert!(answer.text.contains("not every change would be an event"), "{}", answer.text);
}

#[test]
fn dates_to_come_and_dates_soon_over_are_told() {
    let mut stage = Stage::new();
    let early = stage.issue_between(|now| (now + DAY, now + 90 * DAY));
    stage.pair(&early.chain_pem, &early.key_pem).assert(1, &["error not_yet_valid"]);
    let late = stage.issue_between(|now| (now - 90 * DAY, now + 3 * DAY));
    stage.pair(&late.chain_pem, &late.key_pem).assert(0, &["hint expires_soon"]);
}

#[test]
fn a_leaf_without_its_issuer_is_a_hint_for_its_issuer_may_be_trusted() {
    let mut stage = Stage::new();
    let leaf = stage.issue();
    let answer = stage.pair(&leaf_alone(&leaf), &leaf.key_pem);
    answer.assert(0, &["hint issuer_missing"]);
    assert!(answer.text.contains("All is well, with"), "{}", answer.text);
    assert!(answer.text.contains("CN=test root"), "{}", answer.text);
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let mut stage = Stage::new();
    let leaf = stage.issue();
    let cut = &leaf.chain_pem[..leaf.chain_pem.len() - 30];
    stage.pair(cut, "").assert(1, &["error missing_end", "error empty"]);
    let disordered = format!("{}{}", stage.root_pem(), leaf_alone(&leaf));
    stage.pair(&disordered, &leaf.key_pem).assert(1, &["error not_issued_by_next"]);
    stage.pair(&leaf.key_pem, &leaf.chain_pem).assert(1, &["error no_certificate", "error no_key"]);
}

#[test]
fn a_path_that_leads_to_no_file_is_told_with_the_place_where_it_breaks() {
    let mut stage = Stage::new();
    let leaf = stage.issue();
    stage.pair(&leaf.chain_pem, &leaf.key_pem).assert(0, &[]);
    let link = |text: &str, name: &str| symlink(text, stage.path(name)).unwrap();
    link("nowhere/tls.crt", "dangling");
    link("loop-b", "loop-a");
    link("loop-a", "loop-b");
    nix::unistd::mkfifo(&stage.path("fifo"), nix::sys::stat::Mode::S_IRUSR).unwrap();
    fs::create_dir(stage.path("folder")).unwrap();
    stage.write("long", &"x".repeat((1 << 20) + 1));
    for (name, code, shown) in [
        ("missing/tls.crt", "missing", "missing does not exist"),
        ("dangling", "missing", "dangling leads there"),
        ("loop-a", "link_loop", "the links lead in a circle"),
        ("fifo", "not_a_file", "fifo is not a regular file"),
        ("folder", "is_a_directory", "folder is a directory"),
        ("tls.crt/more", "not_a_directory", "tls.crt is not a directory"),
        ("long", "too_large", "larger than 1 MiB"),
    ] {
        let answer = stage.doctor(&stage.path(name), &stage.path("tls.key"));
        answer.assert(1, &[&format!("error {code}")]);
        assert!(answer.text.contains(shown), "{name}: {}", answer.text);
        assert_eq!(answer.json["pair"], "unknown", "{name}");
    }
}

#[test]
fn a_list_of_suites_for_other_keys_is_a_hint_for_the_newest_version_is_on() {
    let mut stage = Stage::new();
    let leaf = stage.issue();
    stage.pair(&leaf.chain_pem, &leaf.key_pem).assert(0, &[]);
    let (cert, key) = (stage.path("tls.crt"), stage.path("tls.key"));
    let suites = ["--tls-cipher-suites", "ECDHE-RSA-AES128-GCM-SHA256"];
    let answer = stage.doctor_with(&cert, &key, &suites);
    answer.assert(0, &["hint useless_version"]);
    assert!(answer.text.contains("no client of it can connect"), "{}", answer.text);
    let newest = ["--tls-min-version=1.3", "--tls-cipher-suites", "TLS_AES_128_GCM_SHA256"];
    stage.doctor_with(&cert, &key, &newest).assert(0, &[]);
}

#[test]
fn wrong_usage_has_an_exit_code_of_its_own() {
    let stage = Stage::new();
    fs::create_dir(stage.path("folder")).unwrap();
    stage.write("file", "");
    for words in [
        &["doctor"][..],
        &["doctor", "--cert=a"],
        &["doctor", "--cert=a", "--key=b", "--listen=:1"],
        &["doctor", "--cert=folder/", "--key=file"],
        &["doctor", "--cert=file", "--key=file/"],
    ] {
        let output = stage.program(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{words:?}");
    }
}

#[test]
fn the_document_for_machines_keeps_its_names() {
    let mut stage = Stage::new();
    let leaf = stage.issue();
    let answer = stage.pair(&leaf_alone(&leaf), &leaf.key_pem);
    let names = |value: &serde_json::Value| {
        let mut names: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
        names.sort();
        names.join(" ")
    };
    let json = &answer.json;
    for (value, expected) in [
        (
            json,
            "certificates events examined expired_allowed files findings has_proc pair verdict version viewer",
        ),
        (&json["findings"][0], "advice code path problem severity"),
        (&json["files"][0], "content path purpose replacement steps"),
        (&json["files"][0]["steps"][0], "followed_by inode kind link_text path"),
        (
            &json["files"][0]["steps"][0]["inode"],
            "gid group hard_links is_mount_root mode mount size_bytes uid user",
        ),
        (&json["files"][0]["steps"][0]["inode"]["mount"], "filesystem point root"),
        (&json["certificates"][0], "issuer names not_after not_before position serial sha256 subject"),
        (&json["events"], "in_use limits obstacles watches"),
        (&json["events"]["limits"], "max_queued_events max_user_instances max_user_watches"),
        (&json["events"]["in_use"], "instances processes_hidden watches"),
        (&json["viewer"], "gid group supplementary_groups uid user"),
    ] {
        assert_eq!(names(value), expected);
    }
    assert_eq!(json["verdict"], "well");
}

#[test]
fn no_part_of_a_key_is_ever_shown() {
    let mut stage = Stage::new();
    let (leaf, other) = (stage.issue(), stage.issue());
    let combined = format!("{}{}", leaf.key_pem, leaf.chain_pem);
    let cut = &leaf.key_pem[..leaf.key_pem.len() / 2];
    for (certificate, key) in [
        (&*leaf.chain_pem, &*leaf.key_pem),
        (&leaf.chain_pem, &other.key_pem),
        (&leaf.key_pem, &leaf.chain_pem),
        (&leaf.chain_pem, cut),
        (&combined, &combined),
        (cut, cut),
    ] {
        let answer = stage.pair(certificate, key);
        let shown = format!("{}{}", answer.text, answer.json);
        let lines = leaf.key_pem.lines().chain(other.key_pem.lines());
        let secret = lines.filter(|line| !line.starts_with('-') && line.len() > 8);
        assert!(secret.clone().count() >= 4);
        for line in secret {
            assert!(!shown.contains(&line[..8]), "{shown}");
        }
    }
}
