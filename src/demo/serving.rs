//! The product's own serving path as the demo's front.
//!
//! The one place of the demo that knows the server. Shown by the end-to-end test of the demo.

use std::ffi::OsString;
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use super::{Front, Published};
use crate::config::{self, Command};
use crate::server::Server;

/// Starts the serving path from a command line, on a thread of its own.
///
/// # Errors
/// What the command line or the server's start says.
pub fn serve(arguments: &[OsString]) -> Result<Front, String> {
    let command =
        config::parse_alone(arguments.iter().cloned(), Path::new("/")).map_err(|refusal| refusal.text)?;
    let Command::Serve(config) = command else { return Err("the command line serves nothing".to_owned()) };
    let server = Server::bind(&config).map_err(|fault| format!("{fault}: {}", fault.error))?;
    let handle = server.handle();
    let (end, ended) = mpsc::channel();
    let serving = move || {
        if let Err(fault) = server.run() {
            tracing::error!(error = %fault.error, "{fault}");
        }
        // The demo may have ended first.
        let _ = end.send(());
    };
    thread::Builder::new().name("serve".to_owned()).spawn(serving).map_err(|error| error.to_string())?;
    let (address, current, drain) = (handle.clone(), handle.clone(), handle);
    Ok(Front {
        address: Box::new(move || Some(address.address())),
        current: Box::new(move || {
            current.current().map(|generation| Published {
                generation: generation.number,
                serial: generation.facts.serial.clone(),
                published: generation.published,
            })
        }),
        drain: Box::new(move || drain.drain()),
        ended,
    })
}
