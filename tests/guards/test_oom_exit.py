"""Out of memory, by all its names, caught or not."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from guards.job import start

from chaoskit.guards import oom_exit
from chaoskit.guards.fail_fast import FailFast
from chaoskit.guards.oom_exit import OomExit

GUARD = OomExit(idle_s=0.4)
PATIENT = OomExit(idle_s=4.0)
"""For healthy jobs, which a loaded machine may hold up."""
NEVER = OomExit(idle_s=60.0)
"""For ranks that are ended by something else than idleness."""
ERRORS: list[Callable[[], BaseException]] = [
    lambda: torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    lambda: RuntimeError(
        "[enforce fail at alloc_cpu.cpp:127] data. DefaultCPUAllocator: can't allocate memory"
    ),
    MemoryError,
]
NAMES = ["torch", "cpu", "python"]


def on_rank_1(react: Callable[[], object]) -> Callable[[], None]:
    def run() -> None:
        dist.init_process_group("gloo", timeout=timedelta(seconds=40))
        dist.barrier()
        if dist.get_rank() == 1:
            react()
        dist.all_reduce(torch.ones(4))
        dist.destroy_process_group()

    return run


@pytest.mark.parametrize("make", ERRORS, ids=NAMES)
def test_uncaught_exits_86(make: Callable[[], BaseException]) -> None:
    def react() -> None:
        raise make()

    first, second = start(on_rank_1(react), FailFast(), NEVER).wait()
    assert second.code == 86, second.err
    assert "left the script" in second.err
    assert "in react" in second.err
    assert first.code == 82


@pytest.mark.parametrize("armed", [True, False])
def test_the_copied_handler_exits_86_before_it_can_hang(armed: bool) -> None:
    def react() -> None:
        import os

        try:
            dist.all_reduce(torch.ones(4), group=dist.distributed_c10d._get_default_group(), async_op=True)
            raise ERRORS[1]()
        except RuntimeError:
            dist.destroy_process_group()
            os._exit(1)

    late_s = 40.0 if armed else 3.0

    def run() -> None:
        dist.init_process_group("gloo", timeout=timedelta(seconds=late_s))
        if dist.get_rank() == 1:
            react()
        threading.Event().wait()

    _, second = start(run, *([NEVER] if armed else [])).wait(kill=[0])
    if armed:
        assert second.code == 86, second.err
        assert "destroy_process_group()" in second.err
        assert second.after_s < late_s
    else:
        assert second.code != 86
        assert second.after_s > late_s - 0.1


@pytest.mark.parametrize("make", ERRORS, ids=NAMES)
def test_a_handler_that_keeps_the_process_alive_exits_86(make: Callable[[], BaseException]) -> None:
    def react() -> None:
        try:
            raise make()
        except (RuntimeError, MemoryError):
            threading.Event().wait()

    first, second = start(on_rank_1(react), GUARD).wait()
    assert second.code == 86, second.err
    assert "has taken part in nothing since" in second.err
    assert first.code == 1  # lost its peer; nothing of this guard


def test_caught_and_parked_after_the_handler_is_noticed_for_torchs_own_error() -> None:
    def react() -> None:
        try:
            raise ERRORS[0]()
        except RuntimeError:
            pass
        threading.Event().wait()

    _, second = start(on_rank_1(react), GUARD).wait()
    assert second.code == 86, second.err


def test_a_retry_that_takes_part_again_is_healthy() -> None:
    def react() -> None:
        for make in ERRORS:
            try:
                raise make()
            except (RuntimeError, MemoryError):
                pass

    def run() -> None:
        on_rank_1(react)()
        threading.Event().wait(PATIENT.idle_s + 0.2)  # after the retry

    assert [ended.code for ended in start(run, FailFast(), PATIENT).wait()] == [0, 0]


@pytest.mark.parametrize(("make", "first_s"), [(ERRORS[0], 0.0), (MemoryError, 0.0), (MemoryError, 1.0)])
def test_waiting_for_a_slow_peer_inside_the_handler_is_healthy(
    make: Callable[[], BaseException], first_s: float
) -> None:
    """``first_s``: the guard may have looked at the handler before it takes part, or only later."""

    def run() -> None:
        dist.init_process_group("gloo")
        if dist.get_rank() == 0:
            threading.Event().wait(first_s + PATIENT.idle_s + 2.0)
            dist.barrier()
            return
        try:
            raise make()
        except (RuntimeError, MemoryError):
            threading.Event().wait(first_s)
            dist.barrier()

    ended = start(run, PATIENT).wait()
    assert [one.code for one in ended] == [0, 0], ended


@pytest.mark.parametrize(
    ("module", "is_one"),
    [("torch.distributed.distributed_c10d", True), ("torch.distributed.elastic.multiprocessing.api", False)],
)
def test_a_script_that_torch_itself_calls_is_in_no_collective(module: str, is_one: bool) -> None:
    """Elastic's own launcher runs the script's function, and FSDP its modules."""
    names = {"__name__": module, "seen": oom_exit._is_in_a_collective, "me": threading.get_ident}
    exec("def call():\n    return seen(me())", names)
    assert names["call"]() is is_one  # type: ignore[operator]


def test_a_declared_phase_extends_the_wait() -> None:
    def react() -> None:
        from chaoskit import guards

        try:
            raise ERRORS[0]()
        except RuntimeError:
            with guards.phase("shrinking the batch", 30):
                threading.Event().wait(PATIENT.idle_s + 0.2)

    assert [ended.code for ended in start(on_rank_1(react), PATIENT).wait()] == [0, 0]
