//! The relay between sockets that are modelled in memory, byte by byte and edge by edge.

mod ends;
mod histories;
mod peer;
mod seeded;
mod timers;
mod traps;
mod wire;
mod world;
