//! Arguments to a configuration, a run and an exit code: the only place that writes to the terminal by itself. Knows
//! nothing of TLS, sockets or files. Shown by `tests/configuration.rs`.

mod log;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};
use tlsidecar::config::{self, Command, Config, Demo, Doctor, Log, LogFormat, LogLevel, Output, Refusal};
use tlsidecar::demo::{self, Options, Style};
use tlsidecar::doctor::{self, Verdict};
use tlsidecar::printable::Printable;
use tlsidecar::server::{self, Ending, Server};

fn main() -> ExitCode {
    match run() {
        Ok(exit_code) => exit_code,
        Err(error) => {
            write_all(&mut io::stderr(), &format!("error: {error:#}\n"));
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode> {
    let working_directory = std::env::current_dir().context("no working directory")?;
    match config::parse(std::env::args_os(), &working_directory) {
        Ok(Command::Serve(config)) => serve(*config),
        Ok(Command::Demo(demo)) => show(&demo),
        Ok(Command::Doctor(doctor)) => examine(&doctor),
        Err(refusal) => Ok(refuse(&refusal)),
    }
}

fn serve(config: Config) -> Result<ExitCode> {
    // Before the log's thread starts: signals are for the loop.
    server::hold_signals().context("signals")?;
    let _log = log::open(config.log).context("log")?;
    tracing::info!(
        listen = %config.listen,
        upstream = %config.upstream,
        cert = %Printable::from(&*config.reload.cert),
        key = %Printable::from(&*config.reload.key),
        "configuration read"
    );
    Ok(match Server::bind(&config).and_then(Server::run) {
        Ok(Ending::Drained) => ExitCode::SUCCESS,
        Ok(Ending::Cut(_)) => ExitCode::FAILURE,
        Err(fault) => {
            tracing::error!(error = %fault.error, "{fault}");
            ExitCode::FAILURE
        }
    })
}

fn show(demo: &Demo) -> Result<ExitCode> {
    server::hold_signals().context("signals")?;
    let _log = log::open(Log { format: LogFormat::Text, level: LogLevel::Warn }).context("log")?;
    let rotations = demo.rotations.map(|rotations| u32::try_from(rotations.get())).transpose()?;
    let style = if shows_colours() { Style::Coloured } else { Style::Plain };
    let options =
        Options { rotations, pause: demo.interval, listen: demo.listen.0, style, ..Options::default() };
    demo::run(&options, demo::serve, &mut io::stdout())?;
    Ok(ExitCode::SUCCESS)
}

fn examine(doctor: &Doctor) -> Result<ExitCode> {
    let for_people = doctor.output == Output::Text && shows_colours();
    let style = if for_people { doctor::Style::Coloured } else { doctor::Style::Plain };
    let verdict = doctor::run(doctor, style, &mut io::stdout()).context("cannot write")?;
    Ok(match verdict {
        Verdict::Well => ExitCode::SUCCESS,
        Verdict::Ill => ExitCode::FAILURE,
    })
}

/// Whether standard output is a terminal of somebody who has not asked for letters only.
fn shows_colours() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty())
}

fn refuse(refusal: &Refusal) -> ExitCode {
    if refusal.exit_code == 0 {
        write_all(&mut io::stdout(), &refusal.text);
    } else {
        write_all(&mut io::stderr(), &refusal.text);
    }
    ExitCode::from(refusal.exit_code)
}

/// Nobody is left to tell when a terminal or a pipe has gone.
fn write_all(to: &mut dyn Write, text: &str) {
    let _ = to.write_all(text.as_bytes());
}
