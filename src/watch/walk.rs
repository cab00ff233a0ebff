//! The walk: all paths to the files behind them, one look-up at a time, each directory watched first.
//!
//! It knows neither what a target contains nor when to walk; it keeps nothing from one walk to the next.
//! `tests/sim/watch` interleaves it with writers at every call it makes.
//!
//! # Why no change is missed
//!
//! What a path means is the answers to a series of questions "what is `n` in directory `D`?". Before such a
//! question is asked, `D` is being watched, so an answer that changes later leaves an entry `n` in the queue,
//! also if the answer was an error. `D` itself can only become another directory if the answer to an earlier
//! question changes; that one was asked in a watched directory too, and so on up to the root, which does not
//! change. At the end of the questions the file is watched as an inode before it is read: its bytes can't be
//! changed under any name without an entry. It does not matter what happened before a watch was set, for the
//! look-up and the reading come after. It does not matter how long an entry waits, for nothing is concluded
//! from it but that all questions are to be asked again.
//!
//! An answer can thus change silently only if the entry was lost (which is itself an entry), if a mount hides
//! or reveals something (the shell hears of that from the kernel and says so), if the directory could not be
//! watched, or if the change was made where this kernel does not tell of it: on a remote file system, in procfs,
//! or through a mapping that is never closed. The third and fourth are found here and reported as reasons to poll, the
//! rest is left to the timer.

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;

use super::chain::{
    Anchor, Cause, Chain, Facts, Filesystem, Found, Kind, LookUp, Place, Role, Unresolved, Unwatchable,
    WatchId,
};
use super::interest::Live;
use super::mode::Reason;

/// Links followed in one path; the kernel follows as many.
const MAX_LINKS: usize = 40;

/// Look-ups in one path. Deep layouts need about thirty.
pub(super) const MAX_LOOK_UPS: usize = 256;

/// Watches held at once. A pair of files needs nine to fourteen.
pub(super) const MAX_WATCHES: usize = 512;

/// What a walk found.
#[derive(Debug)]
pub(super) struct Walked<N> {
    /// For each target the look-ups that were made.
    pub(super) chains: Vec<Chain>,
    /// For each target the file, or why there is none.
    pub(super) nodes: Vec<Result<N, Unresolved>>,
    /// For each target the file that the kernel finds, if the walk does not find the same.
    pub(super) elsewhere: Vec<Option<N>>,
    /// What is watched now.
    pub(super) live: Live,
    /// What may change without an event.
    pub(super) reasons: BTreeSet<Reason>,
}

/// Walks all paths. Watches are added, never removed: that is for the caller, once the walk is done.
pub(super) fn walk<F: Filesystem>(filesystem: &mut F, targets: &[Vec<u8>]) -> Walked<F::Node> {
    let mut walk = Walk {
        filesystem,
        memo: HashMap::new(),
        watched: HashMap::new(),
        devices: HashMap::new(),
        live: Live::default(),
        reasons: BTreeSet::new(),
    };
    let root = walk.root();
    let mut chains = Vec::new();
    let mut nodes = Vec::new();
    for path in targets {
        let (chain, node) = match &root {
            Ok((node, place)) => walk.follow(path, Cursor::new(node.clone(), *place, path)),
            Err(cause) => (Chain::new(), Err(Unresolved { at: b"/".to_vec(), cause: *cause })),
        };
        walk.note_failure(&node);
        chains.push(chain);
        nodes.push(node);
    }
    let elsewhere = targets.iter().zip(&chains).map(|(path, chain)| walk.elsewhere(path, chain)).collect();
    Walked { chains, nodes, elsewhere, live: walk.live, reasons: walk.reasons }
}

/// The place of the regular file at the end of a chain.
pub(super) fn file_place(chain: &Chain) -> Option<Place> {
    match chain.last()?.found {
        Found::Node { place, kind: Kind::File, .. } => Some(place),
        Found::Node { .. } | Found::Nothing(_) => None,
    }
}

type Question = (Place, Vec<u8>);

/// What a question found, when that had last changed, and the node if there is one.
type Answer<N> = (Found, (i64, u32), Option<N>);

struct Walk<'f, F: Filesystem> {
    filesystem: &'f mut F,
    /// Each question is asked once, errors included: where two paths share a link they get the same answer, so
    /// that certificate and key come from one generation whatever is being swapped meanwhile.
    memo: HashMap<Question, Answer<F::Node>>,
    watched: HashMap<Place, (Option<WatchId>, Role)>,
    devices: HashMap<u64, Option<&'static str>>,
    live: Live,
    reasons: BTreeSet<Reason>,
}

/// How far one path has been walked.
struct Cursor<N> {
    directory: N,
    place: Place,
    /// The path of `directory`, for people.
    path: Vec<u8>,
    /// Components still to be looked up, the next one last.
    todo: Vec<Vec<u8>>,
    links: usize,
    /// Where an absolute link goes back to.
    root: (N, Place),
    chain: Chain,
}

type Step<N> = ControlFlow<Result<N, Unresolved>>;

impl<N: Clone> Cursor<N> {
    fn new(root: N, place: Place, path: &[u8]) -> Self {
        let mut cursor = Self {
            directory: root.clone(),
            place,
            path: Vec::new(),
            todo: Vec::new(),
            links: 0,
            root: (root, place),
            chain: Chain::new(),
        };
        cursor.push(path);
        cursor
    }

    fn push(&mut self, path: &[u8]) {
        let components = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".");
        self.todo.extend(components.rev().map(<[u8]>::to_vec));
    }

    /// The path of a name in the current directory.
    fn path_of(&self, name: &[u8]) -> Vec<u8> {
        let mut path = self.path.clone();
        if name == b".." {
            path.truncate(path.iter().rposition(|byte| *byte == b'/').unwrap_or(0));
        } else {
            path.push(b'/');
            path.extend_from_slice(name);
        }
        path
    }

    fn shown_path(&self) -> &[u8] {
        if self.path.is_empty() { b"/" } else { &self.path }
    }

    /// Whether there are more look-ups to make than may be.
    fn is_exhausted(&self) -> bool {
        self.chain.len() >= MAX_LOOK_UPS && !self.todo.is_empty()
    }

    fn broken(&self, at: Vec<u8>, cause: Cause) -> Step<N> {
        let at = if at.is_empty() { b"/".to_vec() } else { at };
        ControlFlow::Break(Err(Unresolved { at, cause }))
    }

    fn enter(&mut self, name: &[u8], node: N, place: Place) -> Step<N> {
        self.path = self.path_of(name);
        self.directory = node;
        self.place = place;
        ControlFlow::Continue(())
    }

    fn enter_link(&mut self, name: &[u8], text: &[u8]) -> Step<N> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return self.broken(self.path_of(name), Cause::Loop);
        }
        if text.is_empty() {
            return self.broken(self.path_of(name), Cause::Missing);
        }
        if text.first() == Some(&b'/') {
            (self.directory, self.place) = self.root.clone();
            self.path.clear();
        }
        self.push(text);
        ControlFlow::Continue(())
    }
}

impl<F: Filesystem> Walk<'_, F> {
    fn root(&mut self) -> Result<(F::Node, Place), Cause> {
        let node = self.filesystem.root().map_err(|error| Cause::from(&error))?;
        let facts = self.filesystem.facts(&node).map_err(|error| Cause::from(&error))?;
        Ok((node, facts.place))
    }

    fn follow(&mut self, path: &[u8], mut cursor: Cursor<F::Node>) -> (Chain, Result<F::Node, Unresolved>) {
        loop {
            if cursor.is_exhausted() {
                self.reasons.insert(Reason::TooDeep(path.to_vec()));
            }
            if let ControlFlow::Break(outcome) = self.step(&mut cursor) {
                return (cursor.chain, outcome);
            }
        }
    }

    fn step(&mut self, cursor: &mut Cursor<F::Node>) -> Step<F::Node> {
        let Some(name) = cursor.todo.pop() else {
            return cursor.broken(cursor.path.clone(), Cause::IsADirectory);
        };
        if cursor.chain.len() >= MAX_LOOK_UPS {
            return cursor.broken(cursor.path_of(&name), Cause::TooLong);
        }
        let watch = self.watch_directory(cursor, &name);
        let (found, changed, node) = self.look_up(cursor, &name);
        let look_up = LookUp { directory: cursor.place, name: name.clone(), found: found.clone(), changed };
        cursor.chain.push(look_up);
        match (found, node) {
            (Found::Node { place, kind, text }, Some(node)) => {
                if kind == Kind::Link && watch.is_none() {
                    self.watch(&node, Role::Link, &cursor.path_of(&name));
                }
                self.arrive(cursor, &name, node, (place, kind, text))
            }
            (Found::Nothing(cause), _) => cursor.broken(cursor.path_of(&name), cause),
            (Found::Node { .. }, None) => cursor.broken(cursor.path_of(&name), Cause::Missing),
        }
    }

    fn arrive(
        &mut self,
        cursor: &mut Cursor<F::Node>,
        name: &[u8],
        node: F::Node,
        (place, kind, text): (Place, Kind, Vec<u8>),
    ) -> Step<F::Node> {
        match kind {
            Kind::Link => cursor.enter_link(name, &text),
            Kind::Directory => cursor.enter(name, node, place),
            Kind::File | Kind::Other | Kind::MagicLink if !cursor.todo.is_empty() => {
                cursor.broken(cursor.path_of(name), Cause::NotADirectory)
            }
            Kind::Other | Kind::MagicLink => cursor.broken(cursor.path_of(name), Cause::NotAFile),
            Kind::File => {
                let path = cursor.path_of(name);
                self.watch(&node, Role::File, &path);
                self.note_remote(&node, place, &path);
                ControlFlow::Break(Ok(node))
            }
        }
    }

    /// Before any look-up: the whole argument above rests on this order.
    fn watch_directory(&mut self, cursor: &Cursor<F::Node>, name: &[u8]) -> Option<WatchId> {
        let role = if cursor.todo.is_empty() { Role::Leaf } else { Role::Directory };
        let watch = match self.watched.get(&cursor.place) {
            Some((watch, known)) if *known >= role => *watch,
            Some(_) | None => {
                let watch = self.watch(&cursor.directory, role, cursor.shown_path());
                self.watched.insert(cursor.place, (watch, role));
                self.note_remote(&cursor.directory, cursor.place, cursor.shown_path());
                watch
            }
        };
        if let Some(watch) = watch {
            self.live.expect(watch, cursor.place.identity, name);
        }
        watch
    }

    fn watch(&mut self, node: &F::Node, role: Role, path: &[u8]) -> Option<WatchId> {
        if self.live.len() >= MAX_WATCHES {
            self.reasons.insert(Reason::TooMany);
            return None;
        }
        match self.filesystem.watch(node, role) {
            Ok(watch) => {
                self.live.add(watch, role, path);
                return Some(watch);
            }
            Err(Unwatchable::NoQueue) => self.reasons.insert(Reason::NoQueue),
            Err(Unwatchable::NoRoom) => self.reasons.insert(Reason::NoRoom),
            Err(Unwatchable::Forbidden | Unwatchable::Other(_)) => {
                self.reasons.insert(Reason::Unwatchable(path.to_vec()))
            }
        };
        None
    }

    fn look_up(&mut self, cursor: &Cursor<F::Node>, name: &[u8]) -> Answer<F::Node> {
        let question = (cursor.place, name.to_vec());
        if let Some(answer) = self.memo.get(&question) {
            return answer.clone();
        }
        let answer = match self.ask(&cursor.directory, name) {
            Ok((node, facts, text)) => {
                if facts.anchor == Anchor::Pinned && facts.kind == Kind::File {
                    self.reasons.insert(Reason::Pinned(cursor.path_of(name)));
                }
                (Found::Node { place: facts.place, kind: facts.kind, text }, facts.changed, Some(node))
            }
            Err(error) => (Found::Nothing(Cause::from(&error)), (0, 0), None),
        };
        self.memo.insert(question, answer.clone());
        answer
    }

    fn ask(&mut self, directory: &F::Node, name: &[u8]) -> std::io::Result<(F::Node, Facts, Vec<u8>)> {
        let node = self.filesystem.look_up(directory, name)?;
        let facts = self.filesystem.facts(&node)?;
        match facts.kind {
            Kind::Link => {
                let text = self.filesystem.link_text(&node)?;
                Ok((node, facts, text))
            }
            Kind::MagicLink => self.ask_kernel(directory, name),
            Kind::Directory | Kind::File | Kind::Other => Ok((node, facts, Vec::new())),
        }
    }

    /// What a link leads to that only the kernel can follow. The text of `/proc/7/root` is `/`, which is another
    /// directory here than there; that of `/proc/7/fd/3` may name a file which has since been replaced.
    fn ask_kernel(&mut self, directory: &F::Node, name: &[u8]) -> std::io::Result<(F::Node, Facts, Vec<u8>)> {
        let node = self.filesystem.look_through(directory, name)?;
        let facts = self.filesystem.facts(&node)?;
        // A descriptor may stand for a link itself. Opening that fails, so it is no file to us.
        let is_link = matches!(facts.kind, Kind::Link | Kind::MagicLink);
        let kind = if is_link { Kind::Other } else { facts.kind };
        Ok((node, Facts { kind, ..facts }, Vec::new()))
    }

    /// The file that the kernel finds, if it is not the one at the end of the chain, as with a mount that appears
    /// when it is used. Often merely a swap in between.
    fn elsewhere(&mut self, path: &[u8], chain: &Chain) -> Option<F::Node> {
        let node = self.filesystem.resolve(path).ok()?;
        let facts = self.filesystem.facts(&node).ok()?;
        let is_same = file_place(chain).is_some_and(|place| place.identity == facts.place.identity);
        (facts.kind == Kind::File && !is_same).then_some(node)
    }

    fn note_remote(&mut self, node: &F::Node, place: Place, path: &[u8]) {
        let filesystem = &mut *self.filesystem;
        let name = self.devices.entry(place.identity.device).or_insert_with(|| filesystem.remote(node));
        if let Some(name) = *name {
            let is_known = |reason: &Reason| matches!(reason, Reason::Remote(_, known) if *known == name);
            if !self.reasons.iter().any(is_known) {
                self.reasons.insert(Reason::Remote(path.to_vec(), name));
            }
        }
    }

    fn note_failure(&mut self, node: &Result<F::Node, Unresolved>) {
        if let Err(unresolved) = node
            && !unresolved.cause.ends_with_an_event()
        {
            self.reasons.insert(Reason::Failing(unresolved.at.clone()));
        }
    }
}
