"""What is timed: sizes and operations as typed → cases, and those that this machine or backend has no room
for.

A size that was asked for and cannot be had is refused; within a sweep it becomes a row that says why. Nothing
is changed silently. Reads /proc and the control group's limits, and starts nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from chaoskit.cost.request import Model
from chaoskit.cost.values import Case
from chaoskit.model import Backend, Workload

OPS: Final = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all")
SWEEP: Final = "8B..256MiB"
LARGEST_BYTES: Final = 64 << 30
SIZES_MAX: Final = 64
STEP: Final = 8
"""A size of a sweep over the one before, unless the user says so."""
ITEM_BYTES: Final = 4  # float32
MEMORY_SHARE: Final = 0.8
"""Of the memory that is free, for what is timed."""

_SCATTERED: Final = frozenset({"all_gather", "reduce_scatter", "all_to_all"})
_TENSORS: Final = {"all_reduce": 1.6, "broadcast": 1.6, **dict.fromkeys(_SCATTERED, 2.6)}
"""Bytes in memory of a rank per byte of the message: the tensors, and gloo's copies of them. Read from the
peak memory of two ranks with 256 MiB: at most 2.5 for those that gather or scatter, 1.5 for the others."""
_MODEL_COPIES: Final = 4  # weights, gradients, buckets of each side, and one for finding the batch
_SIZE: Final = re.compile(r"(\d{1,15})\s*([A-Za-z]*)")
_UNITS: Final = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_OTHER_UNITS: Final = {
    "b": "B", "k": "KiB", "kb": "KiB", "kib": "KiB", "m": "MiB", "mb": "MiB", "mib": "MiB", "g": "GiB",
    "gb": "GiB", "gib": "GiB",
}  # fmt: skip


class BadSize(ValueError):
    """A text is no size; ``hint`` says what to write."""

    def __init__(self, message: str, hint: str = "write 8B, 64KiB or 1MiB") -> None:
        super().__init__(message)
        self.hint = hint


def one_size(text: str) -> int:
    """Return the bytes of ``8B``, ``64KiB``, ``1MiB``. Raises BadSize."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise BadSize(f"{text[:60]!r} is no size")
    number, unit = int(match[1]), match[2]
    if unit not in _UNITS:
        better = _OTHER_UNITS.get(unit.lower())
        hint = f"write {number}{better} (sizes are powers of 1024)" if better else "units: B, KiB, MiB, GiB"
        raise BadSize(f"{text[:60]!r} has the unknown unit {unit!r}", hint)
    nbytes = number * _UNITS[unit]
    if not ITEM_BYTES <= nbytes <= LARGEST_BYTES:
        raise BadSize(f"{text[:60]!r}: expected {ITEM_BYTES} B to {size_text(LARGEST_BYTES)}")
    if nbytes % ITEM_BYTES:
        raise BadSize(f"{text[:60]!r} is no whole number of float32", "a multiple of 4 bytes")
    return nbytes


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes that were asked for; ``swept``: as a range, of which not each has to be possible."""

    nbytes: tuple[int, ...]
    swept: bool = False


def sizes(text: str) -> Sizes:
    """Return the sizes of ``1MiB``, ``1KiB,1MiB`` or ``8B..256MiB`` (each 8 times the one before; another
    factor stands behind a ``*``: ``8B..1GiB*2``). Raises BadSize."""
    if ".." in text:
        return Sizes(_range(text), swept=True)
    found = tuple(dict.fromkeys(one_size(part) for part in text.split(",")))
    return Sizes(found)


def _range(text: str) -> tuple[int, ...]:
    span, star, by = text.partition("*")
    low_text, _, high_text = span.partition("..")
    low, high = one_size(low_text), one_size(high_text)
    if low > high:
        raise BadSize(f"{text[:60]!r} goes down", f"write {high_text.strip()}..{low_text.strip()}")
    factor = STEP
    if star:
        if not by.isascii() or not by.isdigit() or not 2 <= int(by[:6]) <= 1024:
            raise BadSize(f"{text[:60]!r}: expected a factor from 2 to 1024 behind *", "write 8B..256MiB*4")
        factor = int(by)
    found = [low]
    while found[-1] * factor < high:
        found.append(found[-1] * factor)
    if found[-1] != high:
        found.append(high)
    if len(found) > SIZES_MAX:
        raise BadSize(f"{text[:60]!r} is {len(found)} sizes", "take a larger factor: 8B..256MiB*8")
    return tuple(found)


def size_text(nbytes: int) -> str:
    """Return ``1 MiB``, ``96 B``: exactly, in the largest unit that divides it."""
    for unit in ("GiB", "MiB", "KiB"):
        if nbytes and nbytes % _UNITS[unit] == 0:
            return f"{nbytes // _UNITS[unit]} {unit}"
    return f"{nbytes} B"


# ---------------------------------------------------------------- cases


def collectives(ops: Sequence[str], nbytes: Iterable[int]) -> tuple[Case, ...]:
    """Return a case for each operation and size, by operation."""
    found = tuple(nbytes)
    return tuple(Case("collective", f"{op} {size_text(n)}", op, n) for op in ops for n in found)


def ddp(model: Model) -> Case:
    """Return the case of a step of the DDP model."""
    name = f"ddp {model.layers} × {size_text(model.bucket_bytes)}"
    ratio = "" if model.compute_ratio == 1 else f", compute {model.compute_ratio:g}"
    return Case("ddp", name + ratio, nbytes=model.bucket_bytes)


def program(chosen: Workload) -> Case:
    """Return the case of a step of the user's program."""
    return Case("program", chosen.name)


# ---------------------------------------------------------------- what cannot be had


def needed_bytes(case: Case, model: Model, ranks: int) -> int:
    """Return about how much memory the ranks of both sides take for ``case``; 0 where nobody knows."""
    sets = 2  # of ranks, where a setting is read once per process
    if case.kind == "collective":
        return int(case.nbytes * _TENSORS[case.op] * ranks * sets)
    if case.kind == "ddp":
        return model.layers * model.bucket_bytes * _MODEL_COPIES * ranks * sets
    return 0


def unfit(case: Case, model: Model, backend: Backend, ranks: int, free_bytes: int | None) -> str:
    """Return why ``case`` cannot be timed here; '' where nothing speaks against it."""
    if case.op in _SCATTERED and case.nbytes % (ITEM_BYTES * ranks):
        least = ITEM_BYTES * ranks
        return f"{size_text(case.nbytes)} cannot be split into {ranks} equal parts of float32 ({least} B)"
    needed = needed_bytes(case, model, ranks)
    if backend == "gloo" and free_bytes is not None and needed > free_bytes * MEMORY_SHARE:
        return (
            f"takes about {in_gib(needed)} in {ranks} ranks of both sides, and {in_gib(free_bytes)} are free"
        )
    return ""


def in_gib(nbytes: float) -> str:
    return f"{nbytes / (1 << 30):.1f} GiB"


def free_memory_bytes(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Return the memory that is free: of the machine, or of the control group where that is less."""
    found = [_mem_available(proc / "meminfo"), _left_in_group(proc / "self" / "cgroup", cgroups)]
    known = [value for value in found if value is not None]
    return min(known) if known else None


def _mem_available(file: Path) -> int | None:
    try:
        text = file.read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    match = re.search(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)
    return int(match[1]) << 10 if match else None


def _left_in_group(own: Path, cgroups: Path) -> int | None:
    """What the control group (version 2) and those above it leave; None where nothing limits it."""
    try:
        lines = own.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    path = next((line[3:] for line in lines if line.startswith("0::")), None)
    if path is None:
        return None
    folder = cgroups / path.strip("/")
    left = [_left_in(one) for one in (folder, *folder.parents) if one.is_relative_to(cgroups)]
    known = [value for value in left if value is not None]
    return min(known) if known else None


def _left_in(folder: Path) -> int | None:
    try:
        limit = (folder / "memory.max").read_text(encoding="ascii").strip()
        used = int((folder / "memory.current").read_text(encoding="ascii"))
        cached = _reclaimable(folder / "memory.stat")
        return None if limit == "max" else max(0, int(limit) - used + cached)
    except (OSError, ValueError):
        return None


def _reclaimable(file: Path) -> int:
    """Bytes of files that the kernel gives up first."""
    match = re.search(r"^inactive_file (\d+)$", file.read_text(encoding="ascii"), re.MULTILINE)
    return int(match[1]) if match else 0
