"""Sizes as typed, and what has no room on a machine."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.cost import cases
from chaoskit.cost.request import Model

MODEL = Model()


def test_sizes_of_each_form() -> None:
    assert cases.sizes("1MiB").nbytes == (1 << 20,)
    assert cases.sizes("1KiB, 1MiB,1KiB").nbytes == (1024, 1 << 20)
    swept = cases.sizes("8B..256MiB")
    assert swept.swept
    assert swept.nbytes[:3] == (8, 64, 512)
    assert swept.nbytes[-2:] == (128 << 20, 256 << 20)
    assert cases.sizes("8B..64B*2").nbytes == (8, 16, 32, 64)
    assert cases.sizes("8B..8B").nbytes == (8,)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", "write 8B"),
        ("1MB", "write 1MiB"),
        ("3parsec", "units"),
        ("6B", "multiple of 4"),
        ("0B", "write"),
        ("999999999GiB", "write"),
        ("1MiB..1KiB", "write 1KiB..1MiB"),
        ("8B..1MiB*1", "8B..256MiB*4"),
        ("8B..", "write 8B"),
        ("-8B", "write 8B"),
        ("1MiB,", "write 8B"),
    ],
)
def test_what_is_no_size_says_what_to_write(text: str, hint: str) -> None:
    with pytest.raises(cases.BadSize) as raised:
        cases.sizes(text)
    assert hint in raised.value.hint


@given(st.text(max_size=30))
def test_any_text_is_sizes_or_a_bad_size(text: str) -> None:
    with contextlib.suppress(cases.BadSize):
        found = cases.sizes(text)
        assert found.nbytes
        assert all(n % 4 == 0 and n > 0 for n in found.nbytes)


@given(st.integers(1, 1 << 34).map(lambda n: n * 4))
def test_a_size_is_read_back_from_its_text(nbytes: int) -> None:
    assert cases.one_size(cases.size_text(nbytes).replace(" ", "")) == nbytes


def test_a_message_that_cannot_be_split_evenly_is_no_case() -> None:
    (case,) = cases.collectives(["all_gather"], [8])
    assert not cases.unfit(case, MODEL, "gloo", 2, None)
    assert "4 equal parts" in cases.unfit(case, MODEL, "gloo", 4, None)
    (reduced,) = cases.collectives(["all_reduce"], [8])
    assert not cases.unfit(reduced, MODEL, "gloo", 4, None)


def test_what_does_not_fit_into_memory_says_both_amounts() -> None:
    (case,) = cases.collectives(["all_reduce"], [1 << 30])
    said = cases.unfit(case, MODEL, "gloo", 8, 8 << 30)
    assert "25.6 GiB in 8 ranks" in said
    assert "8.0 GiB are free" in said
    assert not cases.unfit(case, MODEL, "gloo", 2, 16 << 30)
    assert not cases.unfit(case, MODEL, "nccl", 8, 8 << 30)  # its memory is the GPU's
    large = Model(layers=100, bucket_bytes=1 << 30)
    assert cases.unfit(cases.ddp(large), large, "gloo", 2, 64 << 30)


def test_free_memory_is_the_least_of_machine_and_control_groups(tmp_path: Path) -> None:
    proc, groups = tmp_path / "proc", tmp_path / "cgroup"
    own = groups / "a" / "b"
    (proc / "self").mkdir(parents=True)
    own.mkdir(parents=True)
    (proc / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:   4096 kB\n")
    assert cases.free_memory_bytes(proc, groups) == 4 << 20
    (proc / "self" / "cgroup").write_text("0::/a/b\n")
    for folder, limit in ((own, "max"), (groups / "a", "3000000")):
        (folder / "memory.max").write_text(limit)
        (folder / "memory.current").write_text("2500000")
        (folder / "memory.stat").write_text("anon 1\ninactive_file 100000\n")
    assert cases.free_memory_bytes(proc, groups) == 600_000
    (proc / "meminfo").unlink()
    (proc / "self" / "cgroup").write_text("1:name=x:/\n")
    assert cases.free_memory_bytes(proc, groups) is None
