"""Bus bandwidth by nccl-tests' definition (its doc/PERFORMANCE.md)."""

from __future__ import annotations

import pytest

from chaoskit.cost.bandwidth import bus_bytes_s
from chaoskit.cost.values import Case, Estimate


@pytest.mark.parametrize(
    ("op", "ranks", "factor"),
    [
        ("all_reduce", 2, 1.0),
        ("all_reduce", 8, 1.75),
        ("all_gather", 4, 0.75),
        ("reduce_scatter", 4, 0.75),
        ("all_to_all", 8, 0.875),
        ("broadcast", 8, 1.0),
    ],
)
def test_each_operation_has_its_factor(op: str, ranks: int, factor: float) -> None:
    found = Estimate(2.0, 1.9, 2.1, 0.5, 1.0, 10, 5)
    assert bus_bytes_s(Case("collective", op, op, 1000), ranks, found) == (2000 * factor, 1000 * factor)


def test_a_step_has_none() -> None:
    assert bus_bytes_s(Case("ddp", "ddp"), 2, Estimate(1, 1, 1, 1, 1, 1, 1)) is None
    assert bus_bytes_s(Case("collective", "x", "all_reduce", 8), 2, None) is None
