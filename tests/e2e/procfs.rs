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
