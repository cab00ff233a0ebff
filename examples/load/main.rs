//! The load that `ci/bench` puts on terminators, and the plaintext service behind them.
//!
//! One thread, one loop, TLS 1.3 by rustls. It tells what the client saw; what the terminator spent is not its business,
//! but it prints a line when the warm-up is over, so that whoever looks at the terminator knows when to look. Its
//! last line is one JSON object. `ci/bench` drives every part of it.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a measuring tool reads clocks and prints what it measured"
)]

mod closed_loop;
mod dialer;
mod open_loop;
mod reply;
mod samples;
mod service;
mod session;
mod stop;

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Parser, Subcommand};

use crate::closed_loop::{Ask, ClosedLoop};
use crate::dialer::{Dialer, Identity, Resumption};
use crate::open_loop::{OpenLoop, Use};
use crate::stop::Stop;

/// How many connections are begun at once when many are to be held.
const BEGUN_AT_ONCE: usize = 32;

#[derive(Parser)]
#[command(about = "Load for terminators, and the plaintext service behind them")]
struct Arguments {
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand)]
enum Part {
    /// The plaintext service.
    Service {
        #[arg(long)]
        listen: SocketAddr,
    },
    /// Small requests on connections that stay, the next as soon as the last is answered.
    Requests(Duty),
    /// New connections with a full handshake and one small request each.
    Connects(Duty),
    /// New connections that resume a session, with one small request each.
    Resumes(Duty),
    /// Bytes to the client.
    Download(Duty),
    /// Bytes from the client.
    Upload(Duty),
    /// Small requests at times that are fixed beforehand, whether or not earlier ones are answered.
    Paced(Pace),
    /// Connections that have had one answer and stay open until standard input ends.
    Idle(Target),
}

#[derive(Args)]
struct Target {
    /// The terminator.
    #[arg(long)]
    to: SocketAddr,
    #[arg(long, default_value_t = 1)]
    connections: usize,
    /// PEM with the certificates to trust. Without it any certificate and any signature will do, which costs the client less.
    #[arg(long)]
    trust: Option<PathBuf>,
    /// The only cipher suite to offer, by its name without `TLS_`. Without it: AES-256, AES-128 and ChaCha20, in this order.
    #[arg(long)]
    suite: Option<String>,
}

#[derive(Args)]
struct Duty {
    #[command(flatten)]
    target: Target,
    /// How long to go on.
    #[arg(long, conflicts_with = "units", required_unless_present = "units")]
    seconds: Option<f64>,
    /// How long to go on before that without counting.
    #[arg(long, default_value_t = 0.0)]
    warm_up: f64,
    /// How many requests or connections to complete instead.
    #[arg(long)]
    units: Option<u64>,
    /// Bytes a request, where bytes are moved.
    #[arg(long, default_value_t = 16 << 20)]
    bytes: u64,
}

#[derive(Args)]
struct Pace {
    #[command(flatten)]
    target: Target,
    /// Requests a second, over all connections.
    #[arg(long)]
    rate: f64,
    #[arg(long)]
    seconds: f64,
    /// Each request on a new connection with a full handshake.
    #[arg(long)]
    fresh: bool,
}

impl Duty {
    fn stop(&self) -> Stop {
        let seconds = self.seconds.map_or(Duration::MAX, Duration::from_secs_f64);
        Stop::new(Duration::from_secs_f64(self.warm_up), seconds, self.units.unwrap_or(u64::MAX))
    }
}

impl Target {
    fn dialer(&self, resumption: Resumption) -> anyhow::Result<Dialer> {
        let identity = match &self.trust {
            Some(path) => Identity::Trusted(std::fs::read(path).with_context(|| path.display().to_string())?),
            None => Identity::Ignored,
        };
        Dialer::new(self.to, &identity, self.suite.as_deref(), resumption)
    }
}

fn main() -> anyhow::Result<()> {
    let outcome = match Arguments::parse().part {
        Part::Service { listen } => return service::serve(listen),
        Part::Requests(duty) => closed(&duty, Ask::Small, Resumption::Off)?,
        Part::Connects(duty) => closed(&duty, Ask::SmallAndClose, Resumption::Off)?,
        Part::Resumes(duty) => closed(&duty, Ask::SmallAndClose, Resumption::On)?,
        Part::Download(duty) => closed(&duty, Ask::Download(duty.bytes), Resumption::Off)?,
        Part::Upload(duty) => closed(&duty, Ask::Upload(duty.bytes), Resumption::Off)?,
        Part::Paced(Pace { target, rate, seconds, fresh }) => {
            let usage = if fresh { Use::Fresh } else { Use::Kept };
            OpenLoop::new(target.dialer(Resumption::Off)?, target.connections, usage)?
                .run(rate, Duration::from_secs_f64(seconds))?
        }
        Part::Idle(target) => return idle(&target),
    };
    println!("{outcome}");
    Ok(())
}

fn closed(duty: &Duty, ask: Ask, resumption: Resumption) -> anyhow::Result<serde_json::Value> {
    ClosedLoop::new(duty.target.dialer(resumption)?, ask, duty.target.connections)?.run(duty.stop())
}

fn idle(target: &Target) -> anyhow::Result<()> {
    let dialer = target.dialer(Resumption::Off)?;
    let mut load = ClosedLoop::new(dialer, Ask::SmallAndStay, BEGUN_AT_ONCE.min(target.connections))?;
    let outcome = load.run(Stop::new(Duration::ZERO, Duration::MAX, target.connections as u64))?;
    println!("{outcome}");
    io::stdout().flush()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
