//! Mounts, limits and namespaces around the files: each case runs in namespaces of its own, which are gone with it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use tlsidecar::demo::authority::Leaf;

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
    assert!(!answer.text.contains("  a new file in its place would be seen"), "{}", answer.text);
    assert!(answer.json["files"][1]["replacement"].is_null());
}

#[test]
fn a_read_only_file_system_is_no_obstacle() {
    assert_inside(Changes::Mounts, "mount -o remount,bind,ro \"$PWD\"; ! touch x 2>/dev/null", 0, &[]);
}

#[test]
fn a_file_system_that_others_change_is_a_hint() {
    let stage = stage();
    let through = |name: &str| PathBuf::from(format!("/proc/self/root{}", stage.path(name).display()));
    let answer = stage.doctor(&through("tls.crt"), &through("tls.key"));
    answer.assert(0, &["hint remote_filesystem"]);
    assert!(answer.text.contains("is on proc"), "{}", answer.text);
}

/// A process with another pair at the same paths in a mount namespace of its own.
struct Elsewhere(Child);

impl Drop for Elsewhere {
    fn drop(&mut self) {
        // Both may fail only because it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Elsewhere {
    /// The reason, if there can be no such process.
    fn new(stage: &Stage, other: &Leaf) -> Result<Self, String> {
        fs::create_dir(stage.path("other")).unwrap();
        stage.write("other/tls.crt", &other.chain_pem);
        stage.write("other/tls.key", &other.key_pem);
        let script = "mount --bind other own; echo ready; exec sleep 1000";
        let mut reason = String::new();
        for namespaces in [&["--mount"][..], &["--user", "--map-root-user", "--mount"]] {
            let mut command = Command::new("unshare");
            command.args(namespaces).args(["sh", "-ec", script]).current_dir(stage.path(""));
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            let Ok(child) = command.spawn() else { return Err("unshare is not installed".to_owned()) };
            let mut elsewhere = Self(child);
            let mut line = String::new();
            BufReader::new(elsewhere.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
            if line == "ready\n" {
                return Ok(elsewhere);
            }
            reason = std::io::read_to_string(elsewhere.0.stderr.take().unwrap()).unwrap();
        }
        Err(reason)
    }
}

#[test]
fn the_root_of_a_process_elsewhere_is_its_own() {
    let mut stage = Stage::new();
    let (here, there) = (stage.issue(), stage.issue());
    fs::create_dir(stage.path("own")).unwrap();
    stage.write("own/tls.crt", &here.chain_pem);
    stage.write("own/tls.key", &here.key_pem);
    let elsewhere = match Elsewhere::new(&stage, &there) {
        Ok(elsewhere) => elsewhere,
        Err(reason) => return println!("left out: {reason}"),
    };
    let root = format!("/proc/{}/root", elsewhere.0.id());
    let through = |name: &str| PathBuf::from(format!("{root}{}", stage.path(name).display()));
    let answer = stage.doctor(&through("own/tls.crt"), &through("own/tls.key"));
    answer.assert(0, &["hint remote_filesystem"]);
    assert_eq!(answer.json["certificates"][0]["serial"], format!("{:X}", there.serial), "{}", answer.text);
    let steps = answer.steps(0);
    let link = steps.iter().position(|step| *step == format!("link {root} -> /")).unwrap();
    assert_eq!(steps[link + 1], format!("directory {root}"));
    assert_eq!(answer.json["files"][0]["steps"][link]["followed_by"], "kernel");
    assert!(answer.text.contains(&format!("{root} -> / (followed by the kernel)")), "{}", answer.text);
}

#[test]
fn what_a_descriptor_stands_for_is_what_was_opened() {
    let mut stage = Stage::new();
    let (old, new) = (stage.issue(), stage.issue());
    stage.pair(&old.chain_pem, &old.key_pem).assert(0, &[]);
    let open = File::open(stage.path("tls.crt")).unwrap();
    let through =
        |open: &File| PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), open.as_raw_fd()));
    stage.write("new.crt", &new.chain_pem);
    fs::rename(stage.path("new.crt"), stage.path("tls.crt")).unwrap();
    let answer = stage.doctor(&through(&open), &stage.path("tls.key"));
    answer.assert(1, &["error open_file", "hint remote_filesystem"]);
    assert_eq!(answer.json["certificates"][0]["serial"], format!("{:X}", old.serial), "{}", answer.text);

    nix::unistd::mkfifo(&stage.path("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let fifo = File::options().read(true).write(true).open(stage.path("fifo")).unwrap();
    let answer = stage.doctor(&through(&fifo), &stage.path("tls.key"));
    answer.assert(1, &["error not_a_file", "hint remote_filesystem"]);
    assert!(answer.text.contains("is not a regular file"), "{}", answer.text);
    assert!(answer.steps(0).last().unwrap().starts_with("fifo "), "{}", answer.text);
}
