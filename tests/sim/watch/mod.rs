//! The watcher over a simulated file system and a virtual clock.
//!
//! `world` is the file system and `queue` its events, as Linux reports them; `view` is what the watcher sees of
//! it and checks the order of watching and looking up; `change` is what writers do; `driver` plays the shell with
//! a toy store and checks what must hold at every moment; `stories` are named ones, `histories` random ones, and
//! `promises` are about speed, economy and what is told.

mod change;
mod driver;
mod histories;
mod promises;
mod queue;
mod stories;
mod view;
mod world;
