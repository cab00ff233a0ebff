//! Whom the rights of files and directories keep out, and whom they let in.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::stage::{Answer, PROGRAM, Stage, program, words};

const NOBODY: u32 = 65_534;

/// A readable folder with a pair in `certs`, or the reason why there is no other user to look at it.
fn stage() -> Result<Stage, &'static str> {
    if !nix::unistd::Uid::effective().is_root() {
        return Err("only root can run the program as somebody else");
    }
    let mut stage = Stage::new();
    let leaf = stage.issue();
    fs::create_dir(stage.path("certs")).unwrap();
    stage.write("certs/tls.crt", &leaf.chain_pem);
    stage.write("certs/tls.key", &leaf.key_pem);
    for (name, mode) in [("", 0o755), ("certs", 0o755), ("certs/tls.crt", 0o644), ("certs/tls.key", 0o600)] {
        stage.set_mode(name, mode);
    }
    nix::unistd::chown(&stage.path("certs/tls.key"), Some(NOBODY.into()), Some(NOBODY.into())).unwrap();
    Ok(stage)
}

/// Asks as a user who has no rights of his own. The program is named by an open file, since he may not be let near its
/// folder.
fn as_nobody(stage: &Stage) -> Answer {
    let open = File::open(PROGRAM).unwrap();
    let name = format!("/proc/self/fd/{}", open.as_raw_fd());
    let words = words(&stage.path("certs/tls.crt"), &stage.path("certs/tls.key"));
    Answer::of(|format| {
        program(Command::new(&name).args(&words).args(format).uid(NOBODY).gid(NOBODY).current_dir("/"))
    })
}

#[test]
fn rights_that_keep_us_out_are_told_with_who_we_are_and_whose_they_are() {
    let stage = match stage() {
        Ok(stage) => stage,
        Err(reason) => return println!("left out: {reason}"),
    };
    as_nobody(&stage).assert(0, &[]);
    let root = stage.path("").display().to_string();
    let root = root.trim_end_matches('/');

    stage.set_mode("certs", 0o700);
    let answer = as_nobody(&stage);
    answer.assert(1, &["error forbidden"]);
    assert!(answer.text.contains("uid 65534"), "{}", answer.text);
    let directory = format!("may not look up names in the directory {root}/certs (owner 0");
    assert!(answer.text.contains(&directory), "{directory}\n{}", answer.text);
    assert!(answer.text.contains("mode 0700)"), "{}", answer.text);

    stage.set_mode("certs", 0o711);
    let answer = as_nobody(&stage);
    answer.assert(0, &["hint unwatchable"]);
    assert_eq!(answer.json["findings"][0]["path"], format!("{root}/certs"));
    assert!(answer.text.contains("not every change would be an event"), "{}", answer.text);

    stage.set_mode("certs", 0o755);
    nix::unistd::chown(&stage.path("certs/tls.key"), Some(0.into()), None).unwrap();
    let answer = as_nobody(&stage);
    answer.assert(1, &["error unreadable"]);
    assert!(answer.text.contains("may not read it (owner 0"), "{}", answer.text);
    assert_eq!(answer.json["files"][1]["content"]["outcome"], "forbidden");
}

#[test]
fn rights_that_let_others_in_are_hints() {
    let mut stage = Stage::new();
    let leaf = stage.issue();
    fs::create_dir(stage.path("certs")).unwrap();
    stage.write("certs/tls.crt", &leaf.chain_pem);
    stage.write("certs/tls.key", &leaf.key_pem);
    let (cert, key) = (stage.path("certs/tls.crt"), stage.path("certs/tls.key"));
    for (folder, directory, key_mode, expected) in [
        (0o700, 0o755, 0o644, &[][..]),
        (0o755, 0o755, 0o640, &[]),
        (0o755, 0o755, 0o644, &["hint key_readable_by_all"]),
        (0o755, 0o750, 0o644, &[]),
        (0o755, 0o775, 0o600, &["hint writable_by_others"]),
        (0o755, 0o777, 0o600, &["hint writable_by_others"]),
        (0o755, 0o1777, 0o600, &[]),
        (0o700, 0o755, 0o620, &["hint writable_by_others"]),
    ] {
        for (name, mode) in
            [("", folder), ("certs", directory), ("certs/tls.crt", 0o644), ("certs/tls.key", key_mode)]
        {
            stage.set_mode(name, mode);
        }
        let answer = stage.doctor(&cert, &key);
        answer.assert(0, expected);
    }
}
