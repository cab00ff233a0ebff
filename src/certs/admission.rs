//! Whether a bundle may take the place of what is served, by the dates of both.
//!
//! A certificate in force gives way to one that clients will rather accept, and to no other:
//!
//! | candidate | nothing served | served is valid | served is not yet valid | served is expired |
//! |---|---|---|---|---|
//! | valid | serve | serve | serve | serve |
//! | not yet valid | serve | refuse, retry | serve unless it begins later | serve |
//! | expired | as the policy says | refuse | refuse | serve unless it ended earlier |
//!
//! A certificate that is not yet valid is served when there is no other: the clock that is wrong may be ours.
//!
//! Knows nothing but dates, and is told the time. The test below is the table once more.

use super::{ExpiredAtStart, Facts, Rfc3339, Validity};
use std::{
    fmt,
    time::{Duration, SystemTime},
};

/// Why a good bundle does not take the place of what is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is expired, and what is served (if anything) is better.
    Expired {
        /// The certificate's end.
        since: SystemTime,
    },
    /// It is not yet valid, and what is served is better.
    NotYetValid {
        /// The certificate's beginning.
        from: SystemTime,
        /// When to stage it again: it is valid by then, or what is served no longer is.
        retry: SystemTime,
    },
    /// No cipher suite on offer works with this kind of key.
    NoSuiteForKey,
    /// The system gave no random numbers for the keys of session tickets.
    NoRandomness,
}

impl Refusal {
    /// A stable label in snake_case.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Expired { .. } => "expired",
            Self::NotYetValid { .. } => "not_yet_valid",
            Self::NoSuiteForKey => "no_suite_for_key",
            Self::NoRandomness => "no_randomness",
        }
    }

    /// When to stage the same bundle again, if waiting helps.
    pub const fn retry_at(&self) -> Option<SystemTime> {
        match self {
            Self::NotYetValid { retry, .. } => Some(*retry),
            Self::Expired { .. } | Self::NoSuiteForKey | Self::NoRandomness => None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired { since } => write!(f, "certificate is expired since {}", Rfc3339(*since)),
            Self::NotYetValid { from, .. } => {
                write!(f, "certificate is not valid before {}", Rfc3339(*from))
            }
            Self::NoRandomness => write!(f, "the system gave no random numbers"),
            Self::NoSuiteForKey => write!(f, "no cipher suite on offer works with this kind of key"),
        }
    }
}

impl std::error::Error for Refusal {}

/// The table at the top of this file.
pub(super) fn admit(
    candidate: &Facts,
    served: Option<&Facts>,
    wall: SystemTime,
    expired_at_start: ExpiredAtStart,
) -> Result<(), Refusal> {
    use Validity::{Expired, NotYetValid, Valid};
    let expired = Err(Refusal::Expired { since: candidate.not_after });
    match (candidate.validity(wall), served.map(|served| (served, served.validity(wall)))) {
        (Valid, _) | (NotYetValid, None | Some((_, Expired))) => Ok(()),
        (NotYetValid, Some((served, Valid))) => {
            let served_ends =
                served.not_after.checked_add(Duration::from_secs(1)).unwrap_or(served.not_after);
            let retry = candidate.not_before.min(served_ends);
            Err(Refusal::NotYetValid { from: candidate.not_before, retry })
        }
        (NotYetValid, Some((served, NotYetValid))) if candidate.not_before > served.not_before => {
            Err(Refusal::NotYetValid { from: candidate.not_before, retry: candidate.not_before })
        }
        (NotYetValid, Some((_, NotYetValid))) => Ok(()),
        (Expired, None) => match expired_at_start {
            ExpiredAtStart::Serve => Ok(()),
            ExpiredAtStart::Refuse => expired,
        },
        (Expired, Some((_, Valid | NotYetValid))) => expired,
        (Expired, Some((served, Expired))) if candidate.not_after < served.not_after => expired,
        (Expired, Some((_, Expired))) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        Bundle,
        testing::{Authority, Leaf, TODAY, bundle, day},
    };
    use super::*;

    #[test]
    fn the_table_of_what_may_replace_what() {
        let authority = Authority::new();
        let valid_in = |from: u64, to: u64| {
            let leaf = Leaf { valid: (from, to), ..Leaf::default() };
            bundle(&authority.issue(&leaf))
        };
        let valid = valid_in(TODAY - 10, TODAY + 10);
        let (soon, later) = (valid_in(TODAY + 1, TODAY + 50), valid_in(TODAY + 20, TODAY + 50));
        let (ended, older) = (valid_in(TODAY - 20, TODAY - 1), valid_in(TODAY - 20, TODAY - 5));
        let expired = |days| Err(Refusal::Expired { since: day(days) });
        let not_yet = |from, retry| Err(Refusal::NotYetValid { from: day(from), retry });
        let a_second_after_the_end = day(TODAY + 10) + Duration::from_secs(1);
        for (name, served, candidate, expected) in [
            ("valid at start", None, &valid, Ok(())),
            ("valid over valid", Some(&valid), &valid, Ok(())),
            ("valid over expired", Some(&ended), &valid, Ok(())),
            ("valid over future", Some(&soon), &valid, Ok(())),
            ("future at start", None, &soon, Ok(())),
            ("future over valid", Some(&valid), &soon, not_yet(TODAY + 1, day(TODAY + 1))),
            ("far future over valid", Some(&valid), &later, not_yet(TODAY + 20, a_second_after_the_end)),
            ("future over expired", Some(&ended), &soon, Ok(())),
            ("future over a later future", Some(&later), &soon, Ok(())),
            ("future over an earlier future", Some(&soon), &later, not_yet(TODAY + 20, day(TODAY + 20))),
            ("expired at start", None, &ended, expired(TODAY - 1)),
            ("expired over valid", Some(&valid), &ended, expired(TODAY - 1)),
            ("expired over future", Some(&soon), &ended, expired(TODAY - 1)),
            ("expired over longer expired", Some(&older), &ended, Ok(())),
            ("longer expired over expired", Some(&ended), &older, expired(TODAY - 5)),
        ] {
            let served = served.map(Bundle::facts);
            let result = admit(candidate.facts(), served, day(TODAY), ExpiredAtStart::Refuse);
            assert_eq!(result, expected, "{name}");
        }
        let allowed = admit(ended.facts(), None, day(TODAY), ExpiredAtStart::Serve);
        assert_eq!(allowed, Ok(()));
        for (served, candidate, expected) in [
            (&valid, &ended, expired(TODAY - 1)),
            (&ended, &older, expired(TODAY - 5)),
            (&older, &ended, Ok(())),
        ] {
            let served = Some(served.facts());
            let replaced = admit(candidate.facts(), served, day(TODAY), ExpiredAtStart::Serve);
            assert_eq!(replaced, expected, "what is in force is not at start");
        }
    }
}
