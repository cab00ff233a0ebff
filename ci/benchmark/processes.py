"""Processes: started on a CPU, looked at, ended. Knows nothing of what they do."""

import contextlib
import glob
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PATIENCE_S = 30
# Before a load counts.
WARM_UP_S = 0.3


class Processes:
    """Starts children on a CPU of their own, and ends them all at the end of a `with`."""

    def __init__(self, folder):
        self.folder = folder
        self.running = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for child in list(self.running):
            self.end(child)

    def start(self, name, command, cpu, **pipes):
        with open(self.folder / f"{name}.log", "ab") as log:
            child = subprocess.Popen(
                [str(word) for word in command],
                **({"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log} | pipes),
                start_new_session=True,
                preexec_fn=lambda: pin(cpu),
                env=os.environ | {"RUST_BACKTRACE": "0"},
            )
        self.running.append(child)
        return child

    def end(self, child):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe:
                pipe.close()
        self.running.remove(child)


def pin(cpu):
    """Keeps the calling process on a CPU: the last there is, if there are not so many."""
    cpus = sorted(set(range(os.cpu_count() or 1)))
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, {cpus[min(cpu, len(cpus) - 1)]})


def family(pid):
    """`pid` and all that descend from it."""
    found, waiting = [], [pid]
    while waiting:
        one = waiting.pop()
        found.append(one)
        for children in glob.glob(f"/proc/{one}/task/*/children"):
            with contextlib.suppress(OSError):
                waiting += [int(child) for child in Path(children).read_text().split()]
    return found


def cpu_seconds(pid):
    """CPU time of a family so far, user's and system's, that of ended threads included."""
    ticks = 0
    for one in family(pid):
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / TICKS_PER_S


def memory_kb(pid):
    """Proportional memory of a family: shared pages are split among those who map them."""
    total = 0
    for one in family(pid):
        with contextlib.suppress(OSError):
            match = re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{one}/smaps_rollup").read_text(), re.M)
            total += int(match.group(1)) if match else 0
    return total


def wait_until_quiet(pid, longest_s=10):
    """Returns once a family has had nothing to do for a while."""
    deadline, before = time.monotonic() + longest_s, -1
    while time.monotonic() < deadline and (now := cpu_seconds(pid)) != before:
        before = now
        time.sleep(0.3)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def wait_for(port, child, longest_s=PATIENCE_S):
    deadline = time.monotonic() + longest_s
    while time.monotonic() < deadline:
        if child.poll() is not None:
            raise RuntimeError(f"ended with {child.returncode} before it listened")
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        time.sleep(0.02)
    raise RuntimeError("does not listen")


class Load:
    """A run of the load tool."""

    def __init__(self, processes, tool, part, port, *flags, **options):
        words = [tool, part, "--to", f"127.0.0.1:{port}", *flags]
        for name, value in options.items():
            words += [] if value is None else [f"--{name.replace('_', '-')}", value]
        self.processes = processes
        self.part = part
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.child = processes.start("load", words, 1, **pipes)

    def line(self, longest_s):
        # It ends by itself when nothing happens any more; this is for when it does not.
        watchdog = threading.Timer(longest_s, self.child.kill)
        watchdog.start()
        try:
            return self.child.stdout.readline().strip()
        finally:
            watchdog.cancel()

    def until_ready(self):
        """Until its warm-up is over."""
        if self.line(PATIENCE_S) != "ready":
            raise RuntimeError(f"the load failed: {self.last_words()}")

    def outcome(self, longest_s=PATIENCE_S):
        """What it tells when it is done."""
        text = self.line(longest_s)
        if not text.startswith("{"):
            raise RuntimeError(f"the load failed: {self.last_words()}")
        return json.loads(text)

    def cost(self, pid, seconds):
        """What it tells when it is done, and the CPU seconds that a family spent meanwhile. Ends it."""
        try:
            self.until_ready()
            before = cpu_seconds(pid)
            outcome = self.outcome(seconds + PATIENCE_S)
            return outcome, cpu_seconds(pid) - before
        finally:
            self.end()

    def end(self):
        self.processes.end(self.child)

    def last_words(self):
        return (self.processes.folder / "load.log").read_text().strip()[-300:]
