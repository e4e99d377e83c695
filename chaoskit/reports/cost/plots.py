"""The plots of a cost as SVG: price against message size, and throughput against time to detect.

matplotlib is imported here only. A plot needs nothing beside it: letters are drawn as outlines.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from chaoskit.cost.cases import size_text
from chaoskit.cost.sentence import FAULTS, by_treatment, did_not_end, duration
from chaoskit.cost.telling import is_scant, untold
from chaoskit.cost.values import Comparison, CostReport, Detection, Estimate
from chaoskit.reports.wording import safe

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABEL_MAX: Final = 40
_COLOURS: Final = ("#0072b2", "#d08700", "#00805c", "#b5588f", "#3f97d4", "#7d7a1e", "#7a2048", "#2f8f8f")
_MARKERS: Final = "oD^vPX*p"
_NEVER: Final = 4.0  # of how much further right than the longest time that stands which never came
_SETTINGS: Final[dict[str, object]] = {
    "svg.fonttype": "path",
    "svg.hashsalt": "chaoskit",
    "text.parse_math": False,  # a $ in a name is a $
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.constrained_layout.use": True,
}


@dataclass(frozen=True, slots=True)
class Theme:
    """What is drawn with."""

    ink: str
    paper: str
    line: str


LIGHT: Final = Theme("#1c2128", "#ffffff", "#d8dee4")
DARK: Final = Theme("#e4e8ee", "#14181d", "#2f3741")


@dataclass(frozen=True, slots=True)
class Plot:
    """One picture. ``name`` is a file name without ending, ``says`` what can be read off it."""

    name: str
    title: str
    says: str
    svg: bytes


def plots(report: CostReport) -> tuple[Plot, ...]:
    """Return what there is to draw: nothing of a single size, and nothing without detection."""
    import matplotlib as mpl

    colours = {name: n for n, name in enumerate(by_treatment(report.comparisons))}
    found: list[Plot] = []
    theme = LIGHT
    styled = {
        **_SETTINGS,
        "figure.facecolor": theme.paper,
        "axes.facecolor": theme.paper,
        "savefig.facecolor": theme.paper,
        "text.color": theme.ink,
        "axes.labelcolor": theme.ink,
        "axes.edgecolor": theme.ink,
        "xtick.color": theme.ink,
        "ytick.color": theme.ink,
        "grid.color": theme.line,
    }
    with mpl.rc_context(styled):  # type: ignore[arg-type]  # its keys are a Literal of 400 names
        timed = [c for c in report.comparisons if c.estimate is not None and not is_scant(c.estimate)]
        for op in dict.fromkeys(c.case.op for c in report.comparisons if c.case.kind == "collective"):
            own = [c for c in timed if c.case.op == op]
            if len({c.case.nbytes for c in own}) > 1:
                found.append(_against_size(op, own, colours, report))
        for number, (case_name, own) in enumerate(_weighed(report), 1):
            if (plot := _frontier(case_name, own, report, colours, number)) is not None:
                found.append(plot)
    return tuple(found)


def in_the_dark(svg: bytes) -> bytes:
    """Return a plot that was drawn in :data:`LIGHT` in the colours of :data:`DARK`."""
    for light, dark in zip(
        (LIGHT.ink, LIGHT.paper, LIGHT.line), (DARK.ink, DARK.paper, DARK.line), strict=True
    ):
        svg = svg.replace(light.encode(), dark.encode())
    return svg


def _weighed(report: CostReport) -> list[tuple[str, list[Comparison]]]:
    """The cases whose throughput is set against detection: programs and models, else the largest message."""
    timed = [c for c in report.comparisons if c.estimate is not None and not untold(c.estimate)]
    steps = [c for c in timed if c.case.kind != "collective"]
    if not steps and timed:
        most = max(c.case.nbytes for c in timed)
        steps = [c for c in timed if c.case.nbytes == most]
    cases = dict.fromkeys(c.case for c in steps)
    return [(case.name, [c for c in steps if c.case == case]) for case in cases]


# ---------------------------------------------------------------- price against size


def _against_size(op: str, own: Sequence[Comparison], colours: dict[str, int], report: CostReport) -> Plot:
    figure, axes = _figure(7.2, 3.6)
    sizes = sorted({c.case.nbytes for c in own})
    for name, comparisons in by_treatment(own).items():
        ordered = sorted(comparisons, key=lambda c: c.case.nbytes)
        known = [(c.case.nbytes, c.estimate) for c in ordered if c.estimate is not None]
        colour, marker = _style(colours[name])
        at = [nbytes for nbytes, _ in known]
        axes.fill_between(
            at, [_cost(e.low) for _, e in known], [_cost(e.high) for _, e in known], color=colour, alpha=0.2,
            linewidth=0,
        )  # fmt: skip
        axes.plot(at, [_cost(e.ratio) for _, e in known], color=colour, marker=marker, markersize=4,
                  linewidth=1.4, label=_label(name))  # fmt: skip
    axes.axhline(0, color=axes.xaxis.label.get_color(), linewidth=0.8)
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [size_text(n) for n in sizes], rotation=30, ha="right")
    axes.minorticks_off()
    axes.set_xlabel(f"size of {op}, {report.backend}, {report.ranks} ranks")
    axes.set_ylabel("more time per call, %")
    axes.grid(True, axis="y", linewidth=0.6)
    axes.legend(frameon=False)
    says = f"Price of each setting in {op} by message size; the band is the 95 % interval."
    return _finished(figure, f"size-{op}", f"{op}: price against message size", says)


def _cost(ratio: float) -> float:
    return (ratio - 1.0) * 100


# ---------------------------------------------------------------- throughput against detection


@dataclass(frozen=True, slots=True)
class _Point:
    name: str
    at_s: float | None  # None: the job did not end
    throughput: float
    low: float
    high: float


def _frontier(
    case_name: str, own: Sequence[Comparison], report: CostReport, colours: dict[str, int], number: int
) -> Plot | None:
    """A panel for each fault: throughput over the time until the job has ended, and what is best of both."""
    panels = {s: _points(s, own, report) for s in dict.fromkeys(d.scenario for d in report.detections)}
    panels = {scenario: points for scenario, points in panels.items() if len(points) > 1}
    if not panels:
        return None
    columns = min(2, len(panels))
    lines = math.ceil(len(panels) / columns)
    figure, grid = _grid(4.2 * columns, 2.7 * lines, lines, columns)
    known = [p.at_s for points in panels.values() for p in points if p.at_s is not None]
    never_s = max([*known, 1.0]) * _NEVER
    for axes, (scenario, points) in zip(grid, panels.items(), strict=False):
        _draw(axes, points, colours, never_s, min([*known, 1.0]))
        axes.set_title(FAULTS.get(scenario, scenario), fontsize=9)
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)
    figure.supxlabel("time until the job has ended, timeouts at full length", fontsize=9)
    figure.supylabel("throughput, % of the plain side", fontsize=9)
    says = (
        f"Throughput on {case_name} against the time until a job with a fault has ended: up and to the left"
        " is better. The line joins what nothing beats in both. At the right edge: did not end."
    )
    return _finished(figure, f"frontier-{number}", f"{case_name}: throughput against time to detect", says)


def _points(scenario: str, own: Sequence[Comparison], report: CostReport) -> list[_Point]:
    times = {d.treatment: d for d in report.detections if d.scenario == scenario}
    found = []
    plain = own[0].against
    if plain in times and _usable(times[plain]):
        found.append(_Point(plain, times[plain].production_s, 100.0, 100.0, 100.0))
    for comparison in own:
        detection = times.get(comparison.treatment)
        if detection is None or comparison.estimate is None or not _usable(detection):
            continue
        e: Estimate = comparison.estimate
        found.append(
            _Point(comparison.treatment, detection.production_s, 100 / e.ratio, 100 / e.high, 100 / e.low)
        )
    return found


def _usable(detection: Detection) -> bool:
    return detection.production_s is not None or did_not_end(detection)


def _draw(
    axes: Axes, points: Sequence[_Point], colours: dict[str, int], never_s: float, least_s: float
) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator

    ink = axes.xaxis.label.get_color()
    for point in points:
        colour, marker = _style(colours[point.name]) if point.name in colours else (ink, "s")
        at = never_s if point.at_s is None else max(point.at_s, least_s)
        error = [[max(0.0, point.throughput - point.low)], [max(0.0, point.high - point.throughput)]]
        axes.errorbar([at], [point.throughput], yerr=error, color=colour, marker=marker, markersize=6,
                      fillstyle="none" if point.at_s is None else "full", capsize=2.5, linestyle="",
                      label=_label(point.name))  # fmt: skip
    best = _best(points)
    if len(best) > 1:
        axes.step([p.at_s or least_s for p in best], [p.throughput for p in best], where="post", color=ink,
                  linewidth=0.8, linestyle=":")  # fmt: skip
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(numticks=5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda seconds, _: duration(seconds, rough=True)))
    axes.minorticks_off()
    axes.set_xlim(least_s / 2, never_s * 2)
    axes.axvline(never_s / math.sqrt(_NEVER), color=ink, linewidth=0.6, linestyle="--")
    axes.text(never_s, 0.02, "did not\nend", transform=axes.get_xaxis_transform(), ha="center", va="bottom",
              fontsize=7)  # fmt: skip
    axes.grid(True, axis="y", linewidth=0.6)
    axes.margins(y=0.25)


def _best(points: Iterable[_Point]) -> list[_Point]:
    """Those that no other beats in both: the frontier, from the soonest on."""
    found: list[_Point] = []
    ended = [point for point in points if point.at_s is not None]
    for point in sorted(ended, key=lambda p: (p.at_s or 0.0, -p.throughput)):
        if not found or point.throughput > found[-1].throughput:
            found.append(point)
    return found


# ---------------------------------------------------------------- drawing


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    figure, (axes,) = _grid(width, height, 1, 1)
    return figure, axes


def _grid(width: float, height: float, lines: int, columns: int) -> tuple[Figure, list[Axes]]:
    """A figure without pyplot: nothing of it is kept, and no display is looked for."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    FigureCanvasSVG(figure)
    made = figure.subplots(lines, columns, squeeze=False, sharey=True)
    return figure, list(made.flat)


def _finished(figure: Figure, name: str, title: str, says: str) -> Plot:
    out = io.BytesIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Title": safe(title, longest=200)})
    return Plot(name, title, says, out.getvalue())


def _style(number: int) -> tuple[str, str]:
    return _COLOURS[number % len(_COLOURS)], _MARKERS[number % len(_MARKERS)]


def _label(name: str) -> str:
    """A label that is drawn: one that begins with _ would be left out of a legend."""
    shown = safe(name, longest=LABEL_MAX)
    return f" {shown}" if shown.startswith("_") else shown
