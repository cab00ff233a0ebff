//! Every counter, gauge and histogram, with its name and help.
