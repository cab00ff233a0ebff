"""What does terminating TLS cost, beside other terminators?

Each terminator gets one worker on the first CPU; the load and the plaintext service behind share the second. What is
reported is the terminator's own CPU time for a unit of work, and its memory: that depends on the terminator and hardly on
how fast the load can be made. In each round each measure is taken of one terminator after the other, so that a machine
that gets slower gets slower for all; the table shows medians.

All clients use TLS 1.3 and X25519 and offer AES-256, AES-128 and ChaCha20, most of them first, so the suite is the
terminator's choice (--suite AES_128_GCM_SHA256 makes it the same for all). Latency is that of keep-alive requests at
times fixed beforehand, at half of the highest rate that a peer had in that round, from when each request was due. The
client ignores certificates, except in the rotation. What a rotation and many open connections cost is taken of ours only.

Percentiles want a quiet machine, and so does bulk under a congestion control that paces, such as bbr. Root can have a
network of his own with another:
    unshare --net sh -c 'ip link set lo up; sysctl -w net.ipv4.tcp_congestion_control=reno; ci/bench'

Peers that are not installed are left out (Debian: nginx-light libnginx-mod-stream haproxy hitch stunnel4).
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import chart
import growth
import report
import rotation
import terminators
from measures import MEASURES, OURS, Row
from processes import PATIENCE_S, WARM_UP_S, Load, Processes, free_port, memory_kb, pin, wait_for, wait_until_quiet

# The part of the load, and how many connections it has at once.
LOADS = {
    "request": ("requests", 32),
    "connect": ("connects", 16),
    "resume": ("resumes", 16),
    "download": ("download", 4),
    "upload": ("upload", 4),
}
PACED_CONNECTIONS = 64
RESUMED_MIN = 0.95
# A load that asks later than this measures itself.
LATE_US = 500
BY_NAME = {measure.name: measure for measure in MEASURES}
# What is measured of ours only, by modules.
OURS_ONLY = {"rotation": rotation, "growth": growth}


def arguments(words):
    parser = argparse.ArgumentParser(
        prog="ci/bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--binary", type=Path, default=Path("target/release/tlsidecar"), help="of ours")
    parser.add_argument("--load", type=Path, default=Path("target/release/examples/load"), help="the load tool")
    parser.add_argument("--only", default="", help="names of terminators, with commas between")
    parser.add_argument("--measures", default="", help=f"of {','.join([*BY_NAME, *OURS_ONLY])}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3, help="of each load")
    parser.add_argument("--idle", type=int, default=10_000, help="connections to hold, if there are descriptors for them")
    parser.add_argument("--suite", help="the only cipher suite that clients offer")
    parser.add_argument("--csv", type=Path, help="where to write every single figure")
    parser.add_argument("--svg", type=Path, help="where to draw the medians")
    parser.add_argument("--limit-s", type=int, default=3600, help="of the whole run")
    return parser.parse_args(words)


class Comparison:
    """One run: terminators, their figures, and what is to be said about them."""

    def __init__(self, options, commands, place, processes):
        self.options = options
        self.commands = commands
        self.place = place
        self.processes = processes
        self.rows = []
        self.wanted = [name for name in options.measures.split(",") if name] or [*BY_NAME, *OURS_ONLY]

    def start(self, name):
        port = free_port()
        child = self.processes.start(name, self.commands[name](self.place, port), 0)
        wait_for(port, child)
        return child, port

    def load(self, part, port, **options):
        return Load(self.processes, self.options.load, part, port, suite=self.options.suite, **options)

    def note(self, number, name, measure, figure, per_second=None):
        unit, factor = BY_NAME[measure].unit, BY_NAME[measure].factor
        self.rows.append(Row(number, name, measure, unit, figure * factor, per_second))

    def attempt(self, number, name, what, measure):
        """Takes a measure; a terminator that fails at it has no figure."""
        try:
            return measure()
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            print(f"round {number}: {name} failed at {what}: {error}", flush=True)
            return None

    def round(self, number):
        # Nobody is always the first on a warm machine.
        names = list(self.commands)
        shift = (number - 1) % len(names)
        names = names[shift:] + names[:shift]
        if number == 1 and not {"base", "idle"}.isdisjoint(self.wanted):
            for name in names:
                self.attempt(number, name, "memory", lambda: self.memory(number, name))
        started = {}
        for name in names:
            started[name] = self.attempt(number, name, "the start", lambda: self.start(name))
        alive = {name: found for name, found in started.items() if found}
        for what in LOADS:
            for name, (child, port) in alive.items():
                if what in self.wanted:
                    self.attempt(number, name, what, lambda: self.cost(number, name, what, child, port))
        if not {"p50", "p99"}.isdisjoint(self.wanted):
            self.latencies(number, alive)
        for child, _ in alive.values():
            self.processes.end(child)
        for what, module in OURS_ONLY.items():
            if OURS in self.commands and what in self.wanted:
                self.attempt(number, OURS, what, lambda: self.ours(number, what, module))
        print(f"round {number} done after {time.monotonic() - self.began:.0f} s", flush=True)

    def memory(self, number, name):
        """Alone and before any other load: what that leaves in a terminator's pools would hide what connections take."""
        child, port = self.start(name)
        try:
            once = self.load("requests", port, units=1)
            once.until_ready()
            once.outcome()
            once.end()
            wait_until_quiet(child.pid)
            base = memory_kb(child.pid)
            self.note(number, name, "base", base)
            crowd = self.load("idle", port, connections=self.place.connections)
            crowd.until_ready()
            held = crowd.outcome(3 * PATIENCE_S)["done"]
            wait_until_quiet(child.pid)
            self.note(number, name, "idle", (memory_kb(child.pid) - base) / held)
            short = "" if held >= self.place.connections else f" ({self.place.connections} were asked for)"
            print(f"round {number}: {name} holds {held} idle connections{short}", flush=True)
            crowd.end()
        finally:
            self.processes.end(child)

    def cost(self, number, name, what, child, port):
        part, connections = LOADS[what]
        load = self.load(part, port, connections=connections, seconds=self.options.seconds, warm_up=WARM_UP_S)
        outcome, spent = load.cost(child.pid, self.options.seconds)
        if outcome["failed"]:
            print(f"round {number}: {name}, {what}: {outcome['failed']} failed: {outcome['failure']}", flush=True)
        # The first of each place has nothing to resume, and may have been slow to come.
        if what == "resume" and outcome["resumed"] < RESUMED_MIN * (outcome["done"] - connections):
            raise RuntimeError(f"{outcome['resumed']} of {outcome['done']} connections were resumed")
        if child.poll() is not None or spent <= 0:
            raise RuntimeError("it has ended, or spent nothing")
        units = outcome["moved"] / 1e9 if what in ("download", "upload") else outcome["done"]
        self.note(number, name, what, spent / units, units / outcome["seconds"])

    def latencies(self, number, alive):
        peaks = {row.terminator: row.per_second for row in self.rows if (row.round, row.measure) == (number, "request")}
        peers = [rate for name, rate in peaks.items() if name != OURS] or list(peaks.values())
        if not peers:
            print("no latency: it is taken at half of the highest rate of requests, which was not measured")
            return
        for name, (_, port) in alive.items():
            self.attempt(number, name, "latency", lambda: self.latency(number, name, port, max(peers) / 2))

    def latency(self, number, name, port, rate):
        # A percentile needs more of them than a sum does.
        seconds = 1.5 * self.options.seconds
        load = self.load("paced", port, connections=PACED_CONNECTIONS, rate=rate, seconds=seconds)
        try:
            load.until_ready()
            outcome = load.outcome(seconds + PATIENCE_S)
        finally:
            load.end()
        if outcome["failed"]:
            print(f"round {number}: {name}: {outcome['failed']} paced requests had no answer", flush=True)
        if outcome["late_us"]["p99"] > LATE_US:
            late = f"the load itself was {outcome['late_us']['p99']:.0f} us late in asking at p99"
            print(f"round {number}: {name}: {late}: the machine is busy with something else", flush=True)
        for part in ("p50", "p99"):
            self.note(number, name, part, outcome["us"][part], rate)

    def ours(self, number, what, module):
        found = module.measure(self.options, self.place, self.processes)
        print(f"round {number}: {what}: {module.sentence(found)}", flush=True)
        self.rows += [Row(number, OURS, name, unit, value) for name, unit, value in module.figures(found)]

    def run(self):
        self.began = time.monotonic()
        for number in range(1, self.options.rounds + 1):
            self.round(number)


def surroundings():
    """What the figures hang on besides the terminators."""
    model = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    control = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
    load = os.getloadavg()[0]
    return f"{model.group(1) if model else os.uname().machine}, Linux {os.uname().release}, {control}, load {load:.1f}"


def start_service(processes, tool, port):
    wait_for(port, processes.start("service", [tool, "service", "--listen", f"127.0.0.1:{port}"], 1))


def main(words):
    options = arguments(words)
    # Ended from outside or by the clock, we still end what we started.
    for reason in (signal.SIGALRM, signal.SIGTERM):
        signal.signal(reason, lambda number, _: sys.exit(f"ended early by {signal.Signals(number).name}"))
    signal.alarm(options.limit_s)
    if not shutil.which("openssl"):
        sys.exit("openssl is needed; on Debian: apt-get install openssl")
    commands = terminators.chosen(options.binary, options.only)
    if not commands:
        sys.exit("nothing to measure")
    print(surroundings(), flush=True)
    room = (terminators.raise_descriptors() - terminators.DESCRIPTORS_APART) // 2
    pin(1)
    with tempfile.TemporaryDirectory(prefix="tlsidecar-bench-") as name, Processes(Path(name)) as processes:
        Path(name).chmod(0o755)
        place = terminators.Place(Path(name), free_port(), min(options.idle, room))
        start_service(processes, options.load, place.upstream_port)
        comparison = Comparison(options, commands, place, processes)
        comparison.run()
    rows = comparison.rows
    if not rows:
        sys.exit("nothing could be measured")
    names = [name for name in commands if any(row.terminator == name for row in rows)]
    print(f"\n{report.table(names, rows)}\n\n{report.rate_table(names, rows)}")
    if options.csv:
        report.write_csv(options.csv, rows)
    if options.svg:
        options.svg.write_text(chart.draw(rows))
    if OURS in commands and OURS not in names:
        sys.exit("tlsidecar could not be measured")
