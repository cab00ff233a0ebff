"""What do clients notice of a rotation? Ours only: the others have to be told.

A secret volume as the kubelet makes it is swapped every tenth of a second. Meanwhile clients connect at a fixed rate, each
with a full handshake that trusts nothing but the pairs that are swapped, and others ask at a fixed rate on
connections that stay. The same without swaps is what it is compared with.
"""

import os
import time

import terminators
from processes import PATIENCE_S, Load, free_port, wait_for

INTERVAL_S = 0.1
REQUESTS_PER_S = 4000
CONNECTS_PER_S = 400
CONNECTIONS = 32


class Volume:
    """Two names in a folder that lead through one link, which is replaced by a rename."""

    def __init__(self, folder):
        self.folder = folder
        self.swaps = 0
        for number in (0, 1):
            (folder / f"..{number}").mkdir(parents=True)
            terminators.make_pair(folder / f"..{number}" / "tls.crt", folder / f"..{number}" / "tls.key")
        self.trust = folder / "both.crt"
        self.trust.write_text("".join((folder / f"..{number}" / "tls.crt").read_text() for number in (0, 1)))
        (folder / "..data").symlink_to("..0")
        for name in ("tls.crt", "tls.key"):
            (folder / name).symlink_to(f"..data/{name}")
        self.cert, self.key = folder / "tls.crt", folder / "tls.key"

    def swap(self):
        self.swaps += 1
        (self.folder / "..data_tmp").symlink_to(f"..{self.swaps % 2}")
        os.rename(self.folder / "..data_tmp", self.folder / "..data")


def measure(options, place, processes):
    """Outcomes of both loads, once left alone and once with swaps, and how many swaps were made and served."""
    volume = Volume(place.folder / f"volume-{time.monotonic_ns()}")
    port = free_port()
    pair = ["--cert", volume.cert, "--key", volume.key]
    upstream = f"127.0.0.1:{place.upstream_port}"
    command = [options.binary, "serve", "--workers", "1", "--listen", f"127.0.0.1:{port}", "--upstream", upstream, *pair]
    log = processes.folder / "rotation.log"
    log.unlink(missing_ok=True)
    child = processes.start("rotation", command, 0)
    try:
        wait_for(port, child)
        quiet = both_loads(options, volume, port, processes, lambda: None)
        rotating = both_loads(options, volume, port, processes, volume.swap)
        time.sleep(INTERVAL_S)
    finally:
        processes.end(child)
    loaded = log.read_text().count("certificate changed")
    return {"quiet": quiet, "rotating": rotating, "swaps": volume.swaps, "loaded": loaded}


def both_loads(options, volume, port, processes, swap):
    seconds = options.seconds

    def paced(rate, *flags):
        pace = {"connections": CONNECTIONS, "rate": rate, "seconds": seconds, "trust": volume.trust}
        return Load(processes, options.load, "paced", port, *flags, **pace)

    loads = {"request": paced(REQUESTS_PER_S), "connect": paced(CONNECTS_PER_S, "--fresh")}
    try:
        for load in loads.values():
            load.until_ready()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(INTERVAL_S)
            swap()
        return {what: load.outcome(seconds + PATIENCE_S) for what, load in loads.items()}
    finally:
        for load in loads.values():
            load.end()


def sentence(found):
    quiet, rotating = found["quiet"], found["rotating"]

    def both(what, part):
        return f"{rotating[what]['us'][part]:.0f} us ({quiet[what]['us'][part]:.0f} without)"

    failed = rotating["connect"]["failed"] + rotating["request"]["failed"]
    return (
        f"{found['swaps']} swaps, {found['loaded']} loads, {rotating['connect']['done']} handshakes, {failed} failed; "
        f"p99 of a request {both('request', 'p99')}, of a new connection {both('connect', 'p99')}"
    )


def figures(found):
    """Rows for the CSV: name, unit, value."""
    rows = [("rotations", "swaps", found["swaps"]), ("rotations-loaded", "swaps", found["loaded"])]
    for when in ("quiet", "rotating"):
        for what in ("request", "connect"):
            outcome = found[when][what]
            rows += [(f"{when}-{what}-{part}", "us", outcome["us"][part]) for part in ("p50", "p99", "max")]
            rows += [(f"{when}-{what}-{part}", "units", outcome[part]) for part in ("done", "failed")]
    return rows
