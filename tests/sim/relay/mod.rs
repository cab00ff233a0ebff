//! The relay between sockets that are modelled in memory, byte by byte and edge by edge.

mod ends;
mod histories;
mod peer;
mod scenarios;
mod seeded;
mod socket;
mod timers;
mod traps;
mod wire;
mod world;
