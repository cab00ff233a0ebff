//! Text to a checked, immutable configuration: [`parse`] takes the arguments (flags win over `TLSIDECAR_...`
//! variables, those over the defaults) and returns either a command that can run, or every fault at once, each
//! with the place it was written in.
//!
//! It opens no file, resolves no name and knows nothing of TLS libraries: names of suites and groups become the
//! code points of the IANA registries. Shown by the tables in each file and by `tests/configuration.rs`, which also
//! holds `--help` and `docs/configuration.md` together.

mod address;
mod args;
mod check;
mod defaults;
mod fault;
pub mod limits;
pub mod tls_names;
mod value;

use std::ffi::OsString;
use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::printable::Printable;
pub use fault::{Fault, Faults};

/// What the arguments ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Terminate TLS in front of an upstream.
    Serve(Box<Config>),
    /// Show the product on this machine.
    Demo(Demo),
    /// Examine a certificate and its key.
    Doctor(Box<Doctor>),
}

/// All that `serve` is told. Checked as a whole; nothing in it changes while the process lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Where clients connect.
    pub listen: Listen,
    /// Where their plain bytes go.
    pub upstream: Upstream,
    /// Which files are served, and how they are followed.
    pub reload: Reload,
    /// What a handshake may agree on.
    pub tls: Tls,
    /// How long each phase of a connection may take.
    pub timeouts: Timeouts,
    /// How many there may be of each thing.
    pub limits: Limits,
    /// How many threads share the work.
    pub workers: Workers,
    /// Where and how the process tells of itself.
    pub admin: Admin,
    /// What is written to standard error.
    pub log: Log,
}

/// The address of the TLS side. The unspecified address `[::]` stands for every address of the host, IPv4 too, also
/// on a host without IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen(pub SocketAddr);

/// The plaintext service behind us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Upstream {
    /// A TCP service.
    Tcp {
        /// A name to resolve, or an address without brackets.
        host: String,
        /// 1 to 65535.
        port: u16,
    },
    /// A Unix socket: an absolute path of at most [`limits::UNIX_NAME_BYTES_MAX`] bytes without a NUL.
    Unix(PathBuf),
    /// An abstract Unix socket: 1 to [`limits::UNIX_NAME_BYTES_MAX`] bytes, without the NUL that the kernel puts in
    /// front.
    UnixAbstract(Vec<u8>),
}

/// The certificate's files and how they are followed. Both paths are absolute and keep their `..` and links, which
/// only the file system can resolve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reload {
    /// PEM with the chain, leaf first.
    pub cert: PathBuf,
    /// PEM with the private key; may be the same file.
    pub key: PathBuf,
    /// Time between two looks at everything that no event asked for; `None`: events only.
    pub interval: Option<Duration>,
    /// What to do when nothing usable is there at start.
    pub missing: MissingCertificate,
    /// What to do with a certificate whose time is over.
    pub expired: ExpiredCertificate,
}

/// No usable certificate at start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingCertificate {
    /// Wait for one.
    Wait,
    /// End with exit code 1.
    Exit,
}

/// A certificate on disk whose `notAfter` has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpiredCertificate {
    /// Nothing to begin with: another is waited for.
    Refuse,
    /// Better than none. It never replaces one that is better.
    Serve,
}

/// What a handshake may agree on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// The oldest version offered; the newest is always 1.3.
    pub min_version: TlsVersion,
    /// Cipher suites, most wanted first.
    pub cipher_suites: CipherSuites,
    /// Code points of the key exchange groups allowed, without repetition, never empty. All are in
    /// [`tls_names::GROUPS`].
    pub groups: Vec<u16>,
    /// Application protocols, most wanted first, each 1 to 255 bytes, without repetition; empty: none negotiated.
    pub alpn: Vec<Vec<u8>>,
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// TLS 1.2.
    V1_2,
    /// TLS 1.3.
    V1_3,
}

/// Which cipher suites are allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CipherSuites {
    /// All of [`tls_names::SUITES`], in the order that suits the processor.
    Auto,
    /// These code points, most wanted first, without repetition, never empty. All are in [`tls_names::SUITES`], and
    /// at least one works with [`Tls::min_version`].
    Listed(Vec<u16>),
}

/// How long each phase of a connection may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeouts {
    /// From accept to the end of the TLS handshake.
    pub handshake: Duration,
    /// From the dial to the upstream's answer.
    pub connect: Duration,
    /// Without a byte in either direction; `None`: for ever.
    pub idle: Option<Duration>,
    /// Without a byte in the direction that is left once the other has ended.
    pub half_close: Duration,
    /// About how long a connection may live; `None`: for ever.
    pub connection_age: Option<Duration>,
    /// From the last accept until what is left is cut; zero cuts at once.
    pub drain: Duration,
    /// From the signal to end until the last accept; zero accepts nobody any more.
    pub drain_delay: Duration,
}

/// How many there may be of each thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Open connections; `None`: as many as there are descriptors.
    pub connections: Option<NonZeroUsize>,
    /// Handshakes that have begun and not ended.
    pub handshakes: NonZeroUsize,
    /// Open connections of one client's address; `None`: unlimited.
    pub connections_per_client: Option<NonZeroUsize>,
    /// Connections accepted in a second; `None`: unlimited.
    pub accept_rate: Option<NonZeroUsize>,
}

/// Where and how the process tells of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// Where to answer; `None`: nowhere.
    pub endpoint: Option<Endpoint>,
    /// How long the files may hold something else than what is served before the process is no longer ready;
    /// `None`: for ever.
    pub ready_stale_limit: Option<Duration>,
}

/// The address of the admin endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// As for clients.
    Tcp(Listen),
    /// A Unix socket to be made: an absolute path of at most [`limits::UNIX_NAME_BYTES_MAX`] bytes without a NUL.
    Unix(PathBuf),
}

/// How many threads share the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workers {
    /// As many as the processors we may use, at most [`limits::AUTO_WORKERS_MAX`].
    Auto,
    /// This many, at most [`limits::WORKERS`]'s most.
    Fixed(NonZeroUsize),
}

/// What is written to standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Log {
    /// For whom a line is written.
    pub format: LogFormat,
    /// The least important line written.
    pub level: LogLevel,
}

/// For whom a log line is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines: one JSON object a line.
    Json,
}

/// How important a log line is, the most important first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Something failed for good.
    Error,
    /// Something is wrong that an operator should look at.
    Warn,
    /// What an operator wants to know of normal life.
    Info,
    /// What happens to each connection and each look at the files.
    Debug,
    /// Each step.
    Trace,
}

/// What `demo` is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demo {
    /// How often to rotate; `None`: until interrupted.
    pub rotations: Option<NonZeroUsize>,
    /// Time between two rotations.
    pub interval: Duration,
    /// Where the demonstration serves.
    pub listen: Listen,
}

/// What `doctor` is told. Both paths are absolute, as in [`Reload`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doctor {
    /// PEM with the chain, leaf first.
    pub cert: PathBuf,
    /// PEM with the private key; may be the same file.
    pub key: PathBuf,
    /// What would be done with a certificate whose time is over.
    pub expired: ExpiredCertificate,
    /// What a handshake would have to agree on.
    pub tls: Tls,
    /// For whom the answer is written.
    pub output: Output,
}

/// For whom an answer is written to standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// For people.
    Text,
    /// For machines: one JSON document.
    Json,
}

/// Why there is no command: text for the user and the code to exit with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// 0 when help or the version was asked for (text belongs on standard output), 2 for faults.
    pub exit_code: u8,
    /// Complete lines, without colours.
    pub text: String,
}

/// Reads `args` (the program's name first, as the system hands them over) and the `TLSIDECAR_...` variables.
/// Relative paths start at `working_directory`, which is absolute.
///
/// # Errors
///
/// Help or version text, a flag that does not exist, or all faults in what was written.
pub fn parse(args: impl IntoIterator<Item = OsString>, working_directory: &Path) -> Result<Command, Refusal> {
    command(args::read(args, Variables::Heeded)?, working_directory)
}

/// As [`parse`], for a command line that the program itself has made: variables are somebody else's words there.
///
/// # Errors
///
/// As [`parse`].
pub fn parse_alone(
    args: impl IntoIterator<Item = OsString>,
    working_directory: &Path,
) -> Result<Command, Refusal> {
    command(args::read(args, Variables::Ignored)?, working_directory)
}

/// Whether `TLSIDECAR_...` variables count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variables {
    Heeded,
    Ignored,
}

fn command(given: args::Subcommand, working_directory: &Path) -> Result<Command, Refusal> {
    match given {
        args::Subcommand::Serve(serve) => check::serve(&serve, working_directory)
            .map(|config| Command::Serve(Box::new(config)))
            .map_err(|faults| refusal("serve", &faults)),
        args::Subcommand::Demo(demo) => {
            check::demo(&demo).map(Command::Demo).map_err(|faults| refusal("demo", &faults))
        }
        args::Subcommand::Doctor(doctor) => check::doctor(&doctor, working_directory)
            .map(|doctor| Command::Doctor(Box::new(doctor)))
            .map_err(|faults| refusal("doctor", &faults)),
    }
}

fn refusal(subcommand: &str, faults: &Faults) -> Refusal {
    let text = format!("{faults}\nEvery flag is explained by: tlsidecar {subcommand} --help\n");
    Refusal { exit_code: limits::EXIT_CODE_FAULTS, text }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Endpoint {
    /// As it would be written on the command line, escaped for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(listen) => listen.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", Printable::from(&**path)),
        }
    }
}

impl fmt::Display for Upstream {
    /// As it would be written on the command line, escaped for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => {
                write!(f, "[{}]:{port}", Printable::from(&**host))
            }
            Self::Tcp { host, port } => write!(f, "{}:{port}", Printable::from(&**host)),
            Self::Unix(path) => write!(f, "unix:{}", Printable::from(&**path)),
            Self::UnixAbstract(name) => write!(f, "unix:@{}", name.escape_ascii()),
        }
    }
}

impl fmt::Display for TlsVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1_2 => "1.2",
            Self::V1_3 => "1.3",
        })
    }
}
