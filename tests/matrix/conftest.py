"""Synthetic verdicts, rows and matrices: no rank is started here."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from chaoskit.matrix.values import (
    NONE,
    PROFILE,
    Cell,
    Column,
    Effort,
    Mark,
    Matrix,
    Origin,
    Row,
    Smallest,
)
from chaoskit.matrix.worth import worth
from chaoskit.model import Outcome, Status, Verdict

PARTS = ("timeouts", "fail_fast", "group_kill")
_VERDICT = Verdict(
    "rank-stopped", "profile", 1, 1, "gloo", "strict", Status.PASS, "told", Outcome.FAILED, bites=False,
    bound_s=5.0, latency_s=3.1,
)  # fmt: skip

MakeRow = Callable[..., Row]
MakeMatrix = Callable[..., Matrix]


@pytest.fixture(scope="session")
def verdict() -> Callable[..., Verdict]:
    """Make a verdict of a profile's arm that passed, with the fields given changed."""

    def make(**changes: object) -> Verdict:
        return dataclasses.replace(_VERDICT, **changes)  # type: ignore[arg-type]

    return make


@pytest.fixture(scope="session")
def control(verdict: Callable[..., Verdict]) -> Callable[..., Verdict]:
    """Make a verdict of a control arm that bites, with the fields given changed."""

    def make(**changes: object) -> Verdict:
        plain = {"arm": "control", "bites": True, "outcome": Outcome.HUNG, "latency_s": None}
        return verdict(**{**plain, **changes})

    return make


@pytest.fixture(scope="session")
def row() -> MakeRow:
    """Make a row: ``alone`` and ``without`` say the marks of single parts, all else is not held."""

    def make(
        name: str,
        alone: dict[str, Mark] | None = None,
        without: dict[str, Mark] | None = None,
        *,
        base: Mark = Mark.BITES,
        profile: Mark = Mark.HELD,
        healthy: bool = False,
        parts: tuple[str, ...] = PARTS,
    ) -> Row:
        plain = Mark.QUIET if healthy else Mark.NOT_HELD
        kept = Mark.QUIET if healthy else Mark.HELD
        cells = [
            Cell(NONE, Mark.QUIET if healthy else base),
            Cell(PROFILE, kept if profile is Mark.HELD else profile),
        ]
        cells += [Cell(Column("alone", p), (alone or {}).get(p, plain)) for p in parts]
        cells += [Cell(Column("without", p), (without or {}).get(p, kept)) for p in parts]
        return Row(
            name, "healthy" if healthy else "process", "what it is", healthy, "gloo", "mine", tuple(cells)
        )

    return make


@pytest.fixture(scope="session")
def matrix() -> MakeMatrix:
    """Make a matrix of rows, with the fields given changed."""

    def make(*rows: Row, parts: tuple[str, ...] = PARTS, **changes: object) -> Matrix:
        origin = Origin(
            "runs/matrix/1", "mine", "gloo", 5, "2.13.0", "0.1.0", "3.11.2", 2, 1, "a test",
            "chaoskit matrix --resume runs/matrix/1",
        )  # fmt: skip
        worths = tuple(worth(part, rows) for part in parts)
        plain = Matrix(
            origin, parts, rows, worths, Smallest(why_not="not looked for"), (), Effort(10.0, 40.0, 9)
        )
        return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]

    return make
