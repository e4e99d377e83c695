"""Which GPUs a process sees: CUDA_VISIBLE_DEVICES as CUDA reads it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.gpu.devices import Gpu, visible

FOUR = tuple(Gpu(n, uuid=f"GPU-{n}a{n}") for n in range(4))


@pytest.mark.parametrize(
    ("mask", "seen"),
    [
        (None, [0, 1, 2, 3]),
        ("", []),
        ("-1", []),
        ("no", []),
        ("2", [2]),
        ("3,1", [3, 1]),
        (" 1 , 0 ", [1, 0]),
        ("0,9,1", [0]),
        ("0,,1", [0]),
        ("1,1", []),
        ("1gpu,2", [1, 2]),
        ("GPU-2,GPU-0a0", [2, 0]),
        ("GPU-", []),
        ("GPU-9,0", []),
    ],
)
def test_what_a_mask_shows(mask: str | None, seen: list[int]) -> None:
    assert [gpu.index for gpu in visible(FOUR, mask)] == seen


def test_of_mig_instances_one_is_seen() -> None:
    (only,) = visible(FOUR, "MIG-1234,MIG-5678")
    assert only.uuid == "MIG-1234"


@given(st.text(alphabet="0123456789,-+ GPUMIa", max_size=12))
def test_any_text_shows_some_of_them_once(mask: str) -> None:
    seen = visible(FOUR, mask)
    assert len(set(seen)) == len(seen) <= 4
    if not mask.strip().startswith("MIG-"):
        assert set(seen) <= set(FOUR)


@given(st.lists(st.integers(0, 3), unique=True))
def test_numbers_are_kept_in_their_order(numbers: list[int]) -> None:
    assert [gpu.index for gpu in visible(FOUR, ",".join(map(str, numbers)))] == numbers
