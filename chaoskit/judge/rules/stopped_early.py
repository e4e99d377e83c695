"""Ranks that ended 0 after fewer collectives of a group than the majority of its members.

Asked last: nobody waited for them (they left after a broadcast, say), so nothing failed on anybody.
"""

from __future__ import annotations

from collections import Counter

from chaoskit.judge.job import Job, names
from chaoskit.judge.program import newest
from chaoskit.judge.wording import named
from chaoskit.model import Blame, Culprit, Kind, Operation


def find(job: Job) -> Blame | None:
    """Return the ranks that are behind the majority in a job that ended 0 everywhere."""
    if any(v.exit_code != 0 or v.alive_at_deadline for v in job.ranks):
        return None
    for group, members in job.groups:
        last = {v.rank: newest(v, group) for v in job.ranks if v.rank in members}
        if len(set(last.values())) < 2:
            continue
        most, count = Counter(last.values()).most_common(1)[0]
        odd = sorted(r for r, e in last.items() if e != most)
        if most is None or count * 2 <= len(last):
            return None
        seen = last[odd[0]]
        where = f"was last seen in {seen[0]} #{seen[1]}" if seen else "entered nothing"
        culprits = tuple(Culprit("rank", str(r)) for r in odd)
        reason = f"{names(odd)} {where} of group {named(group, members)}, the others in {most[0]} #{most[1]}"
        each = ", ".join(f"rank {r}: {e[0]} #{e[1]}" if e else f"rank {r}: none" for r, e in last.items())
        return Blame(
            culprits,
            Kind.OTHER_COLLECTIVE,
            reason,
            at=Operation(most[0], group, most[1]),
            evidence=(f"last collectives of group {named(group, members)}: {each}",),
        )
    return None
