"""Settings of data loaders that fail or are slow are said before training, and nothing else is."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import Any

import pytest
import torch
from guards.job import Ended, start
from torch.utils.data import DataLoader, Dataset, TensorDataset

from chaoskit.guards import loader_settings
from chaoskit.guards.loader_check import LoaderCheck

SAY, REFUSE = LoaderCheck(), LoaderCheck("refuse")
ARMED = "chaoskit: guard loader_check: armed (action={})\n"


class Rows(Dataset[torch.Tensor]):
    """Each sample takes ``mib``."""

    def __init__(self, mib: float) -> None:
        self._numel = int(mib * (1 << 20) / 4)

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.zeros(self._numel)


def loading(dataset: Any, **settings: Any) -> Callable[[], None]:
    def run() -> None:
        for _ in DataLoader(dataset, **settings):
            print("batch")

    return run


def on_two(run: Callable[[], None], guard: LoaderCheck) -> list[Ended]:
    return start(run, guard, ranks=2).wait()


def test_a_sound_loader_is_left_alone_and_nothing_is_said() -> None:
    for workers in (0, 1):
        first, second = on_two(loading(Rows(0.1), num_workers=workers, batch_size=4), REFUSE)
        assert (first.code, second.code) == (0, 0), first
        assert (first.err, second.err) == (ARMED.format("refuse"), "")
        assert first.out == "batch\n" * 2


def test_persistent_workers_without_workers_is_said_by_rank_0_before_torch_refuses() -> None:
    first, second = on_two(loading(Rows(0.1), persistent_workers=True), SAY)
    assert (first.code, second.code) == (1, 1)
    assert "guard loader_check: persistent_workers=True with num_workers=0; set num_workers" in first.err
    assert "guard loader_check: p" not in second.err


def test_refused_it_has_a_code_of_its_own() -> None:
    for ended in on_two(loading(Rows(0.1), persistent_workers=True), REFUSE):
        assert ended.code == 89
        assert "persistent_workers=True with num_workers=0" in ended.err
        assert "Traceback" not in ended.err


def test_too_little_shared_memory_is_found_before_the_first_batch_of_tensors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loader_settings, "_shm_free", lambda: 10 << 20)
    data = TensorDataset(torch.zeros(64, 1 << 18))
    for ended in on_two(loading(data, num_workers=2, batch_size=8), REFUSE):
        assert ended.code == 89
        assert "/dev/shm has 10 MiB free and 2 workers × 2 batches × 8 MiB = 32 MiB" in ended.err
        assert "batch" not in ended.out


def test_of_any_other_data_at_its_first_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader_settings, "_shm_free", lambda: 10 << 20)
    first, _ = on_two(loading(Rows(4), num_workers=1, batch_size=2), SAY)
    assert first.code == 0
    assert first.err.count("1 workers × 2 batches × 8 MiB = 16 MiB") == 1
    assert first.out == "batch\n" * 4
    first, _ = on_two(loading(Rows(4), num_workers=1, batch_size=2), REFUSE)
    assert (first.code, first.out) == (89, "")


def test_more_workers_than_cores_on_this_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader_settings, "cores", lambda: 8)
    settings = {"num_workers": 3, "dataset": None}
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    found = loader_settings.of_settings(settings)
    assert [(f.text.partition(":")[0], f.fails) for f in found] == [
        ("3 workers × 4 ranks on 8 cores of this host", False)
    ]
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert loader_settings.of_settings(settings) == []


def test_with_cuda_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """No GPU here: what torch says of it is replaced."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(loader_settings, "cores", lambda: 64)

    def found(**settings: Any) -> list[tuple[str, bool]]:
        return [(f.text.split()[0], f.fails) for f in loader_settings.of_settings(settings)]

    assert found(num_workers=0) == [("CUDA", False)]
    assert found(num_workers=2, pin_memory=True) == [("workers", False)]
    assert found(num_workers=2, pin_memory=True, multiprocessing_context="spawn") == []
    spawn = multiprocessing.get_context("spawn")
    assert found(num_workers=2, pin_memory=True, multiprocessing_context=spawn) == []
    monkeypatch.setattr(loader_settings, "_holds_cuda", lambda dataset: True)
    assert found(num_workers=2, pin_memory=True) == [("the", True)]


def test_wrong_arguments_are_torch_s_to_refuse() -> None:
    (ended,) = start(loading(Rows(0.1), worker_count=3), REFUSE, ranks=1).wait()
    assert ended.code == 1
    assert "unexpected keyword argument 'worker_count'" in ended.err


def test_an_unknown_action_is_refused() -> None:
    with pytest.raises(ValueError, match="action must be say or refuse"):
        LoaderCheck("stop")
