"""A rank of an nccl arm that cannot use a GPU says why before its script runs."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from forked_ranks import make_plan

from chaoskit.rank import devices

ON_GLOO = make_plan()
ON_NCCL = dataclasses.replace(ON_GLOO, backend="nccl")


def test_a_gloo_rank_is_asked_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: True)
    devices.check(ON_GLOO)


def test_a_poisoned_fork_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(
        devices.NoDevice, match="CUDA was initialised in the process that this rank was forked"
    ):
        devices.check(ON_NCCL)


def test_no_gpu_is_refused_and_one_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(devices.NoDevice, match="torch sees no GPU in this rank"):
        devices.check(ON_NCCL)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    devices.check(ON_NCCL)
