//! Mounts, limits and namespaces around the files: each case runs in namespaces of its own, which are gone with it.

use std::process::{Command, Output};

use crate::stage::{Answer, PROGRAM, Stage, program};

/// What a case changes, and thus which namespaces keep the change to itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Changes {
    Mounts,
    /// Never done without a namespace: they would be the limits of the machine.
    Limits,
}

/// Runs shell lines in new namespaces, in a file system of their own that has a good pair in it, then the program. The
/// reason, if that is not possible.
fn inside(stage: &Stage, changes: Changes, lines: &str) -> Result<Answer, String> {
    let with = |namespaces: &[&str], script: &str, words: &[&str]| -> Result<Output, String> {
        let shell = ["sh", "-ec", script, "sh", PROGRAM];
        let mut command = Command::new("unshare");
        command.args(namespaces).args(shell).args(words).current_dir(stage.path(""));
        if Command::new("unshare").arg("--version").output().is_err() {
            return Err("unshare is not installed".to_owned());
        }
        let output = program(&mut command);
        let is_usable = output.status.success() || !words.is_empty();
        if is_usable { Ok(output) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
    };
    let own = "mkdir -p own; mount -t tmpfs none own; chmod 700 own; cp tls.crt tls.key own; cd own";
    let users = &["--user", "--map-root-user", "--mount"][..];
    let namespaces = match (with(users, own, &[]), changes) {
        (Ok(_), _) => users,
        (Err(_), Changes::Mounts) => with(&["--mount"], own, &[]).map(|_| &["--mount"][..])?,
        (Err(reason), Changes::Limits) => return Err(reason),
    };
    let whole = format!("{own}\n{lines}\nexec \"$@\"");
    let words = ["doctor", "--cert", "tls.crt", "--key", "tls.key"];
    Ok(Answer::of(|format| with(namespaces, &whole, &[&words[..], format.as_slice()].concat()).unwrap()))
}

/// A stage with a good pair in it.
fn stage() -> Stage {
    let mut stage = Stage::new();
    let leaf = stage.issue();
    stage.pair(&leaf.chain_pem, &leaf.key_pem).assert(0, &[]);
    stage
}

fn assert_inside(changes: Changes, lines: &str, code: i32, findings: &[&str]) -> Option<Answer> {
    match inside(&stage(), changes, lines) {
        Ok(answer) => {
            answer.assert(code, findings);
            Some(answer)
        }
        Err(reason) => {
            println!("left out: {reason}");
            None
        }
    }
}

#[test]
fn a_file_that_is_itself_mounted_never_rotates() {
    let lines = "cp tls.crt original; touch empty; mount --bind original tls.crt";
    let Some(answer) = assert_inside(Changes::Mounts, lines, 1, &["error single_file_mount"]) else { return };
    assert!(answer.text.contains("a new file in its place would never be seen"), "{}", answer.text);
    let replacements = |answer: &Answer| [0, 1].map(|file| answer.json["files"][file]["replacement"].clone());
    assert_eq!(replacements(&answer), ["single_file_mount", "seen"]);
    assert!(answer.json["events"]["watches"].as_u64() > Some(0));

    let renamed = format!("{lines}; cp original new; mv new original");
    let answer = assert_inside(Changes::Mounts, &renamed, 1, &["error single_file_mount_deleted"]).unwrap();
    assert_eq!(replacements(&answer), ["single_file_mount_of_deleted", "seen"]);
}

#[test]
fn a_directory_mounted_from_what_may_vanish_never_rotates() {
    let name = "volume/..2026_11_30_13_42_00.123456";
    let lines = format!(
        "mkdir -p {name} seen; mv tls.crt {name}; mount --bind {name} seen; ln -s seen/tls.crt tls.crt"
    );
    assert_inside(Changes::Mounts, &lines, 1, &["error one_generation_mount"]);
    let lines =
        "mkdir old seen; mv tls.crt old; mount --bind old seen; rm -r old; ln -s seen/tls.crt tls.crt";
    assert_inside(Changes::Mounts, lines, 1, &["error missing", "error directory_mount_deleted"]);
}

#[test]
fn the_mount_of_every_step_is_told() {
    let lines = "mkdir t; mount -t tmpfs none t; mkdir 't/a b'; mount -t tmpfs none 't/a b'; mv tls.key 't/a b'; \
                 ln -s 't/a b/tls.key' tls.key";
    let Some(answer) = assert_inside(Changes::Mounts, lines, 0, &[]) else { return };
    let steps = answer.json["files"][1]["steps"].as_array().unwrap();
    let mount = &steps[steps.len() - 1]["inode"]["mount"];
    assert_eq!((&mount["filesystem"], &mount["root"]), (&"tmpfs".into(), &"/".into()));
    assert!(mount["point"].as_str().unwrap().ends_with("/t/a b"), "{mount}");
    assert_eq!(steps[steps.len() - 2]["inode"]["is_mount_root"], true);
    assert!(answer.text.contains("tmpfs on /"), "{}", answer.text);
}

#[test]
fn without_inotify_the_files_would_be_looked_at_from_time_to_time() {
    let limit = "echo 0 > /proc/sys/user/max_inotify_";
    let instances = assert_inside(
        Changes::Limits,
        &format!("{limit}instances"),
        0,
        &["hint no_inotify_instance", "hint inotify_nearly_used"],
    );
    let Some(answer) = instances else { return };
    assert_eq!(answer.json["events"]["limits"]["max_user_instances"], 0);
    assert!(answer.text.contains("not every change would be an event"), "{}", answer.text);
    assert_inside(
        Changes::Limits,
        &format!("{limit}watches"),
        0,
        &["hint no_inotify_watch", "hint inotify_nearly_used"],
    );
}

#[test]
fn without_proc_it_says_so_and_does_not_fall_over() {
    let lines = "mount -t tmpfs none /proc";
    let Some(answer) = assert_inside(Changes::Mounts, lines, 1, &["error no_proc"]) else { return };
    assert!(answer.text.contains("unknown"), "{}", answer.text);
}

#[test]
fn a_read_only_file_system_is_no_obstacle() {
    assert_inside(Changes::Mounts, "mount -o remount,bind,ro \"$PWD\"; ! touch x 2>/dev/null", 0, &[]);
}

#[test]
fn a_file_system_that_others_change_is_a_hint() {
    let stage = stage();
    let through =
        |name: &str| std::path::PathBuf::from(format!("/proc/self/root{}", stage.path(name).display()));
    let answer = stage.doctor(&through("tls.crt"), &through("tls.key"));
    answer.assert(0, &["hint remote_filesystem"]);
    assert!(answer.text.contains("is on proc"), "{}", answer.text);
}
