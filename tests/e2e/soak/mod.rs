//! Long runs, and in an ordinary test run short slices of them: the promises that only many repetitions or much noise can
//! break. `ci/soak` plays each in full length.

mod churn;
mod flood;
mod long;
mod storm;
mod swaps;
