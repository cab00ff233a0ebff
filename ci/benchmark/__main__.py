"""What does terminating TLS cost?

    ci/bench [compare] [options]     beside other terminators: CPU time a unit of work, memory, latency
    ci/bench instructions            in instructions, which do not hang on the machine
    ci/bench chart CSV SVG           draws again what a comparison wrote

Each of the first two has --help.
"""

import sys
from pathlib import Path

import chart
import compare
import instructions


def draw(words):
    if len(words) != 2:
        sys.exit("usage: ci/bench chart CSV SVG")
    Path(words[1]).write_text(chart.svg(Path(words[0])))


COMMANDS = {"compare": compare.main, "instructions": instructions.main, "chart": draw}


def main(words):
    if words in (["-h"], ["--help"]):
        print(__doc__)
        return
    if words and words[0] in COMMANDS:
        COMMANDS[words[0]](words[1:])
    else:
        compare.main(words)


main(sys.argv[1:])
