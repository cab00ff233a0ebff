"""How does the cost of a request grow with the number of open connections? Ours only.

Once at a fixed rate, over all that are open in turn, so that each has been left alone for a while when its turn comes; and
once as fast as it goes on a few of them, while the others are idle.
"""

import terminators
from processes import PATIENCE_S, WARM_UP_S, Load, free_port, wait_for

OPEN = (10, 1_000, 10_000)
# Low enough for the load to keep up with, however many connections it has.
REQUESTS_PER_S = 5_000
BUSY = 10


def measure(options, place, processes):
    """CPU seconds a request, by the way of asking and the number of connections that were open."""
    found = {"of": {}, "beside": {}}
    for count in sorted({min(count, place.connections) for count in OPEN}):
        for what, ask in (("of", ask_all), ("beside", ask_a_few)):
            port = free_port()
            child = processes.start("growth", terminators.tlsidecar(options.binary)(place, port), 0)
            try:
                wait_for(port, child)
                found[what][count] = ask(options, processes, child, port, count)
            finally:
                processes.end(child)
    return found


def ask_all(options, processes, child, port, count):
    pace = {"connections": count, "rate": REQUESTS_PER_S, "seconds": options.seconds}
    return cost(Load(processes, options.load, "paced", port, **pace), child, options.seconds)


def ask_a_few(options, processes, child, port, count):
    crowd = Load(processes, options.load, "idle", port, connections=max(count - BUSY, 1))
    try:
        crowd.until_ready()
        crowd.outcome(3 * PATIENCE_S)
        duty = {"connections": BUSY, "seconds": options.seconds, "warm_up": WARM_UP_S}
        return cost(Load(processes, options.load, "requests", port, **duty), child, options.seconds)
    finally:
        crowd.end()


def cost(load, child, seconds):
    outcome, spent = load.cost(child.pid, seconds)
    if outcome["failed"]:
        raise RuntimeError(f"{outcome['failed']} failed: {outcome['failure']}")
    return spent / outcome["done"]


def sentence(found):
    def line(what):
        costs = found[what]
        return ", ".join(f"{figure * 1e6:.1f} us at {count}" for count, figure in costs.items())

    return f"a request costs, asked of each in turn, {line('of')}; of {BUSY} beside idle ones, {line('beside')}"


def figures(found):
    """Rows for the CSV: name, unit, value."""
    return [
        (f"request-{what}-{count}", "us", figure * 1e6) for what, costs in found.items() for count, figure in costs.items()
    ]
