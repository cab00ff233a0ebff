//! The limits that keep clients out, by name.
//!
//! Knows neither their sizes nor when they are reached.

/// What may keep a client out, in the order of [`Limit::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    /// Connections open at once, as configured.
    Connections,
    /// Handshakes in flight.
    Handshakes,
    /// Connections accepted in a second.
    AcceptRate,
    /// What the process or the system has descriptors for.
    Descriptors,
    /// Connections of one client.
    ClientConnections,
}

impl Limit {
    /// Every one of them.
    pub(crate) const ALL: [Self; 5] =
        [Self::Connections, Self::Handshakes, Self::AcceptRate, Self::Descriptors, Self::ClientConnections];

    /// A stable word for metrics and the log.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Handshakes => "handshakes",
            Self::AcceptRate => "accept_rate",
            Self::Descriptors => "descriptors",
            Self::ClientConnections => "client_connections",
        }
    }

    /// What becomes of the clients it keeps out.
    pub(crate) fn fate(self) -> Fate {
        match self {
            Self::Connections | Self::Handshakes | Self::AcceptRate | Self::Descriptors => Fate::Wait,
            Self::ClientConnections => Fate::Reset,
        }
    }
}

/// What becomes of a client that a limit keeps out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It waits in the kernel's backlog.
    Wait,
    /// Its connection is reset.
    Reset,
}
