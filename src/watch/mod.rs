//! Paths to the look-ups behind them, and look-ups to decisions.
