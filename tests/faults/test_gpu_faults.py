"""What the faults of the family gpu do, as far as a CPU allows: on gloo ranks, and with a fake torch.cuda."""

from __future__ import annotations

import os
import platform
import select
import signal
import threading
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from forked_ranks import run_arm

from chaoskit.faults.cuda_oom import CudaOom
from chaoskit.faults.device_assert import DeviceAssert
from chaoskit.faults.family import Moment
from chaoskit.faults.kill_later import KillLater
from chaoskit.faults.raise_ import Raise
from chaoskit.faults.stall import Stall
from chaoskit.faults.stuck_kernel import StuckKernel
from chaoskit.faults.stuck_thread import StuckThread
from chaoskit.history import Completed, Entered, Injected, Malfunction, OpFailed, Raised
from chaoskit.model import Trigger

pytestmark = pytest.mark.timeout(300)
FIRST = Trigger("collective", op="all_reduce", nth=1)
HERE = Moment(0, 1, 0)
MIB = 1 << 20
READ = {"x86_64": 0, "aarch64": 63}[platform.machine()]
"""The number of read(2) in /proc/PID/syscall."""


# ---------------------------------------------------------------- ended in the middle of a call


def test_kill_later_ends_the_rank_inside_the_call_that_a_late_peer_keeps_open() -> None:
    # Rank 0 waits for rank 2 alone, so that one has to come in the end: long after rank 1 is gone.
    run = run_arm((Stall((2,), 10.0), FIRST), (KillLater((1,), 3.0), FIRST), ranks=3, rest_s=15)
    assert run.exit_codes[1] == -signal.SIGKILL
    assert run.exit_codes[0] == 1
    entered = run.of(Entered, 1)[-1]
    assert (entered.op, entered.nth) == ("all_reduce", 1)
    assert "all_reduce" not in {e.op for e in run.of(Completed, 1)}
    assert not run.of(Raised, 1)
    fired = next(e for e in run.of(Injected, 1) if e.fault == "kill-later")
    assert fired.t_s <= entered.t_s <= run.ended_s[1]
    assert run.ended_s[1] - fired.t_s >= 3.0


def test_kill_later_ends_a_rank_that_aborts() -> None:
    at = Trigger("call", call="chaoskit.workloads.abort_on_error.abort")
    error = Raise((1,), "RuntimeError: corrupt sample")
    run = run_arm(
        (error, Trigger("collective", op="all_reduce", nth=4)),
        (KillLater((1,), 0.001), at),
        ranks=2,
        workload="abort-on-error",
    )
    assert run.exit_codes[0] == 1
    assert {e.fault for e in run.of(Injected, 1)} == {"raise", "kill-later"}
    assert run.exit_codes[1] in (-signal.SIGKILL, 1), "gloo's abort may be over sooner"
    assert "aborting: corrupt sample" in run.output[1]


# ---------------------------------------------------------------- a thread that stands still


class Reading:
    """A thread with a name, which reads from a pipe in a system call of its own: without the GIL, that is.

    A signal must not meet it elsewhere: whoever stands still with the GIL takes the whole process along.
    """

    def __init__(self, name: str) -> None:
        self.tid, self._name = 0, name
        self._source, self._sink = os.pipe()
        self._was_read = threading.Semaphore(0)
        threading.Thread(target=self._run, daemon=True).start()
        assert self.moves()
        while self._state("syscall").split()[0] != str(READ):
            time.sleep(0)

    def _run(self) -> None:
        self.tid = threading.get_native_id()
        Path(f"/proc/self/task/{self.tid}/comm").write_text(self._name)
        while os.read(self._source, 1):
            self._was_read.release()

    def _state(self, of: str) -> str:
        return Path(f"/proc/self/task/{self.tid}/{of}").read_text()

    def write(self) -> None:
        os.write(self._sink, b"x")

    def moves(self) -> bool:
        """Write a byte and wait until it is read."""
        self.write()
        return self._was_read.acquire(timeout=20)

    def has_unread(self) -> bool:
        return select.select([self._source], [], [], 0)[0] != []

    def in_handler(self) -> bool:
        """All signals are blocked while the handler runs, and only then."""
        blocked = next(line.split()[1] for line in self._state("status").splitlines() if line[:6] == "SigBlk")
        return int(blocked, 16) >> (signal.SIGTERM - 1) & 1 == 1


def in_a_child(act: Callable[[], None]) -> int:
    """Run ``act`` in a fork, which a stuck thread ends with; return its exit code."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            act()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_stuck_thread_stands_still_and_the_others_go_on() -> None:
    def act() -> None:
        stuck, free = Reading("pt_nccl_watchdg"), Reading("pt_nccl_heartbt")
        StuckThread((0,)).fire(HERE)
        while not stuck.in_handler():
            time.sleep(0)
        stuck.write()
        for _ in range(5):
            assert free.moves()
        assert stuck.has_unread()
        assert not free.in_handler()

    assert in_a_child(act) == 0


def test_a_rank_without_that_thread_makes_the_arm_unclear() -> None:
    run = run_arm((StuckThread((1,)), Trigger("collective", op="all_reduce", nth=3)), ranks=2)
    assert run.exit_codes == {0: 0, 1: 0}
    (event,) = run.of(Malfunction)
    assert "rank 1 has no thread called pt_nccl_watchdg; it has " in event.message
    assert not run.of(OpFailed)


# ---------------------------------------------------------------- with a fake of torch.cuda


class Cuda(types.SimpleNamespace):
    """A GPU of 1000 MiB, of which torch has 100 and the script allows itself half."""

    def __init__(self) -> None:
        self.limits: list[float] = [0.5]
        self.slept: list[int] = []
        self.memory = types.SimpleNamespace(get_per_process_memory_fraction=lambda device: self.limits[-1])
        self.Event = lambda enable_timing: types.SimpleNamespace(
            record=lambda: None, synchronize=lambda: None, elapsed_time=lambda other: 10.0
        )

    def current_device(self) -> int:
        return 0

    def memory_reserved(self, device: int) -> int:
        return 100 * MIB

    def get_device_properties(self, device: int) -> Any:
        return types.SimpleNamespace(total_memory=1000 * MIB)

    def set_per_process_memory_fraction(self, fraction: float, device: int) -> None:
        self.limits.append(fraction)

    def _sleep(self, cycles: int) -> None:
        self.slept.append(cycles)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Cuda:
    made = Cuda()
    monkeypatch.setattr(torch, "cuda", made)
    return made


def test_cuda_oom_asks_for_more_than_it_limits_itself_to(cuda: Cuda, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def allocate(size: int, **_: object) -> None:
        asked.append(size)
        assert cuda.limits[-1] * 1000 * MIB < size + cuda.memory_reserved(0)
        assert cuda.limits[-1] * 1000 * MIB >= cuda.memory_reserved(0), "what it has already stays allowed"
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 164.00 MiB.")

    monkeypatch.setattr(torch, "empty", allocate)
    with pytest.raises(torch.OutOfMemoryError):
        CudaOom((0,)).fire(HERE)
    assert asked == [164 * MIB]
    assert cuda.limits[-1] == 0.5, "the script's own limit is back"


def test_cuda_oom_that_does_not_come_makes_the_arm_unclear(
    cuda: Cuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(torch, "empty", lambda size, **_: None)
    CudaOom((0,)).fire(Moment(0, 1, 0, broken=said.append))
    assert said == ["the CUDA allocator gave more memory than it was limited to"]


def test_a_stuck_kernel_spins_for_as_many_cycles_as_it_takes(cuda: Cuda) -> None:
    StuckKernel((0,), 2.0).fire(HERE)
    trial, asked = cuda.slept
    assert asked == trial * 200, "the trial took 10 ms"
    StuckKernel((0,)).fire(HERE)
    assert cuda.slept[-1] / 4e9 > 10 * 365 * 86_400


def test_what_needs_a_gpu_says_so() -> None:
    for cls in (CudaOom, DeviceAssert, StuckKernel):
        assert cls.needs == ("nccl",)
