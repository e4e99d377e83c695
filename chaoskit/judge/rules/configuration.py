"""Ranks that disagree about the job: who they are, how many there are, where to meet.

Evidence: what each process said of itself before it did anything (RANK, LOCAL_RANK, WORLD_SIZE), which is
asked first of all; and errors that speak of an address, a port or an interface, which a broken network may
cause as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from chaoskit.judge import grounds
from chaoskit.judge.job import Job, RankView, names
from chaoskit.judge.wording import one_line
from chaoskit.model import Blame, Culprit, Kind


def find(job: Job) -> Blame | None:
    """Return the rank whose identity or settings do not fit, if any."""
    looks = (_duplicate, _world_size, _missing, _unset, _master, _loopback, _own_settings)
    return _first(job, looks)


def claimed(job: Job) -> Blame | None:
    """Return the rank that found, or fell over, something wrong with its own settings."""
    return _first(job, (_taken, _nobody_there, _address))


def _first(job: Job, looks: tuple[Callable[[Job, list[RankView]], Blame | None], ...]) -> Blame | None:
    known = [v for v in job.ranks if v.identity is not None]
    found = (look(job, known) for look in looks) if known else ()
    return next((blame for blame in found if blame is not None), None)


def _blame(
    ranks: list[int],
    reason: str,
    where: str = "",
    ambiguous: bool = False,
    evidence: tuple[str, ...] = (),
) -> Blame:
    culprits = tuple(Culprit("rank", str(r)) for r in sorted(set(ranks)))
    return Blame(culprits, Kind.CONFIGURATION, reason, where, ambiguous, evidence=evidence)


def _duplicate(job: Job, known: list[RankView]) -> Blame | None:
    counts = Counter(v.identity.rank for v in known if v.identity and v.identity.rank >= 0)
    twice = sorted(rank for rank, n in counts.items() if n > 1)
    if not twice:
        return None
    said = tuple(
        f"processes {', '.join(str(v.slot) for v in known if v.rank == rank)} say that they are rank {rank}"
        for rank in twice
    )
    return _blame(twice, f"{names(twice)} claimed by more than one process", evidence=said)


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
    reason = f"WORLD_SIZE differs between ranks ({said})"
    evidence = (f"{len(job.ranks)} processes were started", f"WORLD_SIZE as given: {said}")
    return _blame(odd, reason, ambiguous=ambiguous, evidence=evidence)


def _missing(job: Job, known: list[RankView]) -> Blame | None:
    sizes = {v.identity.world_size for v in known if v.identity}
    size = sizes.pop() if len(sizes) == 1 else 0
    if size <= 0:
        return None
    claimed = {v.rank for v in known}
    extra = sorted(r for r in claimed if r >= size)
    if extra:
        said = f"every process says WORLD_SIZE={size}, so ranks go from 0 to {size - 1}"
        return _blame(extra, f"{names(extra)} started in a world of {size}", evidence=(said,))
    absent = sorted(set(range(size)) - claimed)
    if absent and len(known) == len(job.ranks):
        said = f"{len(known)} processes were started, all say WORLD_SIZE={size}"
        return _blame(absent, f"{names(absent)} of a world of {size} never started", evidence=(said,))
    return None


def _unset(job: Job, known: list[RankView]) -> Blame | None:
    """A variable that is missing on some ranks only, and a rank of these that fell over it."""
    odd = [v for v in known if v.identity and v.identity.local_rank < 0]
    fell = [
        v for v in odd if (v.raised is not None and "LOCAL_RANK" in v.raised.message) or v.fired is not None
    ]
    if not fell or len(odd) == len(known):
        return None
    said = [f"rank {v.rank} fell over it: {one_line(v.raised.message)}" for v in fell if v.raised]
    return _blame(
        [v.rank for v in odd],
        f"LOCAL_RANK is not set on {names([v.rank for v in odd])}",
        fell[0].last_line,
        evidence=(f"it is set on {names([v.rank for v in known if v not in odd])}", *said[:1]),
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
    reason = f"MASTER_ADDR and MASTER_PORT differ between ranks ({said}{rest})"
    return _blame(odd, reason, ambiguous=not clear, evidence=(f"told to meet at: {said}{rest}",))


def _loopback(job: Job, known: list[RankView]) -> Blame | None:
    """All ranks were told to meet on their own hosts, and there are several of these."""
    told = {v.identity.master for v in known if v.identity}
    address = next(iter(told)).rpartition(":")[0].strip("[]") if len(told) == 1 else ""
    if len(job.hosts) < 2 or not (address in ("localhost", "::1") or address.startswith("127.")):
        return None
    if job.has_formed:
        return None
    hosts = len(job.hosts)
    reason = f"MASTER_ADDR is {address} on each of {hosts} hosts: each looks for the store on itself"
    evidence = (f"all ranks were told MASTER_ADDR {address}", f"they are on {', '.join(job.hosts)}")
    return _blame([v.rank for v in known], reason, evidence=evidence)


def _own_settings(job: Job, known: list[RankView]) -> Blame | None:
    """Settings that a rank itself saw to be wrong on it."""
    return _told_by({v.rank: v.identity.problems[0] for v in known if v.identity and v.identity.problems})


def _taken(job: Job, known: list[RankView]) -> Blame | None:
    """Settings that the census guard of a rank saw to be wrong on it."""
    fired = {v.rank: v.fired for v in known if v.fired is not None}
    return _told_by({rank: f.message for rank, f in fired.items() if f.guard == "census" and f.local})


def _nobody_there(job: Job, known: list[RankView]) -> Blame | None:
    """Rank 0, at whose address all meet, finds nothing there itself: it is the address that is wrong."""
    told = {v.identity.master for v in known if v.identity}
    fired = [v.fired for v in job.claiming(0) if v.fired is not None and v.fired.guard == "census"]
    if len(told) != 1 or not fired or "nothing answers at MASTER_ADDR" not in fired[0].message:
        return None
    reason = f"all ranks, rank 0 too: {fired[0].message[:200]}"
    evidence = (f"guard census of rank 0, at whose address all meet: {one_line(fired[0].message)}",)
    return _blame([v.rank for v in known], reason, evidence=evidence)


def _told_by(odd: dict[int, str]) -> Blame | None:
    if not odd:
        return None
    said = tuple(f"rank {r} says of itself: {one_line(odd[r])}" for r in sorted(odd)[:3])
    return _blame(list(odd), f"{names(list(odd))}: {odd[min(odd)][:200]}", evidence=said)


def _address(job: Job, known: list[RankView]) -> Blame | None:
    odd = [v for v in known if v.raised is not None and v.raised.category == "configuration"]
    if not odd:
        return None
    first = min(odd, key=lambda v: v.raised.t_s if v.raised else 0.0)
    assert first.raised is not None
    ranks = [v.rank for v in odd if v.raised and v.raised.message == first.raised.message] or [first.rank]
    line = (first.raised.message.splitlines() or [""])[0][:200]
    evidence = (grounds.raised(first, first.raised), "no such error came before")
    return _blame(ranks, f"{names(ranks)}: {line}", first.raised.site, evidence=evidence)
