"""The picture in the docs: a few cases, everyone's medians side by side."""

from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.compared import ALL, APPEND, CASES, FLOOR, FLOW, Case, Comparison, Contender

_SHOWN = (
    "step of one goal, SQLite on tmpfs",
    "step of one goal, PostgreSQL",
    "64 goals x 50 steps, SQLite on disk",
    "resume after 10,000 steps",
    "list of 50 of 100,000",
    "cold start",
    "bytes a step, SQLite",
    "flushes a step, 64 goals, SQLite",
)
_COLUMNS = 2
_OURS = {FLOW.name: "#1f6f5c", APPEND.name: "#7fb8a8", FLOOR.name: "#b9b9b9"}
_THEIRS = "#d9a441"


def draw(comparison: Comparison, path: Path) -> None:
    """Draw the medians, least and most as lines, on logarithmic scales, into an SVG."""
    cases = [case for case in CASES if case.name in _SHOWN]
    rows = -(-len(cases) // _COLUMNS)
    figure = Figure(figsize=(9, 1.75 * rows), layout="constrained")
    axes = figure.subplots(rows, _COLUMNS, squeeze=False)
    for place, case in zip(axes.flat, cases, strict=False):
        _panel(place, case, comparison)
    for place in list(axes.flat)[len(cases) :]:
        place.set_visible(False)
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "perdure"}):
        figure.savefig(path, format="svg", metadata={"Date": None})
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("".join(f"{line.rstrip()}\n" for line in lines), encoding="utf-8")


def _panel(place: Axes, case: Case, comparison: Comparison) -> None:
    shown = [who for who in ALL if comparison.of(case, who).values][::-1]
    direction = "more is better" if case.more_is_better else "less is better"
    place.set_title(f"{case.name}{f', {case.unit}' if case.unit else ''} ({direction})", fontsize=8, loc="left")
    if not shown:
        return
    place.set_xscale("log")
    for height, who in enumerate(shown):
        _bar(place, height, who, case, comparison)
    place.set_yticks(range(len(shown)), [who.name for who in shown], fontsize=7)
    place.tick_params(axis="y", length=0)
    least, most = place.get_xlim()
    place.set_xlim(least / 2, most * 4)
    place.xaxis.set_visible(False)
    for side in ("top", "right", "bottom"):
        place.spines[side].set_visible(False)


def _bar(place: Axes, height: int, who: Contender, case: Case, comparison: Comparison) -> None:
    found = comparison.of(case, who)
    place.barh(height, found.middle, color=_OURS.get(who.name, _THEIRS), height=0.7)
    place.plot([min(found.values), max(found.values)], [height, height], color="black", linewidth=0.8)
    place.text(max(found.values) * 1.15, height, found.only_middle(case.unit), va="center", fontsize=7)
