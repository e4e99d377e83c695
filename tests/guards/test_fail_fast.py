"""Exceptions that leave a rank's script, and what became of them before."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from guards.job import start

from chaoskit.guards.fail_fast import FailFast

GUARD = FailFast(teardown_s=0.5)


def formed(rest: Callable[[], object], timeout_s: float = 40.0) -> Callable[[], None]:
    def run() -> None:
        dist.init_process_group("gloo", timeout=timedelta(seconds=timeout_s))
        dist.barrier()
        rest()

    return run


def lose_a_peer() -> None:
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(torch.ones(4))


def test_a_lost_peer_exits_82_with_the_traceback() -> None:
    first, second = start(formed(lose_a_peer), GUARD).wait()
    assert (first.code, second.code) == (82, -9)
    assert "in lose_a_peer" in first.err
    assert first.err.count("guard fail_fast:") == 2  # armed, fired
    assert "a peer was lost (" in first.err
    assert first.after_s < 40


def test_an_own_exception_because_of_a_lost_peer_exits_82() -> None:
    def run() -> None:
        try:
            lose_a_peer()
        except RuntimeError as error:
            raise KeyError("batch") from error

    first, _ = start(formed(run), GUARD).wait()
    assert first.code == 82
    assert "KeyError" in first.err


def test_a_lost_peer_in_a_thread_exits_82_and_another_exception_there_does_not() -> None:
    def run() -> None:
        def wrong() -> None:
            raise ValueError("a thread's own")

        for target in (wrong, lose_a_peer):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join()
        threading.Event().wait(5)

    first, _ = start(formed(run), GUARD).wait()
    assert first.code == 82, first.err
    assert "a thread's own" in first.err


@pytest.mark.parametrize("armed", [True, False])
def test_teardown_under_a_distributed_error_is_not_entered(armed: bool) -> None:
    """Rank 1 stands still; rank 0 times out and tears down with an operation of another group in flight."""

    late_s = 40.0 if armed else 3.0

    def run() -> None:
        other = dist.new_group([0, 1], timeout=timedelta(seconds=late_s))
        if dist.get_rank() == 1:
            threading.Event().wait()
        try:
            dist.all_reduce(torch.ones(4), group=other, async_op=True)
            dist.all_reduce(torch.ones(4), group=dist.new_group([0, 1], timeout=timedelta(seconds=0.5)))
        finally:
            dist.destroy_process_group()

    first, _ = start(formed(run), *([GUARD] if armed else [])).wait(kill=[1])
    if armed:
        assert first.code == 82, first.err
        assert first.after_s < late_s
    else:
        assert first.code == 1
        assert first.after_s > late_s - 0.1


def hang_in_teardown() -> None:
    """The peer never takes part, so teardown waits for the operation in flight."""
    if dist.get_rank() == 1:
        threading.Event().wait()
    try:
        dist.all_reduce(torch.ones(4), async_op=True)
        raise KeyError("own")
    finally:
        dist.destroy_process_group()


def test_teardown_under_an_own_exception_is_bounded() -> None:
    first, _ = start(formed(hang_in_teardown), GUARD).wait(kill=[1])
    assert first.code == 1
    assert "destroy_process_group() took more than 0.5 s while handling KeyError" in first.err
    assert first.after_s < 40


def test_without_it_teardown_waits_for_the_timeout() -> None:
    first, _ = start(formed(hang_in_teardown, timeout_s=3)).wait(kill=[1])
    assert first.after_s > 2.9


def test_an_own_exception_exits_1_without_atexit() -> None:
    def run() -> None:
        import atexit

        atexit.register(lambda: print("atexit ran"))
        raise ValueError("own")

    for ended in start(formed(run), GUARD).wait():
        assert ended.code == 1
        assert "ValueError: own" in ended.err
        assert "atexit ran" not in ended.out


@pytest.mark.parametrize("code", [0, 7])
def test_leaving_on_purpose_is_left_alone(code: int) -> None:
    def run() -> None:
        with contextlib.suppress(StopIteration):
            try:
                raise StopIteration  # a training loop's own way to stop
            except StopIteration:
                dist.destroy_process_group()
                raise
        raise SystemExit(code)

    assert [ended.code for ended in start(formed(run), GUARD).wait()] == [code, code]
