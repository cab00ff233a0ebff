//! The watcher on real directories: the adapter, the calls beneath it and the kernel's events together.
//!
//! Everything happens in a temporary directory. A wait for an event has a deadline and ends with the event.

use std::fs;
use std::os::fd::{AsFd, RawFd};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mio::Token;
use mio::unix::SourceFd;
use tempfile::TempDir;
use tlsidecar::server::filesystem::RealFilesystem;
use tlsidecar::sys::files::{self, ReadError, Stability};
use tlsidecar::sys::inotify::{Drained, Inotify, Interest, Record};
use tlsidecar::watch::{Decision, Mode, Publication, Reading, Relevance, Timing, Verdict, Watcher};

const LIMIT_BYTES: usize = 1 << 20;

/// Far more than any of this takes.
const PATIENCE: Duration = Duration::from_secs(20);

#[expect(clippy::disallowed_methods, reason = "the test plays the shell, which reads the clock")]
fn now() -> Instant {
    Instant::now()
}

/// The shell in small: two files, whose content is served as it is.
struct Shell {
    filesystem: RealFilesystem,
    watcher: Watcher,
    served: Option<Vec<Vec<u8>>>,
    publications: Vec<Publication>,
    poll: mio::Poll,
    registered: Option<RawFd>,
}

impl Shell {
    fn new(directory: &Path) -> Self {
        let path = |name| directory.join(name).into_os_string().into_encoded_bytes();
        let targets = vec![path("tls.crt"), path("tls.key")];
        let watcher = Watcher::new(targets, Timing::new(None, 1), now());
        Self {
            filesystem: RealFilesystem::new(),
            watcher,
            served: None,
            publications: Vec::new(),
            poll: mio::Poll::new().unwrap(),
            registered: None,
        }
    }

    fn turn(&mut self) {
        self.drain();
        if !self.watcher.is_due(now()) {
            return;
        }
        let pass = self.watcher.pass(&mut self.filesystem, now());
        let contents: Option<Vec<_>> = pass
            .targets
            .iter()
            .map(|target| files::read(target.as_ref().ok()?.as_fd(), LIMIT_BYTES).ok())
            .map(|contents| contents.map(|contents| contents.bytes.to_vec()))
            .collect();
        let reading = contents.as_ref().map_or(Reading::Unresolved, |contents| Reading::Content {
            digest: digest(contents),
            verdict: if contents[0] == contents[1] { Verdict::Valid } else { Verdict::Invalid },
            age: Duration::ZERO,
        });
        if self.watcher.on_read(reading, now()) == Decision::Commit {
            self.drain();
            if let Some(commit) = self.watcher.confirm(now()) {
                self.served = contents;
                self.publications.push(commit.publication);
                self.watcher.on_committed(commit.digest);
            }
        }
    }

    fn drain(&mut self) {
        let Self { filesystem, watcher, .. } = self;
        while filesystem.drain(|record| _ = watcher.on_record(record, now())).unwrap() == Drained::MorePending
        {
        }
    }

    /// Turns until this content is served.
    fn serve(&mut self, content: &str) {
        let deadline = now() + PATIENCE;
        self.turn();
        while self.served.as_ref().is_none_or(|served| served[0] != content.as_bytes()) {
            assert!(now() < deadline, "{content} is not served");
            self.wait();
            self.turn();
        }
    }

    fn wait(&mut self) {
        self.register();
        let wait = self.watcher.deadline().map_or(PATIENCE, |at| at.saturating_duration_since(now()));
        let wait = wait.min(PATIENCE) + Duration::from_millis(1);
        self.poll.poll(&mut mio::Events::with_capacity(4), Some(wait)).unwrap();
    }

    fn register(&mut self) {
        if self.registered != self.filesystem.queue() {
            self.registered = self.filesystem.queue();
            let queue = self.registered.unwrap();
            let registry = self.poll.registry();
            registry.register(&mut SourceFd(&queue), Token(0), mio::Interest::READABLE).unwrap();
        }
    }
}

fn digest(contents: &[Vec<u8>]) -> [u8; 32] {
    let mut digest = [0; 32];
    for (slot, byte) in digest.iter_mut().zip(contents.concat()) {
        *slot = byte;
    }
    digest
}

fn put(directory: &Path, content: &str) {
    fs::write(directory.join("tls.crt"), content).unwrap();
    fs::write(directory.join("tls.key"), content).unwrap();
}

/// A secret volume's swap as the kubelet does it, relative links made after it.
fn swap(volume: &Path, dated: &str, content: &str) {
    let old = fs::read_link(volume.join("..data")).ok();
    fs::create_dir(volume.join(dated)).unwrap();
    put(&volume.join(dated), content);
    symlink(dated, volume.join("..data_tmp")).unwrap();
    fs::rename(volume.join("..data_tmp"), volume.join("..data")).unwrap();
    for name in ["tls.crt", "tls.key"] {
        let _ = symlink(Path::new("..data").join(name), volume.join(name));
    }
    if let Some(old) = old {
        fs::remove_dir_all(volume.join(old)).unwrap();
    }
}

fn volume(parent: &TempDir) -> PathBuf {
    let volume = parent.path().join("volume");
    fs::create_dir(&volume).unwrap();
    volume
}

#[test]
fn a_volume_is_followed_through_its_swaps() {
    let parent = TempDir::new().unwrap();
    let volume = volume(&parent);
    let mut shell = Shell::new(&volume);
    shell.turn();
    assert_eq!(shell.watcher.mode(), Mode::Events, "{:?}", shell.watcher.reasons().collect::<Vec<_>>());
    swap(&volume, "..1", "one");
    shell.serve("one");
    let watches = shell.watcher.watch_count();
    for (dated, content) in [("..2", "two"), ("..3", "three"), ("..4", "four")] {
        swap(&volume, dated, content);
        shell.serve(content);
        assert_eq!(shell.publications.last(), Some(&Publication::Atomic));
        assert_eq!(shell.watcher.watch_count(), watches);
        assert_eq!(kernel_watches(&shell.filesystem), watches);
    }
}

#[test]
fn files_are_followed_in_place_and_to_a_new_directory() {
    let parent = TempDir::new().unwrap();
    let volume = volume(&parent);
    let mut shell = Shell::new(&volume);
    put(&volume, "one");
    shell.serve("one");
    put(&volume, "two");
    shell.serve("two");
    fs::remove_dir_all(&volume).unwrap();
    shell.turn();
    fs::create_dir(&volume).unwrap();
    put(&volume, "three");
    shell.serve("three");
    fs::rename(&volume, parent.path().join("moved")).unwrap();
    fs::create_dir(&volume).unwrap();
    put(&volume, "four");
    shell.serve("four");
    let watches = shell.watcher.watch_count();
    assert_eq!(
        kernel_watches(&shell.filesystem),
        watches,
        "the directory that was moved away is not watched"
    );
}

#[test]
fn a_directory_renamed_into_place_is_told_from_one_made_there() {
    let parent = TempDir::new().unwrap();
    let volume = volume(&parent);
    let at = |name: &str| parent.path().join(name);
    let mut shell = Shell::new(&volume);
    put(&volume, "one");
    shell.serve("one");
    let prepare = |content| {
        fs::create_dir(at("next")).unwrap();
        put(&at("next"), content);
    };

    prepare("two");
    fs::rename(&volume, at("old")).unwrap();
    fs::rename(at("next"), &volume).unwrap();
    shell.serve("two");
    assert_eq!(shell.publications.last(), Some(&Publication::Atomic));

    prepare("three");
    let exchange = nix::fcntl::RenameFlags::RENAME_EXCHANGE;
    nix::fcntl::renameat2(nix::fcntl::AT_FDCWD, &at("next"), nix::fcntl::AT_FDCWD, &volume, exchange)
        .unwrap();
    shell.serve("three");
    assert_eq!(shell.publications.last(), Some(&Publication::Atomic));

    fs::remove_dir_all(&volume).unwrap();
    fs::create_dir(&volume).unwrap();
    put(&volume, "four");
    shell.serve("four");
    assert_eq!(shell.publications.last(), Some(&Publication::Settled));

    fs::rename(&volume, at("older")).unwrap();
    fs::create_dir(&volume).unwrap();
    put(&volume, "five");
    shell.serve("five");
    assert_eq!(shell.publications.last(), Some(&Publication::Settled));
}

#[expect(
    clippy::disallowed_methods,
    reason = "change times are taken from a clock that ticks every few milliseconds"
)]
fn outlast_a_tick() {
    std::thread::sleep(Duration::from_millis(50));
}

#[test]
fn a_link_is_swapped_to_what_was_there_or_filled_afterwards() {
    let parent = TempDir::new().unwrap();
    let at = |name: &str| parent.path().join(name);
    let link_to = |name: &str| {
        symlink(name, at("tmp")).unwrap();
        fs::rename(at("tmp"), at("current")).unwrap();
    };
    for name in ["1", "2", "3"] {
        fs::create_dir(at(name)).unwrap();
    }
    put(&at("1"), "one");
    put(&at("2"), "two");
    link_to("1");
    let mut shell = Shell::new(&at("current"));
    shell.serve("one");
    link_to("2");
    shell.serve("two");
    assert_eq!(shell.publications.last(), Some(&Publication::Atomic));

    link_to("3");
    outlast_a_tick();
    put(&at("3"), "three");
    shell.serve("three");
    assert_eq!(shell.publications.last(), Some(&Publication::Settled));
}

#[test]
fn reading_causes_no_events() {
    let parent = TempDir::new().unwrap();
    let volume = volume(&parent);
    let mut shell = Shell::new(&volume);
    swap(&volume, "..1", "one");
    shell.serve("one");
    shell.turn();
    for _ in 0..10 {
        shell.watcher.look_now(tlsidecar::watch::Trigger::Signal, now());
        shell.turn();
        let mut relevant = 0;
        let Shell { filesystem, watcher, .. } = &mut shell;
        filesystem
            .drain(|record| relevant += u32::from(watcher.on_record(record, now()) == Relevance::Wakes))
            .unwrap();
        assert_eq!(relevant, 0);
    }
}

/// What the kernel says it watches for us.
fn kernel_watches(filesystem: &RealFilesystem) -> usize {
    let queue = filesystem.queue().unwrap();
    let told = fs::read_to_string(format!("/proc/self/fdinfo/{queue}")).unwrap();
    told.lines().filter(|line| line.starts_with("inotify ")).count()
}

#[test]
fn a_watch_is_on_the_inode_whatever_becomes_of_its_path() {
    let parent = TempDir::new().unwrap();
    let volume = volume(&parent);
    let mut queue = Inotify::new().unwrap();
    let root = files::resolve(parent.path().as_os_str().as_encoded_bytes()).unwrap();
    let node = files::look_up(root.as_fd(), b"volume").unwrap();
    fs::rename(&volume, parent.path().join("moved")).unwrap();
    fs::create_dir(&volume).unwrap();
    let watch = queue.watch(node.as_fd(), Interest::DirectoryAndWrites).unwrap();
    let again = queue.watch(node.as_fd(), Interest::Directory).unwrap();
    assert_eq!(again, watch, "one inode, one watch");
    fs::write(parent.path().join("moved").join("f"), "").unwrap();
    fs::write(volume.join("g"), "").unwrap();
    let mut names = Vec::new();
    let drained = queue
        .drain(|record| match record {
            Record::Event { name, .. } => names.push(name.to_vec()),
            Record::Overflow => panic!("nothing was lost"),
        })
        .unwrap();
    assert_eq!(drained, Drained::ToTheEnd);
    assert_eq!(names, [b"f", b"f"], "made, and closed after writing");
    queue.unwatch(watch);
    queue.unwatch(watch);
}

#[test]
fn a_flood_is_taken_in_shares() {
    let parent = TempDir::new().unwrap();
    let mut queue = Inotify::new().unwrap();
    let node = files::resolve(parent.path().as_os_str().as_encoded_bytes()).unwrap();
    queue.watch(node.as_fd(), Interest::Directory).unwrap();
    for _ in 0..2000 {
        fs::create_dir(parent.path().join("other")).unwrap();
        fs::remove_dir(parent.path().join("other")).unwrap();
    }
    let mut count = 0;
    assert_eq!(queue.drain(|_| count += 1).unwrap(), Drained::MorePending);
    assert!(count < 4000);
    while queue.drain(|_| count += 1).unwrap() == Drained::MorePending {}
    assert_eq!(count, 4000);
}

#[test]
fn only_regular_files_of_modest_size_are_read() {
    let parent = TempDir::new().unwrap();
    let at = |name: &str| parent.path().join(name);
    let open = |name: &str| files::resolve(at(name).as_os_str().as_encoded_bytes()).unwrap();
    fs::write(at("file"), "twelve bytes").unwrap();
    nix::unistd::mkfifo(&at("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    fs::create_dir(at("directory")).unwrap();
    let contents = files::read(open("file").as_fd(), 12).unwrap();
    assert_eq!(contents.bytes.as_slice(), b"twelve bytes");
    assert_eq!(contents.stability, Stability::Still);
    assert!(matches!(files::read(open("file").as_fd(), 11), Err(ReadError::TooLarge(11))));
    for name in ["fifo", "directory"] {
        assert!(matches!(files::read(open(name).as_fd(), 12), Err(ReadError::NotARegularFile)), "{name}");
    }
}

#[test]
fn looking_up_pins_and_does_not_follow() {
    let parent = TempDir::new().unwrap();
    let volume = volume(&parent);
    symlink("volume", parent.path().join("link")).unwrap();
    let root = files::resolve(parent.path().as_os_str().as_encoded_bytes()).unwrap();
    let link = files::look_up(root.as_fd(), b"link").unwrap();
    assert_eq!(files::facts(link.as_fd()).unwrap().kind, files::Kind::Link);
    assert_eq!(files::link_text(link.as_fd()).unwrap(), b"volume");
    let node = files::look_up(root.as_fd(), b"volume").unwrap();
    let identity = |facts: files::Facts| (facts.device, facts.inode, facts.born);
    let first = identity(files::facts(node.as_fd()).unwrap());
    let above = files::look_up(node.as_fd(), b"..").unwrap();
    assert_eq!(identity(files::facts(above.as_fd()).unwrap()), identity(files::facts(root.as_fd()).unwrap()),);
    fs::rename(&volume, parent.path().join("moved")).unwrap();
    assert_eq!(identity(files::facts(node.as_fd()).unwrap()), first);
    assert!(files::look_up(root.as_fd(), b"volume").is_err());
    assert!(files::look_up(root.as_fd(), b"a\0b").is_err());
}

#[test]
fn as_many_links_are_followed_as_the_kernel_follows() {
    let parent = TempDir::new().unwrap();
    let at = |count: usize| parent.path().join(format!("link{count}"));
    fs::write(at(0), "content").unwrap();
    for count in 1..=41 {
        symlink(at(count - 1).file_name().unwrap(), at(count)).unwrap();
    }
    for count in [1, 40, 41] {
        let path = at(count).into_os_string().into_encoded_bytes();
        let mut watcher = Watcher::new(vec![path.clone()], Timing::new(None, 1), now());
        let pass = watcher.pass(&mut RealFilesystem::new(), now());
        assert_eq!(pass.targets[0].is_ok(), files::resolve(&path).is_ok(), "{count} links");
    }
}

#[test]
fn links_of_procfs_lead_where_the_kernel_says_and_not_where_their_text_does() {
    use nix::fcntl::{OFlag, open};
    use nix::sys::stat::Mode;
    let parent = TempDir::new().unwrap();
    let at = |name: &str| parent.path().join(name);
    for (name, content) in [("file", "old"), ("new", "new")] {
        fs::write(at(name), content).unwrap();
    }
    symlink("file", at("link")).unwrap();
    nix::unistd::mkfifo(&at("fifo"), Mode::S_IRWXU).unwrap();
    let pin = |name: &str| open(&at(name), OFlag::O_PATH | OFlag::O_NOFOLLOW, Mode::empty()).unwrap();
    let (file, folder, fifo, link) = (pin("file"), pin(""), pin("fifo"), pin("link"));
    // From here on the text of the first descriptor is the path of another file.
    fs::rename(at("new"), at("file")).unwrap();
    let path_of = |node: &std::os::fd::OwnedFd, below: &str| {
        let number = std::os::fd::AsRawFd::as_raw_fd(node);
        format!("/proc/{}/fd/{number}{below}", std::process::id()).into_bytes()
    };
    for (path, expected) in [
        (path_of(&file, ""), Ok("old")),
        (path_of(&folder, "/file"), Ok("new")),
        (path_of(&folder, "/link"), Ok("new")),
        (path_of(&folder, ""), Err("is a directory, not a file")),
        (path_of(&file, "/x"), Err("is not a directory")),
        (path_of(&fifo, ""), Err("is not a regular file")),
        (path_of(&link, ""), Err("is not a regular file")),
    ] {
        let mut watcher = Watcher::new(vec![path.clone()], Timing::new(None, 1), now());
        let pass = watcher.pass(&mut RealFilesystem::new(), now());
        let found = match &pass.targets[0] {
            Ok(node) => Ok(files::read(node.as_fd(), LIMIT_BYTES).unwrap().bytes.to_vec()),
            Err(unresolved) => Err(unresolved.to_string()),
        };
        let is_as_expected = match (&found, expected) {
            (Ok(bytes), Ok(text)) => bytes == text.as_bytes(),
            (Err(problem), Err(text)) => problem.ends_with(text),
            (Ok(_), Err(_)) | (Err(_), Ok(_)) => false,
        };
        assert!(is_as_expected, "{}: {found:?}", String::from_utf8_lossy(&path));
        assert_eq!(watcher.mode(), tlsidecar::watch::Mode::Polling);
    }
}
