"""Ranks whose result differs from what the majority of ranks got."""

from __future__ import annotations

from collections import Counter

from chaoskit.judge.job import Job, names
from chaoskit.model import Blame, Culprit, Kind


def find(job: Job) -> Blame | None:
    """Return the ranks that differ; nobody where all agree (on whatever)."""
    values = {v.rank: f"{v.reported.value:.6g}" for v in job.ranks if v.reported is not None}
    if len(set(values.values())) < 2:
        return None
    most, count = Counter(values.values()).most_common(1)[0]
    clear = count * 2 > len(values)
    odd = sorted(r for r, value in values.items() if value != most) if clear else sorted(values)
    said = ", ".join(f"rank {r}: {values[r]}" for r in sorted(values))
    culprits = tuple(Culprit("rank", str(r)) for r in odd)
    return Blame(
        culprits,
        Kind.WRONG_RESULT,
        f"{names(odd)} ended with another result ({said})",
        ambiguous=not clear,
        evidence=(f"results: {said}",),
    )
