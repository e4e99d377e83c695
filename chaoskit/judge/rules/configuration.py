"""Ranks that disagree about the job: who they are, how many there are, where to meet.

Evidence: what each process said of itself before it did anything (RANK, LOCAL_RANK, WORLD_SIZE),
and errors that speak of an address, a port or an interface.
"""

from __future__ import annotations

from collections import Counter

from chaoskit.judge.job import Job, RankView, names
from chaoskit.model import Blame, Culprit, Kind


def find(job: Job) -> Blame | None:
    """Return the rank whose identity or settings do not fit, if any."""
    known = [v for v in job.ranks if v.identity is not None]
    if not known:
        return None
    for look in (_duplicate, _world_size, _missing, _unset, _master, _own_settings, _address):
        blame = look(job, known)
        if blame is not None:
            return blame
    return None


def _blame(ranks: list[int], reason: str, where: str = "", ambiguous: bool = False) -> Blame:
    culprits = tuple(Culprit("rank", str(r)) for r in sorted(set(ranks)))
    return Blame(culprits, Kind.CONFIGURATION, reason, where, ambiguous)


def _duplicate(job: Job, known: list[RankView]) -> Blame | None:
    counts = Counter(v.identity.rank for v in known if v.identity and v.identity.rank >= 0)
    twice = sorted(rank for rank, n in counts.items() if n > 1)
    if not twice:
        return None
    return _blame(twice, f"{names(twice)} claimed by more than one process")


def _world_size(job: Job, known: list[RankView]) -> Blame | None:
    sizes = {v.rank: v.identity.world_size for v in known if v.identity and v.identity.world_size > 0}
    if len(set(sizes.values())) <= 1:
        return None
    said = ", ".join(f"rank {r}: {s}" for r, s in sorted(sizes.items()))
    fitting = [r for r, s in sizes.items() if s == len(job.ranks)]
    odd = [r for r in sizes if r not in fitting]
    if not fitting:
        most, count = Counter(sizes.values()).most_common(1)[0]
        odd = [r for r, s in sizes.items() if s != most] if count * 2 > len(sizes) else list(sizes)
    ambiguous = len(odd) == len(sizes) or (2 * len(odd) >= len(sizes) and not fitting)
    return _blame(odd, f"WORLD_SIZE differs between ranks ({said})", ambiguous=ambiguous)


def _missing(job: Job, known: list[RankView]) -> Blame | None:
    sizes = {v.identity.world_size for v in known if v.identity}
    size = sizes.pop() if len(sizes) == 1 else 0
    if size <= 0:
        return None
    claimed = {v.rank for v in known}
    extra = sorted(r for r in claimed if r >= size)
    if extra:
        return _blame(extra, f"{names(extra)} started in a world of {size}")
    absent = sorted(set(range(size)) - claimed)
    if absent and len(known) == len(job.ranks):
        return _blame(absent, f"{names(absent)} of a world of {size} never started")
    return None


def _unset(job: Job, known: list[RankView]) -> Blame | None:
    """A variable that is missing on some ranks only, and a rank of these that fell over it."""
    odd = [v for v in known if v.identity and v.identity.local_rank < 0]
    fell = [
        v for v in odd if (v.raised is not None and "LOCAL_RANK" in v.raised.message) or v.fired is not None
    ]
    if not fell or len(odd) == len(known):
        return None
    return _blame(
        [v.rank for v in odd], f"LOCAL_RANK is not set on {names([v.rank for v in odd])}", fell[0].last_line
    )


def _master(job: Job, known: list[RankView]) -> Blame | None:
    """Ranks that were told to meet elsewhere than the majority."""
    told = {v.rank: v.identity.master for v in known if v.identity and v.identity.master}
    if len(set(told.values())) < 2:
        return None
    most, count = Counter(told.values()).most_common(1)[0]
    clear = count * 2 > len(told)
    odd = [r for r, master in told.items() if master != most] if clear else list(told)
    said = ", ".join(f"rank {r}: {told[r]}" for r in sorted(odd))
    rest = f"; the others: {most}" if clear else ""
    return _blame(
        odd, f"MASTER_ADDR and MASTER_PORT differ between ranks ({said}{rest})", ambiguous=not clear
    )


def _own_settings(job: Job, known: list[RankView]) -> Blame | None:
    """Settings that a rank itself, or its census guard, saw to be wrong on it."""
    odd = {v.rank: v.identity.problems[0] for v in known if v.identity and v.identity.problems}
    if not odd:
        odd = {
            v.rank: v.fired.message for v in known if v.fired and v.fired.guard == "census" and v.fired.local
        }
    if not odd:
        return None
    first = odd[min(odd)]
    return _blame(list(odd), f"{names(list(odd))}: {first[:200]}")


def _address(job: Job, known: list[RankView]) -> Blame | None:
    odd = [v for v in known if v.raised is not None and v.raised.category == "configuration"]
    if not odd:
        return None
    first = min(odd, key=lambda v: v.raised.t_s if v.raised else 0.0)
    assert first.raised is not None
    ranks = [v.rank for v in odd if v.raised and v.raised.message == first.raised.message] or [first.rank]
    return _blame(ranks, f"{names(ranks)}: {first.raised.message.splitlines()[0][:200]}", first.raised.site)
