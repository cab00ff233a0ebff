//! A secret volume as the kubelet lays it out and swaps it, for the demo and for the tests.
//!
//! It repeats the order of file system operations of the kubelet's atomic writer, since a watcher sees operations and
//! not intentions. A write can be cut short after any step, which is what a crash of the kubelet leaves behind. It knows
//! nothing of certificates: a payload is names and bytes. Its inline tests compare what is on disk after each step.

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::time::{Instant, SystemTime};

/// The link that names the directory in force.
pub const DATA: &str = "..data";
/// The link that is renamed over [`DATA`].
pub const STAGED_DATA: &str = "..data_tmp";

/// When the links that the container sees (`tls.crt -> ..data/tls.crt`) are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// After the swap: today's kubelet.
    #[default]
    LinksLast,
    /// Before the swap: old kubelets and some CSI drivers. The first write has links that dangle for a moment.
    LinksFirst,
}

/// One step of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The new directory, named after the time, was made.
    Directory,
    /// Its files are complete and have their modes.
    Files,
    /// `..data_tmp` points to the new directory.
    StagedLink,
    /// `..data_tmp` was renamed to `..data`: the new files are in force.
    Rename,
    /// Names of the payload that had no link in the volume's root have one.
    Links,
    /// Links whose names are no longer in the payload are gone.
    Unlinks,
    /// The directory that was in force before is gone.
    Removal,
}

impl Order {
    /// The steps of a whole write.
    pub fn steps(self) -> [Step; 7] {
        use Step::{Directory, Files, Links, Removal, Rename, StagedLink, Unlinks};
        match self {
            Self::LinksLast => [Directory, Files, StagedLink, Rename, Links, Unlinks, Removal],
            Self::LinksFirst => [Directory, Files, Links, StagedLink, Rename, Unlinks, Removal],
        }
    }
}

/// What a write that reached [`Step::Rename`] put in force.
#[derive(Clone, Debug)]
pub struct Swap {
    /// Read right before the rename: what is measured from here is never too short.
    pub renaming: Instant,
    /// Read right after the rename returned; whoever watches may have acted before.
    pub renamed: Instant,
    /// The directory that `..data` now names.
    pub directory: PathBuf,
}

/// A volume in a directory of the caller's.
#[derive(Debug)]
pub struct Volume {
    root: PathBuf,
    order: Order,
    file_mode: u32,
}

/// A write under way.
struct Attempt<'a> {
    files: &'a [(&'a str, &'a [u8])],
    name: String,
    old_name: Option<PathBuf>,
    /// Before and after the rename.
    renamed: Option<(Instant, Instant)>,
}

impl Volume {
    /// Makes `root` (and its parents) if missing and uses it as the volume's root. Files get mode 0644.
    ///
    /// # Errors
    /// When the directory cannot be made.
    pub fn create(root: impl Into<PathBuf>, order: Order) -> io::Result<Self> {
        let root = root.into();
        fs::create_dir_all(&root)?;
        Ok(Self { root, order, file_mode: 0o644 })
    }

    /// The same volume with another mode for the files of later writes (permission bits).
    #[must_use]
    pub fn with_file_mode(mut self, bits: u32) -> Self {
        self.file_mode = bits;
        self
    }

    /// The volume's root: what a container has mounted.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where a container finds the file `name`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Puts `files` (name relative to the root, bytes) in force, all at once, whether or not they differ from what is.
    ///
    /// # Errors
    /// As [`Volume::write_until`].
    pub fn write(&mut self, files: &[(&str, &[u8])]) -> io::Result<Swap> {
        let swap = self.write_until(files, Step::Removal)?;
        swap.ok_or_else(|| io::Error::other("the write ended before its rename"))
    }

    /// Does the steps of [`Volume::write`] up to and including `last`, then leaves everything as it is; gives the swap
    /// if the rename was among them.
    ///
    /// # Errors
    /// When an operation fails, a name is absolute, empty or has a `..` component; or, as with the kubelet,
    /// [`io::ErrorKind::AlreadyExists`] for every write after one that was stopped at [`Step::StagedLink`].
    pub fn write_until(&mut self, files: &[(&str, &[u8])], last: Step) -> io::Result<Option<Swap>> {
        for (name, _) in files {
            check_name(name)?;
        }
        let old_name = fs::read_link(self.path(DATA)).ok();
        let mut attempt = Attempt { files, name: directory_name(), old_name, renamed: None };
        for step in self.order.steps() {
            self.perform(step, &mut attempt)?;
            if step == last {
                break;
            }
        }
        let directory = self.root.join(&attempt.name);
        Ok(attempt.renamed.map(|(renaming, renamed)| Swap { renaming, renamed, directory }))
    }

    /// What the kubelet does at each sync whether or not anything changed: follows `..data`, lists the directory and
    /// reads every file. Tells whether `files` is what is in force.
    ///
    /// # Errors
    /// When the volume was never written or cannot be read.
    pub fn compare(&self, files: &[(&str, &[u8])]) -> io::Result<bool> {
        let directory = self.root.join(fs::read_link(self.path(DATA))?);
        let mut equal = true;
        for (name, bytes) in files {
            equal &= fs::read(directory.join(name)).is_ok_and(|found| found == *bytes);
        }
        let wanted = first_components(files);
        for entry in fs::read_dir(&directory)? {
            equal &= entry?.file_name().to_str().is_some_and(|name| wanted.contains(name));
        }
        Ok(equal)
    }

    fn perform(&self, step: Step, attempt: &mut Attempt<'_>) -> io::Result<()> {
        match step {
            Step::Directory => self.make_directory(attempt),
            Step::Files => self.write_files(attempt),
            Step::StagedLink => self.stage(attempt),
            Step::Rename => self.rename(attempt),
            Step::Links => self.link(attempt),
            Step::Unlinks => self.unlink(attempt),
            Step::Removal => self.remove_old(attempt),
        }
    }

    fn make_directory(&self, attempt: &Attempt<'_>) -> io::Result<()> {
        let directory = self.root.join(&attempt.name);
        fs::DirBuilder::new().mode(0o700).create(&directory)?;
        fs::set_permissions(&directory, Permissions::from_mode(0o755))
    }

    fn write_files(&self, attempt: &Attempt<'_>) -> io::Result<()> {
        let directory = self.root.join(&attempt.name);
        for (name, bytes) in attempt.files {
            let path = directory.join(name);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            File::create(&path)?.write_all(bytes)?;
            fs::set_permissions(&path, Permissions::from_mode(self.file_mode))?;
        }
        Ok(())
    }

    fn stage(&self, attempt: &Attempt<'_>) -> io::Result<()> {
        let staged = symlink(&attempt.name, self.path(STAGED_DATA));
        if staged.is_err() {
            fs::remove_dir_all(self.root.join(&attempt.name))?;
        }
        staged
    }

    fn rename(&self, attempt: &mut Attempt<'_>) -> io::Result<()> {
        let renaming = now();
        fs::rename(self.path(STAGED_DATA), self.path(DATA))?;
        attempt.renamed = Some((renaming, now()));
        Ok(())
    }

    fn link(&self, attempt: &Attempt<'_>) -> io::Result<()> {
        for name in first_components(attempt.files) {
            let visible = self.path(name);
            if fs::symlink_metadata(&visible).is_err() {
                symlink(Path::new(DATA).join(name), visible)?;
            }
        }
        Ok(())
    }

    fn unlink(&self, attempt: &Attempt<'_>) -> io::Result<()> {
        let wanted = first_components(attempt.files);
        for entry in fs::read_dir(&self.root)? {
            let name = entry?.file_name();
            let vanished =
                name.to_str().is_some_and(|name| !name.starts_with("..") && !wanted.contains(name));
            if vanished {
                fs::remove_file(self.root.join(name))?;
            }
        }
        Ok(())
    }

    fn remove_old(&self, attempt: &Attempt<'_>) -> io::Result<()> {
        attempt.old_name.as_ref().map_or(Ok(()), |name| fs::remove_dir_all(self.root.join(name)))
    }
}

/// Only the first component of a name gets a link in the volume's root; what lies below is reached through it.
fn first_components<'a>(files: &[(&'a str, &[u8])]) -> BTreeSet<&'a str> {
    files.iter().filter_map(|(name, _)| name.split('/').next()).collect()
}

fn check_name(name: &str) -> io::Result<()> {
    let plain = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    if plain && !name.is_empty() && !name.starts_with("..") {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{name:?} is no name for a file of a volume")))
}

/// `..YYYY_MM_DD_HH_MM_SS.<random>` in UTC.
fn directory_name() -> String {
    #[expect(clippy::disallowed_methods, reason = "the kubelet names its directories after the wall clock")]
    let time = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let stamp = time.trim_end_matches('Z').replace(['-', 'T', ':'], "_");
    let [a, b, c, d, ..] = RandomState::new().build_hasher().finish().to_ne_bytes();
    format!("..{stamp}.{}", u32::from_ne_bytes([a, b, c, d]))
}

fn now() -> Instant {
    #[expect(
        clippy::disallowed_methods,
        reason = "the moment of the rename is what a rotation is measured from"
    )]
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &[(&str, &[u8])] = &[("tls.crt", b"old"), ("tls.key", b"k")];
    const NEW: &[(&str, &[u8])] = &[("tls.crt", b"new"), ("tls.key", b"k2")];

    fn volume(order: Order) -> (tempfile::TempDir, Volume) {
        let folder = tempfile::tempdir().unwrap();
        let volume = Volume::create(folder.path().join("volume"), order).unwrap();
        (folder, volume)
    }

    fn names(volume: &Volume) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(volume.root())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_write_shows_its_files_through_relative_links() {
        for order in [Order::LinksLast, Order::LinksFirst] {
            let (_folder, mut volume) = volume(order);
            volume.write(OLD).unwrap();
            let swap = volume.write(NEW).unwrap();
            assert_eq!(fs::read(volume.path("tls.crt")).unwrap(), b"new");
            assert_eq!(fs::read_link(volume.path("tls.crt")).unwrap(), Path::new("..data/tls.crt"));
            let data = fs::read_link(volume.path(DATA)).unwrap();
            assert!(data.is_relative());
            assert_eq!(volume.root().join(&data), swap.directory);
            assert_eq!(names(&volume), [data.to_str().unwrap(), DATA, "tls.crt", "tls.key"]);
        }
    }

    #[test]
    fn the_directory_is_named_after_the_time() {
        let (_folder, mut volume) = volume(Order::LinksLast);
        let directory = volume.write(OLD).unwrap().directory;
        let name = directory.file_name().unwrap().to_str().unwrap();
        let (stamp, random) = name.rsplit_once('.').unwrap();
        let fields: Vec<usize> = stamp.trim_start_matches('.').split('_').map(str::len).collect();
        assert_eq!(fields, [4, 2, 2, 2, 2, 2], "{name}");
        assert!(name.starts_with("..2") && random.parse::<u32>().is_ok(), "{name}");
        assert_eq!(fs::metadata(&directory).unwrap().permissions().mode() & 0o7777, 0o755);
    }

    #[test]
    fn the_old_files_stay_in_force_until_the_rename() {
        for order in [Order::LinksLast, Order::LinksFirst] {
            let mut renamed = false;
            for step in order.steps() {
                let (_folder, mut volume) = volume(order);
                volume.write(OLD).unwrap();
                let swap = volume.write_until(NEW, step).unwrap();
                renamed |= step == Step::Rename;
                assert_eq!(swap.is_some(), renamed, "{step:?}");
                assert_eq!(fs::read(volume.path("tls.crt")).unwrap() == b"new", renamed, "{step:?}");
            }
        }
    }

    #[test]
    fn links_come_before_the_first_rename_only_in_the_old_order() {
        for (order, dangling) in [(Order::LinksLast, false), (Order::LinksFirst, true)] {
            let (_folder, mut volume) = volume(order);
            volume.write_until(OLD, Step::StagedLink).unwrap();
            assert_eq!(fs::symlink_metadata(volume.path("tls.crt")).is_ok(), dangling, "{order:?}");
        }
    }

    #[test]
    fn a_link_left_by_a_crash_freezes_the_volume() {
        let (_folder, mut volume) = volume(Order::LinksLast);
        volume.write(OLD).unwrap();
        volume.write_until(NEW, Step::StagedLink).unwrap();
        let before = names(&volume);
        assert_eq!(volume.write(NEW).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(names(&volume), before, "a failed write leaves nothing of its own");
        assert_eq!(fs::read(volume.path("tls.crt")).unwrap(), b"old");
    }

    #[test]
    fn a_vanished_name_loses_its_link_and_a_nested_one_is_linked_by_its_first_part() {
        let (_folder, mut volume) = volume(Order::LinksLast);
        volume.write(OLD).unwrap();
        volume.write(&[("a/tls.crt", b"nested")]).unwrap();
        assert!(fs::symlink_metadata(volume.path("tls.crt")).is_err());
        assert_eq!(fs::read_link(volume.path("a")).unwrap(), Path::new("..data/a"));
        assert_eq!(fs::read(volume.path("a/tls.crt")).unwrap(), b"nested");
    }

    #[test]
    fn comparing_tells_equal_from_changed() {
        let (_folder, mut volume) = volume(Order::LinksLast);
        volume.write(OLD).unwrap();
        assert!(volume.compare(OLD).unwrap());
        assert!(!volume.compare(NEW).unwrap());
        assert!(!volume.compare(&[("tls.crt", b"old")]).unwrap(), "a file too many is a difference");
    }

    #[test]
    fn names_that_leave_the_volume_are_refused() {
        let (_folder, mut volume) = volume(Order::LinksLast);
        for name in ["", "/etc/passwd", "../x", "a/../../x", "..data"] {
            assert!(volume.write(&[(name, b"")]).is_err(), "{name:?}");
        }
    }
}
