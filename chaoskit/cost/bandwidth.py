"""Bus bandwidth, as nccl-tests defines it (doc/PERFORMANCE.md there): what the busiest link has to carry, so
that figures of different numbers of ranks can be compared. Pure."""

from __future__ import annotations

from chaoskit.cost.values import Case, Estimate


def factor(op: str, ranks: int) -> float:
    """Return bus bandwidth over algorithm bandwidth (bytes of the operation a second)."""
    if op == "all_reduce":
        return 2 * (ranks - 1) / ranks
    if op == "broadcast":
        return 1.0
    return (ranks - 1) / ranks


def bus_bytes_s(case: Case, ranks: int, estimate: Estimate | None) -> tuple[float, float] | None:
    """Return bytes a second without and with the treatment; None where no collective was timed."""
    if estimate is None or case.kind != "collective":
        return None
    carried = case.nbytes * factor(case.op, ranks)
    return carried / estimate.plain_s, carried / estimate.with_s
