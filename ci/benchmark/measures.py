"""What is measured: names, units, goals. A figure is in CPU seconds, kB or microseconds a unit of work."""

from dataclasses import dataclass

OURS = "tlsidecar"


@dataclass(frozen=True)
class Measure:
    """One kind of figure."""

    name: str
    title: str
    unit: str
    digits: int
    # From a figure to the unit.
    factor: float = 1
    # The largest ratio to the best peer that is good enough.
    ratio_goal: float | None = None
    # The largest figure, in the unit, that is good enough.
    goal: float | None = None


MEASURES = [
    Measure("request", "CPU per keep-alive request", "us", 2, 1e6, ratio_goal=0.75),
    Measure("connect", "CPU per new connection, full handshake", "us", 1, 1e6, ratio_goal=0.45),
    Measure("resume", "CPU per new connection, resumed", "us", 1, 1e6),
    Measure("download", "CPU per GB to the client", "s", 3, ratio_goal=0.42),
    Measure("upload", "CPU per GB from the client", "s", 3, ratio_goal=0.5),
    Measure("idle", "memory per idle connection", "kB", 2, ratio_goal=0.2, goal=2.5),
    Measure("base", "memory of an idle process", "kB", 0, goal=3000),
    Measure("p50", "median latency at a fixed rate", "us", 0),
    Measure("p99", "p99 latency at a fixed rate", "us", 0, ratio_goal=0.8),
]


@dataclass(frozen=True)
class Row:
    """One figure of one round, in its measure's unit, and how many units of work there were a second."""

    round: int
    terminator: str
    measure: str
    unit: str
    figure: float
    per_second: float | None = None
