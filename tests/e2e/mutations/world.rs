//! A small world of files that random mutations change: `a/c/tls.crt` and `a/c/tls.key`, and a pool to take from.
//! Knows what pair is on disk, and nothing of a sidecar.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use tlsidecar::demo::volume::{Order, Volume};

use crate::dice::Dice;
use crate::material::{Generations, payload, write_in_place};

const NAMES: [&str; 2] = ["tls.crt", "tls.key"];

/// What may happen to the files.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mutation {
    WrittenInPlace,
    RewrittenWithTheSame,
    RemovedAndWritten,
    OneFileOnly,
    Truncated,
    Deleted,
    Swapped(Order),
    SwapCrashed(Order),
    RolledBack,
    ModesChanged,
    OddKind,
    Files(Publication),
    Directory(Replacement),
}

/// How a file of the pool gets its name in the directory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Publication {
    Renamed,
    HardLinked,
    Linked,
}

/// How another directory gets into the place of the directory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Replacement {
    Renamed,
    Exchanged,
    MadeAgain,
    Linked,
    WithItsParent,
}

impl Mutation {
    pub(super) const ALL: [Self; 21] = [
        Self::WrittenInPlace,
        Self::RewrittenWithTheSame,
        Self::RemovedAndWritten,
        Self::OneFileOnly,
        Self::Truncated,
        Self::Deleted,
        Self::Swapped(Order::LinksLast),
        Self::Swapped(Order::LinksFirst),
        Self::SwapCrashed(Order::LinksLast),
        Self::SwapCrashed(Order::LinksFirst),
        Self::RolledBack,
        Self::ModesChanged,
        Self::OddKind,
        Self::Files(Publication::Renamed),
        Self::Files(Publication::HardLinked),
        Self::Files(Publication::Linked),
        Self::Directory(Replacement::Renamed),
        Self::Directory(Replacement::Exchanged),
        Self::Directory(Replacement::MadeAgain),
        Self::Directory(Replacement::Linked),
        Self::Directory(Replacement::WithItsParent),
    ];
}

/// The files, and all generations that were ever made of them.
#[derive(Debug)]
pub(super) struct World {
    root: PathBuf,
    generations: Generations,
    newest: u64,
    numbers: HashMap<String, u64>,
}

impl World {
    /// A world that begins with a plain pair of generation 1.
    pub(super) fn new(root: &Path) -> Self {
        fs::create_dir_all(root.join("a/c")).unwrap();
        fs::create_dir(root.join("pool")).unwrap();
        let generations = Generations::new();
        let mut world = Self { root: root.to_owned(), generations, newest: 0, numbers: HashMap::new() };
        let first = world.next();
        write_in_place(&world.directory(), &world.generations.leaf(first));
        world
    }

    pub(super) fn generations(&self) -> &Generations {
        &self.generations
    }

    pub(super) fn directory(&self) -> PathBuf {
        self.root.join("a/c")
    }

    /// The generation that both files on disk belong to, if there is one.
    pub(super) fn on_disk(&self) -> Option<u64> {
        let [chain, key] = NAMES.map(|name| read(&self.directory().join(name)).ok());
        let chain = *self.numbers.get(&chain?)?;
        let key = *self.numbers.get(&key?)?;
        (chain == key).then_some(chain)
    }

    fn next(&mut self) -> u64 {
        self.newest += 1;
        let leaf = self.generations.leaf(self.newest);
        self.numbers.insert(leaf.chain_pem, self.newest);
        self.numbers.insert(leaf.key_pem, self.newest);
        self.newest
    }

    /// A directory in the pool with the next generation.
    fn fresh_directory(&mut self) -> PathBuf {
        let number = self.next();
        let directory = self.root.join(format!("pool/{number}"));
        fs::create_dir(&directory).unwrap();
        write_in_place(&directory, &self.generations.leaf(number));
        directory
    }

    fn attic(&mut self) -> PathBuf {
        let number = self.next();
        self.root.join(format!("pool/attic-{number}"))
    }

    /// Lets it happen; an error says that it could not, in the state that the world is in.
    pub(super) fn mutate(&mut self, mutation: Mutation, dice: &mut Dice) -> io::Result<()> {
        let names = if dice.below(2) == 0 { NAMES } else { [NAMES[1], NAMES[0]] };
        match mutation {
            Mutation::WrittenInPlace => {
                let number = self.next();
                names.iter().try_for_each(|name| self.write(name, number))
            }
            Mutation::RewrittenWithTheSame => self.rewrite(names[0]),
            Mutation::RolledBack => {
                let number = 1 + dice.below(usize::try_from(self.newest).unwrap()) as u64;
                names.iter().try_for_each(|name| self.write(name, number))
            }
            Mutation::OneFileOnly => {
                let number = self.next();
                self.write(names[0], number)
            }
            Mutation::RemovedAndWritten => {
                let number = self.next();
                names.iter().try_for_each(|name| fs::remove_file(self.directory().join(name)))?;
                names.iter().try_for_each(|name| self.write(name, number))
            }
            Mutation::Files(publication) => self.publish(publication, names),
            Mutation::Truncated => truncate(&self.directory().join(names[0])),
            Mutation::Deleted => fs::remove_file(self.directory().join(names[0])),
            Mutation::ModesChanged => self.change_modes(),
            Mutation::OddKind => self.put_odd_kind(names[0], dice),
            Mutation::Swapped(order) => self.swap(order, None),
            Mutation::SwapCrashed(order) => self.swap(order, Some(dice)),
            Mutation::Directory(replacement) => self.replace(replacement),
        }
    }

    fn write(&self, name: &str, number: u64) -> io::Result<()> {
        let leaf = self.generations.leaf(number);
        let text = if name == NAMES[0] { leaf.chain_pem } else { leaf.key_pem };
        write(&self.directory().join(name), text.as_bytes())
    }

    fn rewrite(&self, name: &str) -> io::Result<()> {
        let path = self.directory().join(name);
        let text = read(&path)?;
        write(&path, text.as_bytes())
    }

    fn change_modes(&self) -> io::Result<()> {
        NAMES.iter().try_for_each(|name| {
            let path = self.directory().join(name);
            fs::set_permissions(&path, Permissions::from_mode(0o600))?;
            fs::set_permissions(&path, Permissions::from_mode(0o644))
        })
    }

    /// Each file gives way to one from the pool, by a rename over it.
    fn publish(&mut self, publication: Publication, names: [&str; 2]) -> io::Result<()> {
        let fresh = self.fresh_directory();
        names.iter().try_for_each(|name| {
            let (from, to) = (fresh.join(name), self.directory().join(name));
            let staged = self.directory().join("staged");
            // What a failure before left there.
            let _ = fs::remove_file(&staged);
            match publication {
                Publication::HardLinked => fs::hard_link(&from, &staged)?,
                // Both `a/c` and what it may be a link to are two levels below the root.
                Publication::Linked => {
                    symlink(Path::new("../..").join(from.strip_prefix(&self.root).unwrap()), &staged)?;
                }
                Publication::Renamed => fs::rename(&from, &staged)?,
            }
            fs::rename(&staged, &to)
        })
    }

    fn put_odd_kind(&self, name: &str, dice: &mut Dice) -> io::Result<()> {
        let path = self.directory().join(name);
        fs::remove_file(&path)?;
        if dice.below(2) == 0 {
            fs::create_dir(&path)
        } else {
            Ok(mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR)?)
        }
    }

    /// The kubelet's write, whole or up to a random step.
    fn swap(&mut self, order: Order, crash: Option<&mut Dice>) -> io::Result<()> {
        let number = self.next();
        let leaf = self.generations.leaf(number);
        let mut volume = Volume::create(self.directory(), order)?;
        match crash {
            None => volume.write(&payload(&leaf)).map(drop),
            Some(dice) => volume.write_until(&payload(&leaf), dice.pick(&order.steps())).map(drop),
        }
    }

    fn replace(&mut self, replacement: Replacement) -> io::Result<()> {
        let (directory, fresh, attic) = (self.directory(), self.fresh_directory(), self.attic());
        match replacement {
            Replacement::Exchanged => {
                Ok(renameat2(AT_FDCWD, &directory, AT_FDCWD, &fresh, RenameFlags::RENAME_EXCHANGE)?)
            }
            Replacement::WithItsParent => {
                fs::rename(self.root.join("a"), &attic)?;
                fs::create_dir(self.root.join("a"))?;
                fs::rename(&fresh, &directory)
            }
            Replacement::Linked => {
                fs::rename(&directory, &attic)?;
                symlink(Path::new("..").join(fresh.strip_prefix(&self.root).unwrap()), &directory)
            }
            Replacement::MadeAgain => {
                if fs::remove_dir_all(&directory).is_err() {
                    fs::remove_file(&directory)?;
                }
                fs::create_dir(&directory)?;
                let number = self.next();
                NAMES.iter().try_for_each(|name| self.write(name, number))
            }
            Replacement::Renamed => {
                fs::rename(&directory, &attic)?;
                fs::rename(&fresh, &directory)
            }
        }
    }
}

/// Opening a pipe must not wait for its other end.
fn options() -> OpenOptions {
    let mut options = File::options();
    options.custom_flags(libc::O_NONBLOCK);
    options
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    options().read(true).open(path)?.read_to_string(&mut text).map(|_| text)
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    io::Write::write_all(&mut options().write(true).create(true).truncate(true).open(path)?, bytes)
}

fn truncate(path: &Path) -> io::Result<()> {
    options().write(true).truncate(true).open(path).map(drop)
}
