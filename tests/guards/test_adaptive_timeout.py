"""The timeout follows what was measured, alike on all ranks; and both formulas on the same runs.

The article's formula is 30 s + 5 s a node; here everything is 25 times as fast.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from guards.job import Ended, start

from chaoskit import guards
from chaoskit.guards import adaptive_timeout
from chaoskit.guards.adaptive_timeout import AdaptiveTimeout, article_s, measured_s

MEASURED = AdaptiveTimeout(floor_s=0.3, per_node_s=0.1, ceiling_s=20.0, after_steps=5)
ARTICLE = AdaptiveTimeout("article", floor_s=1.2, per_node_s=0.2, nic_s=0.4)


class Clock:
    """What the guard measures with, where a busy machine must not count."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


def effective(group: dist.ProcessGroup | None = None) -> float:
    from torch.distributed import distributed_c10d as c10d

    backend = (group or c10d._get_default_group())._get_backend(torch.device("cpu"))
    return float(backend.options._timeout.total_seconds())


def steps(step_s: float, count: int) -> None:
    """Rank 1 takes ``step_s`` for its step; the others wait for it."""
    for _ in range(count):
        time.sleep(step_s if dist.get_rank() == 1 else 0)
        dist.all_reduce(torch.ones(4))
        guards.step_done()


def hear() -> None:
    """Whoever was first to propose hears of it now. Ranks meet in the store: an operation of the group would
    have the short timeout already."""
    from torch.distributed import distributed_c10d as c10d

    store = c10d._get_default_store()
    store.set(f"test/proposed/{dist.get_rank()}", "")
    store.wait([f"test/proposed/{rank}" for rank in range(dist.get_world_size())], timedelta(seconds=60))
    guards.step_done()


def healthy(step_s: float, count: int) -> Callable[[], None]:
    def run() -> None:
        dist.init_process_group("gloo")
        steps(step_s, count)
        print("healthy")
        dist.destroy_process_group()

    return run


def stuck(before: Callable[[], object]) -> Callable[[], None]:
    """Rank 1 does not come to the operation after ``before``."""

    def run() -> None:
        dist.init_process_group("gloo")
        before()
        if dist.get_rank() == 1:
            threading.Event().wait()
        began = time.monotonic()
        try:
            dist.all_reduce(torch.ones(4))
        except RuntimeError:
            print(f"found after {time.monotonic() - began:.2f} of {effective():.2f}")
            raise

    return run


def found_after(ended: Ended) -> tuple[float, float]:
    """How long the rank waited, and its timeout."""
    took, _, timeout = ended.out.rpartition("found after ")[2].partition(" of ")
    return float(took), float(timeout)


def test_a_healthy_job_with_a_slow_rank_passes_as_measured_and_is_ended_by_the_article() -> None:
    """A false alarm of the article's: it knows nothing of the job."""
    quick = replace(MEASURED, after_steps=2)
    assert [rank.code for rank in start(healthy(1.8, 4), quick).wait()] == [0, 0]
    # So many steps that rank 0 is not late by 0.6 s in each of them.
    first, _ = start(healthy(1.8, 20), ARTICLE).wait()
    assert first.code == 1
    assert "healthy" not in first.out


def test_a_stuck_rank_of_a_fast_job_is_found_sooner_as_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(adaptive_timeout, "time", clock)

    def steps_of_10_ms() -> None:
        for _ in range(MEASURED.after_steps):
            clock.now += 0.01
            steps(0.0, 1)
        hear()

    measured, _ = start(stuck(steps_of_10_ms), MEASURED).wait(kill=[1])
    article, _ = start(stuck(lambda: None), replace(ARTICLE, floor_s=4.0)).wait(kill=[1])
    assert measured.code == article.code == 1, (measured, article)
    took, timeout = found_after(measured)
    assert took > timeout - 0.01
    assert timeout == MEASURED.floor_s
    assert found_after(article)[0] > 4.0


def test_a_stuck_rank_of_a_slow_job_is_found_by_its_own_measure() -> None:
    def steps_of_300_ms() -> None:
        steps(0.3, MEASURED.after_steps)
        hear()

    measured, _ = start(stuck(steps_of_300_ms), MEASURED).wait(kill=[1])
    assert measured.code == 1, measured
    took, timeout = found_after(measured)
    assert took > timeout - 0.01
    assert 1.5 < timeout <= 20.0  # 5 × 0.3 s + 0.1 s, and what a busy machine adds to a step


def test_all_groups_get_it_on_all_ranks_alike_also_those_made_later(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(adaptive_timeout, "time", clock)

    def run() -> None:  # no timeout that a busy machine could use up
        dist.init_process_group("gloo", timeout=timedelta(seconds=90))
        before = dist.new_group([0, 1], timeout=timedelta(seconds=25))
        for _ in range(MEASURED.after_steps):
            clock.now += 6.0 + dist.get_rank()
            steps(0.0, 1)
        hear()
        after = dist.new_group([0, 1])
        dist.barrier(group=after)
        with guards.phase("evaluation", 5):
            longer = effective()
        print([effective(before), effective() == effective(after), longer - effective()], effective())
        dist.barrier()
        dist.destroy_process_group()

    first, second = start(run, replace(MEASURED, per_node_s=0.5, ceiling_s=60.0)).wait()
    assert first.out == second.out, (first, second)
    assert first.out == "[25.0, True, 5.0] 35.5\n"  # of the slower rank: 5 × 7 s + 0.5 s
    assert "guard adaptive_timeout: armed (collective=" in first.err


def test_before_it_has_measured_nothing_changes() -> None:
    def run() -> None:
        dist.init_process_group("gloo", timeout=timedelta(seconds=50))
        steps(0.0, 4)
        print(effective())
        dist.destroy_process_group()

    assert [rank.out for rank in start(run, MEASURED).wait()] == ["50.0\n"] * 2


def test_the_formulas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "32")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    monkeypatch.delenv("NCCL_SOCKET_IFNAME", raising=False)
    assert article_s(AdaptiveTimeout("article")) == 50
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "eth0")
    assert article_s(AdaptiveTimeout("article")) == 50
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "eth1")
    assert article_s(AdaptiveTimeout("article")) == 60  # where the article's own text says 50
    guard = AdaptiveTimeout()
    assert measured_s(guard, [], []) == 1800
    assert measured_s(guard, [0.1] * 99 + [9.0], [0.01]) == 30
    assert measured_s(guard, [0.1] * 99 + [20.0, 20.0], [0.01]) == 120
    assert measured_s(guard, [0.1], [1000.0]) == 1800


@pytest.mark.parametrize(
    "settings", [{"formula": "guess"}, {"quantile": 0.0}, {"factor": 0.5}, {"after_steps": 0}]
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="adaptive_timeout: "):
        AdaptiveTimeout(**settings)  # type: ignore[arg-type]
