//! Arguments to a configuration, a run and an exit code.
fn main() {}
