//! The command line and its help. Every value is taken as text together with the place it was written in, so that
//! `check` can look at all of them before anything is refused; only what has no such place (a flag that does not exist,
//! one given twice) is refused here. Knows no rule about any value. Shown by `tests/configuration.rs`.
//!
//! A flag's variable is its name after `TLSIDECAR_`. Kubernetes sets `TLSIDECAR_PORT` and `TLSIDECAR_SERVICE_...` by
//! itself beside a service of that name, so no flag is called `--port` or `--service-...`, and variables that belong to
//! no flag are left alone.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::builder::{TypedValueParser, ValueParserFactory};
use clap::parser::ValueSource;
use clap::{Arg, Args, CommandFactory, FromArgMatches, Parser, Subcommand as Subcommands};

use super::defaults;
use super::fault::{PEM_MARK, Text};
use super::limits::EXIT_CODE_FAULTS;
use super::{Refusal, Variables};

/// What was asked for, unchecked.
#[derive(Debug, Subcommands)]
pub(super) enum Subcommand {
    /// Terminate TLS in front of a plaintext service, always with the certificate that is on disk
    Serve(Box<Serve>),
    /// Show it on this machine: a secret volume that rotates, a service, and clients that look
    Demo(Demo),
    /// Say what is behind a certificate and its key, whether they can be served, and whether a change of them would be seen
    Doctor(Box<Doctor>),
}

/// A TLS sidecar whose certificate is never stale
#[derive(Debug, Parser)]
#[command(name = "tlsidecar", version, propagate_version = true, disable_help_subcommand = true)]
struct CommandLine {
    #[command(subcommand)]
    subcommand: Subcommand,
}

#[derive(Debug, Args)]
#[command(
    next_line_help = true,
    override_usage = "tlsidecar serve --listen <ADDR:PORT> --upstream <HOST:PORT|unix:PATH> --cert <FILE> --key <FILE> [OPTIONS]",
    after_help = "A flag wins over its variable. Switches take true or false there. Durations are written 250ms, 10s, 1m 30s or 2h."
)]
pub(super) struct Serve {
    #[command(flatten)]
    pub(super) sides: Sides,
    #[command(flatten)]
    pub(super) certificate: Certificate,
    #[command(flatten)]
    pub(super) tls: Tls,
    #[command(flatten)]
    pub(super) timeouts: Timeouts,
    #[command(flatten)]
    pub(super) limits: Limits,
    #[command(flatten)]
    pub(super) admin: Admin,
    #[command(flatten)]
    pub(super) log: Log,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Addresses (required)")]
pub(super) struct Sides {
    /// Where clients connect with TLS; `:8443` is every address of the host, IPv6 goes in brackets
    #[arg(long, visible_alias = "secure-listen-address", value_name = "ADDR:PORT")]
    #[arg(env = "TLSIDECAR_LISTEN", hide_env_values = true)]
    pub(super) listen: Option<Text>,
    /// The plaintext service: HOST:PORT, unix:/path, or unix:@name for an abstract socket
    #[arg(long, value_name = "HOST:PORT|unix:PATH", env = "TLSIDECAR_UPSTREAM", hide_env_values = true)]
    pub(super) upstream: Option<Text>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Certificate (cert and key required)")]
pub(super) struct Certificate {
    #[command(flatten)]
    pub(super) files: Files,
    /// Look at the files this often even if no event came; 0 = events only
    #[arg(long, visible_alias = "tls-reload-interval", value_name = "DURATION")]
    #[arg(default_value = defaults::RELOAD_INTERVAL, env = "TLSIDECAR_RELOAD_INTERVAL", hide_env_values = true)]
    pub(super) reload_interval: Text,
    /// Exit with code 1 if there is no usable certificate at start, instead of waiting for one
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(default_value = defaults::SWITCH, env = "TLSIDECAR_REQUIRE_CERTIFICATE", hide_env_values = true)]
    pub(super) require_certificate: Text,
    #[command(flatten)]
    pub(super) expired: Expired,
}

/// What every command that looks at a certificate must be told.
#[derive(Debug, Args)]
#[command(next_help_heading = "Certificate (cert and key required)")]
pub(super) struct Files {
    /// PEM file with the certificate chain, leaf first
    #[arg(long, visible_alias = "tls-cert-file", value_name = "FILE")]
    #[arg(env = "TLSIDECAR_CERT", hide_env_values = true)]
    pub(super) cert: Option<Text>,
    /// PEM file with its private key; may be the same file
    #[arg(long, visible_alias = "tls-private-key-file", value_name = "FILE")]
    #[arg(env = "TLSIDECAR_KEY", hide_env_values = true)]
    pub(super) key: Option<Text>,
}

/// What every command that judges a certificate may be told.
#[derive(Debug, Args)]
#[command(next_help_heading = "Certificate (cert and key required)")]
pub(super) struct Expired {
    /// Serve an expired certificate while none is in force; one in force gives way to it only if it expired no later
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(default_value = defaults::SWITCH, env = "TLSIDECAR_ALLOW_EXPIRED", hide_env_values = true)]
    pub(super) allow_expired: Text,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "TLS")]
pub(super) struct Tls {
    /// Oldest version to offer: 1.2, 1.3, VersionTLS12 or VersionTLS13
    #[arg(long, value_name = "VERSION", default_value = defaults::TLS_MIN_VERSION)]
    #[arg(env = "TLSIDECAR_TLS_MIN_VERSION", hide_env_values = true)]
    pub(super) tls_min_version: Text,
    /// Cipher suites, most wanted first, by IANA or OpenSSL name; auto = all, in the order that suits the processor
    #[arg(long, value_name = "auto|NAME,...", default_value = defaults::TLS_CIPHER_SUITES)]
    #[arg(env = "TLSIDECAR_TLS_CIPHER_SUITES", hide_env_values = true)]
    pub(super) tls_cipher_suites: Text,
    /// Key exchange groups that are allowed; the client's order decides between them
    #[arg(long, value_name = "NAME,...", default_value = defaults::TLS_GROUPS)]
    #[arg(env = "TLSIDECAR_TLS_GROUPS", hide_env_values = true)]
    pub(super) tls_groups: Text,
    /// Application protocols (ALPN), most wanted first, for example h2,http/1.1; none are negotiated without it
    #[arg(long, value_name = "NAME,...", env = "TLSIDECAR_ALPN", hide_env_values = true)]
    pub(super) alpn: Option<Text>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Timeouts")]
pub(super) struct Timeouts {
    /// From accept to the end of the TLS handshake
    #[arg(long, value_name = "DURATION", default_value = defaults::HANDSHAKE_TIMEOUT)]
    #[arg(env = "TLSIDECAR_HANDSHAKE_TIMEOUT", hide_env_values = true)]
    pub(super) handshake_timeout: Text,
    /// For the upstream to take a connection
    #[arg(long, value_name = "DURATION", default_value = defaults::CONNECT_TIMEOUT)]
    #[arg(env = "TLSIDECAR_CONNECT_TIMEOUT", hide_env_values = true)]
    pub(super) connect_timeout: Text,
    /// Without a byte in either direction; 0 = off
    #[arg(long, value_name = "DURATION", default_value = defaults::IDLE_TIMEOUT)]
    #[arg(env = "TLSIDECAR_IDLE_TIMEOUT", hide_env_values = true)]
    pub(super) idle_timeout: Text,
    /// Without a byte in the open direction once the other one has ended
    #[arg(long, value_name = "DURATION", default_value = defaults::HALF_CLOSE_TIMEOUT)]
    #[arg(env = "TLSIDECAR_HALF_CLOSE_TIMEOUT", hide_env_values = true)]
    pub(super) half_close_timeout: Text,
    /// Close connections at about this age, busy or not; 0 = off
    #[arg(long, value_name = "DURATION", default_value = defaults::MAX_CONNECTION_AGE)]
    #[arg(env = "TLSIDECAR_MAX_CONNECTION_AGE", hide_env_values = true)]
    pub(super) max_connection_age: Text,
    /// Time for open connections to end after SIGTERM before they are cut; 0 = cut at once
    #[arg(long, value_name = "DURATION", default_value = defaults::DRAIN_TIMEOUT)]
    #[arg(env = "TLSIDECAR_DRAIN_TIMEOUT", hide_env_values = true)]
    pub(super) drain_timeout: Text,
    /// Time to go on accepting after SIGTERM, no longer ready, before the drain begins
    #[arg(long, value_name = "DURATION", default_value = defaults::DRAIN_DELAY)]
    #[arg(env = "TLSIDECAR_DRAIN_DELAY", hide_env_values = true)]
    pub(super) drain_delay: Text,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
pub(super) struct Limits {
    /// Open connections at once; further ones wait in the kernel's backlog; 0 = no limit
    #[arg(long, value_name = "N", default_value = defaults::MAX_CONNECTIONS)]
    #[arg(env = "TLSIDECAR_MAX_CONNECTIONS", hide_env_values = true)]
    pub(super) max_connections: Text,
    /// Unfinished TLS handshakes at once; further ones wait in the kernel's backlog
    #[arg(long, value_name = "N", default_value = defaults::MAX_HANDSHAKES)]
    #[arg(env = "TLSIDECAR_MAX_HANDSHAKES", hide_env_values = true)]
    pub(super) max_handshakes: Text,
    /// Open connections of one client's address (IPv6: /64); further ones are reset; 0 = no limit
    #[arg(long, value_name = "N", default_value = defaults::MAX_CONNECTIONS_PER_CLIENT)]
    #[arg(env = "TLSIDECAR_MAX_CONNECTIONS_PER_CLIENT", hide_env_values = true)]
    pub(super) max_connections_per_client: Text,
    /// Connections accepted in a second; further ones wait in the kernel's backlog; 0 = no limit
    #[arg(long, value_name = "N", default_value = defaults::ACCEPT_RATE)]
    #[arg(env = "TLSIDECAR_ACCEPT_RATE", hide_env_values = true)]
    pub(super) accept_rate: Text,
    /// Threads, each with a listener of its own; auto = as many as the processors we may use, at most 8
    #[arg(long, value_name = "N|auto", default_value = defaults::WORKERS)]
    #[arg(env = "TLSIDECAR_WORKERS", hide_env_values = true)]
    pub(super) workers: Text,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Admin endpoint")]
pub(super) struct Admin {
    /// Serve /livez, /readyz, /metrics and /status here, as plain HTTP
    #[arg(long, value_name = "ADDR:PORT|unix:PATH", env = "TLSIDECAR_ADMIN", hide_env_values = true)]
    pub(super) admin: Option<Text>,
    /// Not ready once the files have held something else than what is served for so long; 0 = ready all the same
    #[arg(long, value_name = "DURATION", default_value = defaults::READY_STALE_LIMIT)]
    #[arg(env = "TLSIDECAR_READY_STALE_LIMIT", hide_env_values = true)]
    pub(super) ready_stale_limit: Text,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Log (standard error)")]
pub(super) struct Log {
    /// text for people, json for machines
    #[arg(long, value_name = "text|json", default_value = defaults::LOG_FORMAT)]
    #[arg(env = "TLSIDECAR_LOG_FORMAT", hide_env_values = true)]
    pub(super) log_format: Text,
    /// Least important lines to write: error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", default_value = defaults::LOG_LEVEL)]
    #[arg(env = "TLSIDECAR_LOG_LEVEL", hide_env_values = true)]
    pub(super) log_level: Text,
}

#[derive(Debug, Args)]
pub(super) struct Demo {
    /// Rotate this often, then end; 0 = until Ctrl-C
    #[arg(long, value_name = "N", default_value = defaults::DEMO_ROTATIONS)]
    pub(super) rotations: Text,
    /// Time between two rotations
    #[arg(long, value_name = "DURATION", default_value = defaults::DEMO_INTERVAL)]
    pub(super) interval: Text,
    /// Where to serve meanwhile; port 0 = any free one
    #[arg(long, value_name = "ADDR:PORT", default_value = defaults::DEMO_LISTEN)]
    pub(super) listen: Text,
}

#[derive(Debug, Args)]
#[command(
    next_line_help = true,
    override_usage = "tlsidecar doctor --cert <FILE> --key <FILE> [OPTIONS]",
    after_help = "Exit code 0: nothing is wrong, though there may be hints. 1: something is. 2: wrong usage."
)]
pub(super) struct Doctor {
    #[command(flatten)]
    pub(super) files: Files,
    #[command(flatten)]
    pub(super) expired: Expired,
    #[command(flatten)]
    pub(super) tls: Tls,
    #[command(flatten)]
    pub(super) output: Output,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(super) struct Output {
    /// Print one JSON document instead of text for people
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(default_value = defaults::SWITCH)]
    pub(super) json: Text,
}

/// Splits `args` (the program's name first) into flags, and fills in variables and defaults.
pub(super) fn read(
    args: impl IntoIterator<Item = OsString>,
    variables: Variables,
) -> Result<Subcommand, Refusal> {
    let mut command = CommandLine::command();
    if variables == Variables::Ignored {
        // The parser can't be told to forget a variable, but none has an empty name.
        command = command.mut_subcommands(|command| command.mut_args(|arg| arg.env("")));
    }
    let line = command
        .try_get_matches_from(joined(args))
        .and_then(|matches| CommandLine::from_arg_matches(&matches));
    match line {
        Ok(line) => Ok(line.subcommand),
        Err(error) => Err(Refusal {
            exit_code: u8::try_from(error.exit_code()).unwrap_or(EXIT_CODE_FAULTS),
            text: without_pem(error.render().to_string()),
        }),
    }
}

/// No flag begins with a digit, so that a word such as `-1s` can only be the value of the flag before it. As one word with
/// that it is refused with its place, like any other wrong value.
fn joined(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    for word in args {
        match words.last_mut() {
            Some(flag) if is_negative(&word) && is_flag_alone(flag) => {
                flag.push("=");
                flag.push(word);
            }
            Some(_) | None => words.push(word),
        }
    }
    words
}

fn is_negative(word: &OsStr) -> bool {
    matches!(word.as_bytes(), [b'-', b'0'..=b'9' | b'.', ..])
}

fn is_flag_alone(word: &OsStr) -> bool {
    matches!(word.as_bytes(), [b'-', b'-', name @ ..] if !name.is_empty() && !name.contains(&b'='))
}

/// A flag that does not exist is quoted in the refusal, and a private key pasted after `--key` looks like one.
fn without_pem(text: String) -> String {
    if text.contains(PEM_MARK) {
        return "error: an argument holds PEM text; write the name of the file that holds it\n".into();
    }
    text
}

/// Takes any text, and notes where it stood.
#[derive(Debug, Clone)]
pub(super) struct TextParser;

impl TypedValueParser for TextParser {
    type Value = Text;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Text, clap::Error> {
        self.parse_ref_(command, arg, value, ValueSource::CommandLine)
    }

    fn parse_ref_(
        &self,
        _command: &clap::Command,
        arg: Option<&Arg>,
        value: &OsStr,
        source: ValueSource,
    ) -> Result<Text, clap::Error> {
        let flag = || arg.and_then(Arg::get_long).map(|flag| format!("--{flag}"));
        let variable = || arg.and_then(Arg::get_env).map(|name| name.to_string_lossy().into_owned());
        let place = if source == ValueSource::EnvVariable { variable() } else { flag() };
        Ok(Text { place: place.unwrap_or_default(), value: value.to_owned() })
    }
}

impl ValueParserFactory for Text {
    type Parser = TextParser;

    fn value_parser() -> TextParser {
        TextParser
    }
}
