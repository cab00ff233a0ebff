//! What the kernel says about a process: descriptors, inotify watches, memory, CPU.

use std::fs;
use std::path::PathBuf;

/// A process as /proc shows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Proc(pub(crate) u32);

impl Proc {
    fn path(self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.0))
    }

    pub(crate) fn descriptors(self) -> usize {
        fs::read_dir(self.path("fd")).unwrap().count()
    }

    /// The limit of descriptors that leaves exactly this many free.
    pub(crate) fn descriptor_limit_with_free(self, free: usize) -> usize {
        let entries = fs::read_dir(self.path("fd")).unwrap().flatten();
        let taken: Vec<usize> =
            entries.map(|entry| entry.file_name().to_str().unwrap().parse().unwrap()).collect();
        (0..).filter(|number| !taken.contains(number)).nth(free).unwrap()
    }

    /// Watches the kernel holds, which is not what the process believes to hold.
    pub(crate) fn inotify_watches(self) -> usize {
        let infos = fs::read_dir(self.path("fdinfo")).unwrap();
        let texts = infos.flatten().filter_map(|entry| fs::read_to_string(entry.path()).ok());
        texts.map(|text| text.lines().filter(|line| line.starts_with("inotify wd:")).count()).sum()
    }

    pub(crate) fn inotify_instances(self) -> usize {
        let links = fs::read_dir(self.path("fd")).unwrap().flatten();
        let targets = links.filter_map(|entry| fs::read_link(entry.path()).ok());
        targets.filter(|target| target.to_string_lossy() == "anon_inode:inotify").count()
    }

    pub(crate) fn resident_kb(self) -> u64 {
        let status = fs::read_to_string(self.path("status")).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    pub(crate) fn threads(self) -> usize {
        fs::read_dir(self.path("task")).unwrap().count()
    }

    /// How many threads other than the log's have gone to sleep at least so often.
    pub(crate) fn threads_with_switches(self, least: u64) -> usize {
        let tasks = fs::read_dir(self.path("task")).unwrap().flatten();
        let texts = tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
        let switches = texts.filter(|text| !text.starts_with("Name:\tlog\n")).filter_map(|text| {
            let line = text.lines().find(|line| line.starts_with("voluntary_ctxt_switches:"))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        });
        switches.filter(|switches| *switches >= least).count()
    }

    pub(crate) fn is_stopped(self) -> bool {
        self.after_name().starts_with('T')
    }

    /// User and system time so far, in clock ticks of 10 ms.
    pub(crate) fn cpu_ticks(self) -> u64 {
        let stat = self.after_name();
        stat.split_whitespace().skip(11).take(2).map(|tick| tick.parse::<u64>().unwrap()).sum()
    }

    /// The state and what follows it. The command's name before may hold blanks; what comes after its bracket does not.
    fn after_name(self) -> String {
        let stat = fs::read_to_string(self.path("stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.to_owned()
    }
}
