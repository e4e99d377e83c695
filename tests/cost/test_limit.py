"""A limit is kept, broken, or it cannot be told."""

from __future__ import annotations

import pytest

from chaoskit.cost.limit import exit_code, standing
from chaoskit.cost.values import Case, Comparison, CostReport, Estimate


def comparison(low: float | None, high: float = 0.0) -> Comparison:
    found = None if low is None else Estimate((low + high) / 2, low, high, 1.0, 1.0, 9, 9)
    return Comparison("a", "a", "b", Case("ddp", "ddp"), "process", found, "" if found else "broke")


def report(*comparisons: Comparison, interrupted: bool = False) -> CostReport:
    return CostReport("gloo", 2, "2.13", "", 1, comparisons, interrupted=interrupted)


WITHIN, ABOVE, UNCLEAR, BROKEN = (
    comparison(1.0, 1.01), comparison(1.03, 1.04), comparison(1.01, 1.03), comparison(None),
)  # fmt: skip


def test_where_an_interval_lies() -> None:
    assert [standing(c, 0.02) for c in (WITHIN, ABOVE, UNCLEAR, BROKEN)] == [
        "within", "above", "unclear", "unclear",
    ]  # fmt: skip
    assert standing(comparison(0.9, 0.95), 0.0) == "within"


@pytest.mark.parametrize(
    ("found", "limit", "code"),
    [
        ((WITHIN,), 0.02, 0),
        ((WITHIN, UNCLEAR), 0.02, 2),
        ((UNCLEAR, ABOVE, BROKEN), 0.02, 1),
        ((BROKEN,), 0.02, 2),
        ((ABOVE,), None, 0),
        ((ABOVE, BROKEN), None, 2),
        ((), None, 2),
    ],
)
def test_the_exit_code(found: tuple[Comparison, ...], limit: float | None, code: int) -> None:
    assert exit_code(report(*found), limit) == code
    assert exit_code(report(*found, interrupted=True), limit) == 130
