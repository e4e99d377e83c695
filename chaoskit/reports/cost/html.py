"""The page of a cost, without script. Plots are pictures that it holds, drawn for light and for dark."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup, escape

from chaoskit.cost.limit import standing
from chaoskit.cost.sentence import by_treatment, sentence
from chaoskit.cost.values import CostReport
from chaoskit.reports.cost import plots
from chaoskit.reports.cost.rows import (
    AGAIN,
    ANYWHERE,
    EXTRAPOLATED,
    WATCHED,
    detected,
    limited,
    notes,
    origin,
    proofs,
    rows,
    title,
)
from chaoskit.reports.frame.page import Frame
from chaoskit.reports.wording import safe

_PAGE: Final = Frame("chaoskit.reports.cost", "cost.html", "cost.css", pictures=True)
_OPTION: Final = re.compile(r"(?<![\w-])--[a-z]{2,12}(?:-[a-z]{1,12}){0,2}(?![\w-])")


@dataclass(frozen=True, slots=True)
class Picture:
    """A plot for light and dark, as addresses that hold it."""

    title: str
    says: str
    light: Markup
    dark: Markup


@dataclass(frozen=True, slots=True)
class Said:
    """The sentence on a treatment, and where it stands against the limit."""

    text: Markup
    standing: str


def render(report: CostReport, limit: float | None = None) -> str:
    """Return the page."""
    names, detections = detected(report)
    found = list(rows(report, limit))
    return _PAGE.render(
        title(report),
        origin(report),
        interrupted=report.interrupted,
        sentences=_sentences(report, limit),
        limit="" if limit is None else limited(report, limit),
        rows=found,
        with_bandwidth=any(row.bandwidth for row in found),
        with_limit=limit is not None,
        names=names,
        detections=detections,
        extrapolated=EXTRAPOLATED.replace("*", ""),
        watched=WATCHED.replace("*", ""),
        pictures=_pictures(report),
        notes=[unbroken(note) for note in notes(report)],
        proofs=list(proofs(report)),
        run_dir=report.run_dir,
        again=AGAIN,
        anywhere=ANYWHERE,
        folder=report.folder,
        rerun=unbroken(report.rerun),
    )


def _sentences(report: CostReport, limit: float | None) -> list[Said]:
    made = []
    for own in by_treatment(report.comparisons).values():
        found = {standing(c, limit) for c in own} if limit is not None else set()
        worst = next((name for name in ("above", "unclear", "within") if name in found), "")
        made.append(Said(unbroken(sentence(own, report.detections)), worst))
    return made


def unbroken(text: str) -> Markup:
    """Return ``text``, escaped as the page escapes any, with options that no line break parts."""
    marked = _OPTION.sub(r'<span class="option">\g<0></span>', str(escape(safe(text))))
    return Markup(marked)  # noqa: S704 - escaped, and our own signs


def _pictures(report: CostReport) -> list[Picture]:
    return [
        Picture(one.title, one.says, _address(one.svg), _address(plots.in_the_dark(one.svg)))
        for one in plots.plots(report)
    ]


def _address(svg: bytes) -> Markup:
    return Markup("data:image/svg+xml;base64," + base64.b64encode(svg).decode("ascii"))  # noqa: S704 - no signs
