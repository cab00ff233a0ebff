"""Figures as a table and as CSV."""

import csv
import statistics

from measures import MEASURES, OURS, Row


def medians(rows, value=lambda row: row.figure):
    found = {}
    for row in rows:
        if value(row) is not None:
            found.setdefault((row.terminator, row.measure), []).append(value(row))
    return {key: statistics.median(values) for key, values in found.items()}


def best_peer(figures, measure):
    """Figure and name of the peer with the least."""
    peers = [(figure, name) for (name, of), figure in figures.items() if of == measure.name and name != OURS]
    return min(peers, default=None)


def verdict(measure, ours, best):
    """Whether what we cost is good enough, as far as there is something to compare with."""
    judged = []
    if measure.ratio_goal is not None and best:
        judged.append(ours <= measure.ratio_goal * best[0])
    if measure.goal is not None:
        judged.append(ours <= measure.goal)
    return "" if not judged else "met" if all(judged) else "missed"


def goal_text(measure):
    texts = [] if measure.ratio_goal is None else [f"{measure.ratio_goal:g}"]
    texts += [] if measure.goal is None else [f"{measure.goal:g} {measure.unit}"]
    return ", ".join(texts)


def table(names, rows):
    """The medians, the ratio to the best peer, and the goals."""
    figures = medians(rows)
    lines = [f"{'medians':43}" + "".join(f"{name:>11}" for name in names) + f"{'ours/best':>11}  {'goal':14}"]
    for measure in MEASURES:
        cells = [figures.get((name, measure.name)) for name in names]
        if all(cell is None for cell in cells):
            continue
        texts = ["-" if cell is None else f"{cell:.{measure.digits}f}" for cell in cells]
        ours, best = figures.get((OURS, measure.name)), best_peer(figures, measure)
        ratio = f"{ours / best[0]:.2f}" if ours is not None and best else "-"
        judged = "" if ours is None else verdict(measure, ours, best)
        title = f"{measure.title}, {measure.unit}"
        cells_text = "".join(f"{text:>11}" for text in texts)
        lines.append(f"{title:43}{cells_text}{ratio:>11}  {goal_text(measure):14}{judged}".rstrip())
    return "\n".join(lines)


def rate_table(names, rows):
    """How much went through in a second, which also hangs on the load."""
    rates = medians(rows, lambda row: row.per_second)
    lines = []
    for measure in MEASURES:
        cells = [rates.get((name, measure.name)) for name in names]
        if any(cells):
            texts = ["-" if cell is None else f"{cell:.4g}" for cell in cells]
            lines.append(f"{measure.name + ' a second':43}" + "".join(f"{text:>11}" for text in texts))
    return "\n".join(lines)


def write_csv(path, rows):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["round", "terminator", "measure", "unit", "figure", "per_second"])
        for row in rows:
            rate = "" if row.per_second is None else f"{row.per_second:.5g}"
            writer.writerow([row.round, row.terminator, row.measure, row.unit, f"{row.figure:.5g}", rate])


def read_csv(path):
    with open(path, newline="") as file:
        return [
            Row(
                int(line["round"]),
                line["terminator"],
                line["measure"],
                line["unit"],
                float(line["figure"]),
                float(line["per_second"]) if line["per_second"] else None,
            )
            for line in csv.DictReader(file)
        ]
