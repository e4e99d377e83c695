"""The page of a cost: one file that loads nothing and sends nothing, without script.

Every value goes through :func:`chaoskit.reports.wording.safe` and is escaped. Plots are pictures, drawn for
light and for dark.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from dataclasses import dataclass

import jinja2
from markupsafe import Markup

from chaoskit.cost.limit import standing
from chaoskit.cost.sentence import by_treatment, sentence
from chaoskit.cost.values import CostReport
from chaoskit.reports.cost import plots
from chaoskit.reports.cost.rows import (
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
from chaoskit.reports.wording import safe

STYLE = "cost.css"


@dataclass(frozen=True, slots=True)
class Picture:
    """A plot for light and dark, as addresses that hold it."""

    title: str
    says: str
    light: str
    dark: str


@dataclass(frozen=True, slots=True)
class Said:
    """The sentence on a treatment, and where it stands against the limit."""

    text: str
    standing: str


def render(report: CostReport, limit: float | None = None) -> str:
    """Return the page."""
    environment = _templates()
    assert environment.loader is not None
    style = environment.loader.get_source(environment, STYLE)[0]
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    names, detections = detected(report)
    found = list(rows(report, limit))
    return environment.get_template("cost.html").render(
        title=title(report),
        policy=policy,
        style=Markup(style),  # noqa: S704 - our own file
        origin=origin(report),
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
        notes=notes(report),
        proofs=list(proofs(report)),
        run_dir=report.run_dir,
    )


def _sentences(report: CostReport, limit: float | None) -> list[Said]:
    made = []
    for own in by_treatment(report.comparisons).values():
        found = {standing(c, limit) for c in own} if limit is not None else set()
        worst = next((name for name in ("above", "unclear", "within") if name in found), "")
        made.append(Said(sentence(own, report.detections), worst))
    return made


def _pictures(report: CostReport) -> list[Picture]:
    return [
        Picture(one.title, one.says, _address(one.svg), _address(plots.in_the_dark(one.svg)))
        for one in plots.plots(report)
    ]


def _address(svg: bytes) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode("ascii")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _shown(value: object) -> object:
    """What is put out for a value: never a character that hides or reorders others."""
    if not isinstance(value, str) or isinstance(value, Markup) or value.startswith("data:image/svg+xml;"):
        return value
    return safe(value)


@functools.cache
def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("chaoskit.reports.cost"),
        autoescape=True,
        finalize=_shown,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
