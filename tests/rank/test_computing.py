"""The environment's number of threads is torch's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from chaoskit.rank.computing import use_threads


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("value", "threads"), [("2", 2), ("3,2", 3), (" 2 ", 2)])
def test_a_number_is_followed(value: str, threads: int) -> None:
    use_threads({"OMP_NUM_THREADS": value})
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("value", ["", "0", "-1", "two", "٣", "9" * 5000])
def test_what_is_no_number_changes_nothing(value: str) -> None:
    torch.set_num_threads(1)
    use_threads({"OMP_NUM_THREADS": value})
    assert torch.get_num_threads() == 1
