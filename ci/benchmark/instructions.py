"""How many instructions does a unit of work take?

The server runs in valgrind (callgrind) and is given n units and then 2n; a unit costs the difference. What start-up,
connections made on the way and the dumps themselves take cancels out, and the figures hardly hang on the machine: they
repeat to half a percent, busy or not. What the kernel does is not in them.

valgrind shows programs a CPU with AES, PCLMUL and AVX2 and without SHA, ADX, VAES and AVX-512 instructions, and
aws-lc takes its paths by what the CPU says, so nothing has to be overridden (OPENSSL_ia32cap would be the way). It also
means that hashing, X25519 and AES take more instructions here than on a newer CPU: compare figures of this command
with each other only.

Needs valgrind (Debian: valgrind).
"""

import argparse
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import terminators
from processes import PATIENCE_S, Load, Processes, free_port, pin

# What a unit is, the part of the load, and the options of n and of 2n units.
MIB = 1 << 20
WORK = [
    ("full TLS 1.3 handshake, request, close", "connects", 20, lambda units: {"units": units}),
    ("resumed TLS 1.3 handshake, request, close", "resumes", 20, lambda units: {"units": units}),
    ("keep-alive request", "requests", 200, lambda units: {"units": units}),
    ("MiB to the client", "download", 4, lambda units: {"units": 1, "bytes": units * MIB}),
    ("MiB from the client", "upload", 4, lambda units: {"units": 1, "bytes": units * MIB}),
]
# valgrind makes everything some fifty times slower.
START_S = 60
# After the load has its answers, the server still closes connections.
SETTLE_S = 0.3


def arguments(words):
    parser = argparse.ArgumentParser(
        prog="ci/bench instructions", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--binary", type=Path, default=Path("target/release/tlsidecar"))
    parser.add_argument("--load", type=Path, default=Path("target/release/examples/load"), help="the load tool")
    parser.add_argument("--top", type=int, default=0, help="functions to list for each kind of work")
    parser.add_argument("--limit-s", type=int, default=300, help="of the whole run")
    return parser.parse_args(words)


class Counted:
    """A server whose instructions are counted."""

    def __init__(self, options, place, processes):
        self.options = options
        self.processes = processes
        self.port = free_port()
        self.dumps = place.folder / "callgrind.out"
        command = terminators.tlsidecar(options.binary.resolve())(place, self.port)
        valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={self.dumps}", *command]
        self.child = processes.start("valgrind", valgrind, 0)
        # It is not asked whether it listens: a connection that is not TLS would be counted.
        wait_for_line(place.folder / "valgrind.log", "listening", self.child)

    def work(self, part, options):
        """Instructions since the last dump, and the dump."""
        load = Load(self.processes, self.options.load, part, self.port, **options)
        try:
            load.until_ready()
            outcome = load.outcome(START_S)
        finally:
            load.end()
        if outcome["failed"]:
            raise RuntimeError(f"{outcome['failed']} failed: {outcome['failure']}")
        time.sleep(SETTLE_S)
        before = set(self.dumps.parent.glob("callgrind.out.*"))
        subprocess.run(
            ["callgrind_control", "--dump", str(self.child.pid)], check=True, capture_output=True, timeout=PATIENCE_S
        )
        (dump,) = set(self.dumps.parent.glob("callgrind.out.*")) - before
        total = re.search(r"^totals: (\d+)", dump.read_text(), re.M)
        return int(total.group(1)), dump


def wait_for_line(log, word, child):
    deadline = time.monotonic() + START_S
    while word not in log.read_text():
        if child.poll() is not None or time.monotonic() > deadline:
            sys.exit(f"the server did not start: {log.read_text()[-400:]}")
        time.sleep(0.1)


def print_top(dump, count, units):
    """The functions that took most themselves, for one unit."""
    done = subprocess.run(
        ["callgrind_annotate", "--auto=no", "--threshold=100", dump], capture_output=True, text=True, timeout=PATIENCE_S
    )
    found = re.findall(r"^\s*([\d,]+) \(\s*([\d.]+)%\)\s+\S*?:(.+?)(?: \[.*)?$", done.stdout, re.M)
    # Those that the server was in all the time are charged with all of it.
    found = [(total, share, name) for total, share, name in found if float(share) < 99.9]
    for total, share, name in found[:count]:
        print(f"    {int(total.replace(',', '')) / units:>12,.0f} {share:>6} %  {name[:90]}")


def main(words):
    options = arguments(words)
    signal.signal(signal.SIGALRM, lambda *_: sys.exit(f"not done after {options.limit_s} s"))
    signal.alarm(options.limit_s)
    missing = [name for name in ("valgrind", "callgrind_control", "openssl") if not shutil.which(name)]
    if missing:
        sys.exit(f"needed, and not installed: {', '.join(missing)}")
    pin(1)
    with tempfile.TemporaryDirectory(prefix="tlsidecar-bench-") as name, Processes(Path(name)) as processes:
        place = terminators.Place(Path(name), free_port(), 0)
        service = [options.load, "service", "--listen", f"127.0.0.1:{place.upstream_port}"]
        processes.start("service", service, 1)
        server = Counted(options, place, processes)
        print(f"{'instructions of the server in user space':45}{'per unit':>14}")
        for what, part, units, of in WORK:
            # What happens once only, such as the first certificate or the first ticket, is over then.
            server.work(part, of(1))
            once, _ = server.work(part, of(units))
            twice, dump = server.work(part, of(2 * units))
            print(f"{what:45}{(twice - once) / units:>14,.0f}", flush=True)
            print_top(dump, options.top, 2 * units)
