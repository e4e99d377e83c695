"""What is in effect in this rank, read back where it takes effect and not where it was asked for."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator
from typing import Final

import torch
import torch.distributed as dist

from chaoskit.timing.messages import Prepare

Proof = tuple[str, bool]
"""A sentence, and whether the setting is in effect."""


def of(env: tuple[tuple[str, str], ...]) -> tuple[Proof, ...]:
    """Return what is in effect of each variable, on all sides that are timed here. After the groups are
    formed."""
    return tuple(_variable(name, value) for name, value in env)


def of_sides(asked: Prepare) -> tuple[tuple[str, ...], ...]:
    """Return what each side that is timed in this rank has to itself: a side without anything has nothing."""
    both = itertools.zip_longest(asked.toggles, asked.variables, fillvalue=())
    return tuple(tuple(_of_side(toggle or "", variables, asked.every)) for toggle, variables in both)


def _of_side(toggle: str, variables: tuple[tuple[str, str], ...], every: int) -> Iterator[str]:
    for name, value in variables:
        yield f"{name}={value}: set while the group of this side formed"
    if toggle:
        yield f"{toggle} every {every} steps" if every else toggle


def _variable(name: str, value: str) -> Proof:
    said, good = _READERS.get(name, _environment)(name, value)
    return f"{name}={value}: {said}", good


def _environment(name: str, value: str) -> Proof:
    if os.environ.get(name) == value:
        return "in the environment of the rank", True
    return "missing in the environment of the rank", False


def _debug_level(_: str, value: str) -> Proof:
    level = dist.get_debug_level().name  # type: ignore[attr-defined]
    return f"torch.distributed has debug level {level}", level == value.upper()


def _flight_recorder(_: str, value: str) -> Proof:
    """Both groups have been used once by now, so a recorder that is on holds something."""
    from torch._C import _distributed_c10d as c10d

    dump = getattr(c10d, "_dump_fr_trace_json", None)
    if dump is None:
        return "this torch cannot say what its flight recorder holds", False
    entries = len(json.loads(dump()).get("entries", ()))
    return f"the flight recorder holds {entries} entries", (entries > 0) == (value != "0")


def _threads(_: str, value: str) -> Proof:
    threads = torch.get_num_threads()
    return f"torch computes with {threads} threads", value == str(threads)


def _preloaded(_: str, value: str) -> Proof:
    """What the dynamic linker cannot load it leaves out, with a word on stderr."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        mapped = file.read()
    missing = [one for one in value.replace(":", " ").split() if os.path.basename(one) not in mapped]
    return (f"{', '.join(missing)} not loaded", False) if missing else ("loaded", True)


_READERS: Final[dict[str, Callable[[str, str], Proof]]] = {
    "LD_PRELOAD": _preloaded,
    "OMP_NUM_THREADS": _threads,
    "TORCH_DISTRIBUTED_DEBUG": _debug_level,
    "TORCH_FR_BUFFER_SIZE": _flight_recorder,
    "TORCH_NCCL_TRACE_BUFFER_SIZE": _flight_recorder,
}
