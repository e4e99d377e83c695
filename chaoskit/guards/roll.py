"""The roll of the processes that came to form a job, and what is wrong with it. Pure: no store, no clock."""

from __future__ import annotations

import json
import os
import socket
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from chaoskit.guards.context import number


@dataclass(frozen=True, slots=True)
class Entry:
    """Who a process believes it is. ``rank``, ``local_rank`` are -1 where not set. ``trouble``: what it found
    wrong with itself."""

    rank: int
    local_rank: int
    world_size: int
    host: str
    pid: int
    launcher: str
    trouble: str = ""

    def __str__(self) -> str:
        local = "none" if self.local_rank < 0 else self.local_rank
        rank = f"rank {self.rank} of {self.world_size}, local rank {local}"
        return f"{rank}, {self.where}, launcher {self.launcher}"

    @property
    def where(self) -> str:
        return f"pid {self.pid} on {self.host}"

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> Entry:
        return cls(**json.loads(text))


def myself(rank: int, world_size: int, trouble: str = "") -> Entry:
    """Return the entry of this process."""
    return Entry(
        rank, number("LOCAL_RANK"), world_size, socket.gethostname(), os.getpid(), launcher(), trouble
    )


def launcher() -> str:
    """Return what started this process, as far as the environment tells."""
    for variable, name in (
        ("TORCHELASTIC_RUN_ID", "torchrun"),
        ("OMPI_COMM_WORLD_RANK", "mpirun"),
        ("PMI_RANK", "mpirun"),
        ("SLURM_PROCID", "srun"),
        ("KUBERNETES_SERVICE_HOST", "kubernetes"),
    ):
        if variable in os.environ:
            return name
    return "unknown"


def conflict(entries: Sequence[Entry]) -> str:
    """Return what is wrong with ``entries`` whoever may still come, in one line; '' where nothing is."""
    return (
        _troubled(entries)
        or _differing({e.rank: e.world_size for e in entries}, "WORLD_SIZE")
        or _out_of_range(entries)
        or _claimed_twice(entries)
        or _local_rank(entries)
    )


def missing(entries: Sequence[Entry], waited_s: float) -> str:
    """Return who has not come, in one line; '' where all are here."""
    world_size = max((e.world_size for e in entries), default=0)
    here = {e.rank for e in entries}
    absent = sorted(set(range(world_size)) - here)
    if not absent:
        return ""
    came = f"{ranks_text(here)} {'is' if len(here) == 1 else 'are'} here"
    some = "has" if len(absent) == 1 else "have"
    return f"{ranks_text(absent)} of {world_size} {some} not come within {waited_s:g} s ({came})"


def ranks_text(ranks: Iterable[int]) -> str:
    """Return ``rank 1`` or ``ranks 0, 2-5``."""
    runs: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    parts = [f"{r[0]}-{r[-1]}" if len(r) > 2 else ", ".join(map(str, r)) for r in runs]
    return f"rank{'s' if len(runs) > 1 or len(runs[0]) > 1 else ''} {', '.join(parts)}" if runs else "no rank"


def sides(values: Mapping[int, Hashable]) -> tuple[list[int], list[int]]:
    """Split ranks by their values: those that differ from the majority, and the majority. Where no value has
    more ranks than every other, the side of the lowest rank comes second."""
    by_value: defaultdict[Hashable, list[int]] = defaultdict(list)
    for rank in sorted(values):
        by_value[values[rank]].append(rank)
    most = max(by_value.values(), key=len)
    return sorted(set(values) - set(most)), most


def _differing(values: Mapping[int, int], what: str) -> str:
    if len(set(values.values())) < 2:
        return ""
    few, most = sides(values)
    theirs = ", ".join(str(v) for v in sorted({values[r] for r in few}))
    return f"{_have(few)} {what} {theirs} where {_have(most)} {values[most[0]]}"


def _troubled(entries: Sequence[Entry]) -> str:
    return "; ".join(f"{_name(e)}: {e.trouble}" for e in entries if e.trouble)


def _out_of_range(entries: Sequence[Entry]) -> str:
    return next(
        (
            f"{_name(e)} does not exist in a world of {e.world_size}"
            for e in entries
            if e.rank >= e.world_size
        ),
        "",
    )


def _claimed_twice(entries: Sequence[Entry]) -> str:
    for rank, times in sorted(Counter(e.rank for e in entries).items()):
        if times > 1:
            who = ", ".join(e.where for e in entries if e.rank == rank)
            return f"RANK {rank} is claimed by {times} processes: {who}"
    return ""


def _local_rank(entries: Sequence[Entry]) -> str:
    """Without a launcher that sets it nobody has a LOCAL_RANK, which is fine: only a difference is wrong."""
    without = [e.rank for e in entries if e.local_rank < 0]
    if not without or len(without) == len(entries):
        return ""
    return f"{_have(without)} no LOCAL_RANK where the others have one"


def _have(ranks: Sequence[int]) -> str:
    return f"{ranks_text(ranks)} {'has' if len(ranks) == 1 else 'have'}"


def _name(entry: Entry) -> str:
    return (
        f"rank {entry.rank} ({entry.where})"
        if entry.rank >= 0
        else f"a process without a rank ({entry.where})"
    )
