"""A chart of medians: what we cost as a part of what the best peer costs. Readable on light and on dark ground."""

from html import escape

import report
from measures import MEASURES, OURS

WIDTH = 860
ROW = 34
TOP = 62
LEFT = 300
BAR_WIDTH = 300
BAR_HEIGHT = 16
# Longer bars are cut off: their figure stands beside them.
RATIO_MAX = 1.3

STYLE = """
text { font: 13px system-ui, -apple-system, 'Segoe UI', sans-serif; fill: #1f2328 }
.small { font-size: 12px; fill: #59636e }
.title { font-size: 15px; font-weight: 600 }
.track { fill: #818b981f }
.bar { fill: #2a7a4f }
.over { fill: #b3541e }
.best { stroke: #59636e; stroke-width: 1; stroke-dasharray: 3 3 }
.goal { fill: none; stroke: #1f2328; stroke-width: 2 }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc }
  .small { fill: #9198a1 }
  .track { fill: #9198a126 }
  .bar { fill: #3fb27f }
  .over { fill: #e8894a }
  .best { stroke: #9198a1 }
  .goal { stroke: #f0f6fc }
}
"""


def bars(figures):
    """Measure, our figure, the best peer's figure and its name, where there are both."""
    for measure in MEASURES:
        ours, best = figures.get((OURS, measure.name)), report.best_peer(figures, measure)
        if ours is not None and best:
            yield measure, ours, *best


def draw(rows):
    """SVG of the medians of `rows`."""
    found = list(bars(report.medians(rows)))
    largest = max([1.0, *(ours / best for _, ours, best, _ in found)])

    largest = min(largest, RATIO_MAX)

    def x(ratio):
        return LEFT + BAR_WIDTH * min(ratio, largest) / largest

    height = TOP + ROW * len(found) + 34
    size = f'width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        f"<title>{escape('tlsidecar beside the best peer in each measure')}</title><style>{STYLE}</style>",
        '<text class="title" x="16" y="26">What tlsidecar costs, as a part of what the best peer costs</text>',
        f'<text class="small" x="{x(1):.1f}" y="{TOP - 12}" text-anchor="middle">best peer</text>',
    ]
    for number, (measure, ours, best, peer) in enumerate(found):
        parts += row(measure, ours, best, peer, TOP + ROW * number, x)
    bottom = TOP + ROW * len(found)
    parts.append(f'<line class="best" x1="{x(1):.1f}" y1="{TOP - 6}" x2="{x(1):.1f}" y2="{bottom - 6}"/>')
    rounds = max((one.round for one in rows), default=0)
    medians = f"medians of {rounds} rounds" if rounds > 1 else "a single round"
    legend = f"Shorter is better. | marks the goal; orange misses a goal. One worker on one CPU; {medians}."
    parts += [f'<text class="small" x="16" y="{bottom + 20}">{escape(legend)}</text>', "</svg>"]
    return "\n".join(parts) + "\n"


def row(measure, ours, best, peer, y, x):
    ratio = ours / best
    judged = report.verdict(measure, ours, (best, peer)) or ("met" if ratio <= 1 else "missed")
    kind = "bar" if judged == "met" else "over"
    middle = y + BAR_HEIGHT / 2 + 4.5
    figures = f"{ours:.{measure.digits}f} {measure.unit}, {peer} {best:.{measure.digits}f}".replace(" us", " µs")
    yield f'<text x="{LEFT - 12}" y="{middle}" text-anchor="end">{escape(measure.title)}</text>'
    yield f'<rect class="track" x="{LEFT}" y="{y}" width="{x(1) - LEFT:.1f}" height="{BAR_HEIGHT}" rx="3"/>'
    yield f'<rect class="{kind}" x="{LEFT}" y="{y}" width="{x(ratio) - LEFT:.1f}" height="{BAR_HEIGHT}" rx="3"/>'
    if measure.ratio_goal is not None:
        goal = x(measure.ratio_goal)
        yield f'<path class="goal" d="M{goal:.1f} {y - 4}V{y + BAR_HEIGHT + 4}"/>'
    right = LEFT + BAR_WIDTH + 16
    yield f'<text x="{right}" y="{middle}">{ratio:.3g}</text>'
    yield f'<text class="small" x="{right + 44}" y="{middle}">{escape(figures)}</text>'


def svg(path):
    """SVG of the figures in a CSV file."""
    return draw(report.read_csv(path))
