"""The tables of variables are consistent."""

from __future__ import annotations

import pytest

from chaoskit.profiles import process, torch_any, torch_nccl
from chaoskit.profiles.nccl import OF_PLUGINS, nccl_variables
from chaoskit.profiles.variable import NEWEST, OLDEST
from chaoskit.profiles.variables import NOBODY_READS, VARIABLES


def test_no_name_is_in_two_tables() -> None:
    names = [v.name for v in (*process.VARIABLES, *torch_any.VARIABLES, *torch_nccl.VARIABLES)]
    assert len(names) == len(set(names)) == len(VARIABLES)
    assert not set(names) & set(nccl_variables())
    assert not OF_PLUGINS & (set(names) | set(nccl_variables()))
    assert not set(NOBODY_READS) & (set(names) | set(nccl_variables()))


@pytest.mark.parametrize("name", sorted(VARIABLES))
def test_an_entry_holds_together(name: str) -> None:
    one = VARIABLES[name]
    assert one.since is None or OLDEST < one.since <= NEWEST
    assert one.until is None or OLDEST <= one.until <= NEWEST
    assert bool(one.replaced_by) == (one.replaced_since is not None)
    assert not one.replaced_by or one.replaced_by in VARIABLES
    assert (one.kind == "torch-word") == bool(one.words)
    assert one.kind == "text" or one.source or name == "MKL_NUM_THREADS"


@pytest.mark.parametrize(
    ("name", "torch", "by", "read"),
    [
        ("TORCH_NCCL_BLOCKING_WAIT", (2, 4), "nccl-legacy", True),
        ("TORCH_NCCL_BLOCKING_WAIT", (2, 14), "nccl2", False),
        ("TORCH_NCCL_BLOCKING_WAIT", (2, 15), "nccl2", True),
        ("TORCH_NCCL_BLOCKING_WAIT", (2, 15), "gloo", False),
        ("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", (2, 15), "nccl2", False),
        ("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", (2, 16), "nccl2", None),
        ("TORCH_NCCL_BCAST_UNIQUEID", (2, 15), "nccl2", None),
        ("TORCH_FR_BUFFER_SIZE", (2, 7), "gloo", False),
        ("TORCH_FR_BUFFER_SIZE", (2, 15), "nccl2", True),
    ],
)
def test_who_reads_what(name: str, torch: tuple[int, int], by: str, read: bool | None) -> None:
    assert VARIABLES[name].is_read(torch, by) is read  # type: ignore[arg-type]


def test_the_list_of_nccl() -> None:
    known = nccl_variables()
    assert len(known) > 250
    assert known["NCCL_MULTI_RANK_GPU_ENABLE"].since == (2, 30)
    assert known["NCCL_RAS_ENABLE"].since == (2, 24)
    assert known["NCCL_MNNVL"].until == (2, 21)
    assert (known["NCCL_DEBUG"].since, known["NCCL_DEBUG"].until) == (None, None)
