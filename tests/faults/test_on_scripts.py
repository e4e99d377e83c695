"""The faults of a script: each makes one rank decide or fail alone (bites), and a script that lets its ranks
agree, or a guard that compares them, keeps the job from hanging (held)."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from forked_ranks import Run, run_arm

from chaoskit.faults.clock import Clock
from chaoskit.faults.end_of_data import EndOfData
from chaoskit.faults.family import Moment
from chaoskit.faults.leftover import Leftover
from chaoskit.faults.nan import Nan, _spoiled
from chaoskit.faults.preempt import Preempt
from chaoskit.faults.raise_ import Raise
from chaoskit.faults.second_thread import SecondThread
from chaoskit.faults.sigterm import Sigterm
from chaoskit.faults.stall import Stall
from chaoskit.guards.collective_check import CollectiveCheck
from chaoskit.guards.timeouts import Timeouts
from chaoskit.history import Entered, Raised, Reported, Stepped
from chaoskit.model import Fault, Profile, Span, Trigger

pytestmark = pytest.mark.timeout(300)
STEP = Trigger("step", step=6)
LAUNCH = Trigger("launch")
BATCH = Trigger("loader", nth=8)
AT = Trigger("collective", op="all_reduce", nth=8)
CHECKED = Profile("checked", guards=(Timeouts(30.0, 30.0, 30.0), CollectiveCheck(20.0, 4.0, 20.0)))
MARKER = Leftover((1,), "{scratch}/node{rank}/prepared")
LOCK = Leftover((1,), "{scratch}/node{rank}/lock", content="4194305")


def last(run: Run, slot: int) -> str:
    return run.of(Entered, slot)[-1].op


DECIDED_ALONE = [
    pytest.param(Clock((1,), 3600.0), STEP, "decisions", {"decide": "clock"}, id="clock"),
    pytest.param(Nan((1,)), Trigger("step", step=10), "decisions", {"decide": "metric"}, id="metric"),
    pytest.param(Nan((1,)), STEP, "decisions", {"decide": "nan"}, id="nan"),
    pytest.param(EndOfData((1,)), BATCH, "uneven-data", {}, id="end-of-data"),
    pytest.param(Preempt((1,)), STEP, "preemptible", {}, id="preempt"),
    pytest.param(SecondThread("all", (1,)), AT, "all-reduce-loop", {}, id="second-thread"),
]
AGREEMENT = {"decisions": "together", "uneven-data": "join", "preemptible": "together"}


@pytest.mark.parametrize(("fault", "when", "workload", "settings"), DECIDED_ALONE)
def test_one_rank_goes_another_way_and_the_others_wait(
    fault: Fault, when: Trigger, workload: str, settings: dict[str, int | float]
) -> None:
    run = run_arm((fault, when), ranks=3, workload=workload, settings=settings, rest_s=3)
    assert 0 not in run.exit_codes.values()
    assert last(run, 0) == last(run, 2) != last(run, 1) or workload == "all-reduce-loop"


@pytest.mark.parametrize(("fault", "when", "workload", "settings"), DECIDED_ALONE)
def test_held_by_the_collective_check(
    fault: Fault, when: Trigger, workload: str, settings: dict[str, int | float]
) -> None:
    run = run_arm((fault, when), ranks=3, workload=workload, settings=settings, profile=CHECKED, rest_s=20)
    assert set(run.exit_codes.values()) == {87}
    assert "rank 1 entered barrier" in run.output[0]


@pytest.mark.parametrize(("fault", "when", "workload", "settings"), DECIDED_ALONE[:-1])
def test_held_by_a_script_whose_ranks_agree(
    fault: Fault, when: Trigger, workload: str, settings: dict[str, int | float]
) -> None:
    agreed = {**settings, AGREEMENT[workload]: True}
    run = run_arm((fault, when), ranks=3, workload=workload, settings=agreed, profile=CHECKED, rest_s=30)
    assert set(run.exit_codes.values()) == {0}
    assert [e.value for e in run.of(Reported)] == [0.0, 0.0, 0.0]
    steps = {max((e.step for e in run.of(Stepped, slot)), default=0) for slot in (0, 2)}
    assert len(steps) == 1


def test_a_second_thread_that_keeps_the_order_does_no_harm() -> None:
    run = run_arm((SecondThread("all", "all"), AT), ranks=2, profile=CHECKED)
    assert set(run.exit_codes.values()) == {0}
    assert [e.nth for e in run.of(Entered, 0) if e.op == "barrier"] == list(range(1, 22))


# -------------------------------------------------------------------------- clock


def test_only_the_users_code_sees_the_other_time() -> None:
    code = """
from chaoskit.faults.clock import Clock
from chaoskit.faults.family import Moment
import time
fault, here = Clock((0,), 3600.0), Moment(0, 1, 0)
real = time.monotonic
fault.install(here)
from time import time as now, monotonic
import threading, queue, datetime
start = now(), monotonic(), time.perf_counter(), time.time_ns()
assert monotonic() - real() < 60
fault.fire(here)
after = now(), monotonic(), time.perf_counter(), time.time_ns() / 1e9
assert all(3600 <= b - a < 3660 for a, b in zip(start[:3], after[:3])), (start, after)
assert 3599.9 <= after[3] - start[3] / 1e9 < 3660
began = real()
assert not threading.Event().wait(0.05)
try: queue.Queue().get(timeout=0.05)
except queue.Empty: pass
assert real() - began < 30
assert datetime.datetime.now().timestamp() - start[0] < 60
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# -------------------------------------------------------------------------- NaN


def test_nan_in_a_reduction_reaches_every_rank() -> None:
    run = run_arm((Nan((1,)), AT), ranks=2)
    assert run.exit_codes == {0: 0, 1: 0}
    assert all(e.value != e.value for e in run.of(Reported))


def test_the_next_output_of_the_model_is_nan_once() -> None:
    first, second = torch.nn.Linear(2, 2), torch.nn.Sequential(torch.nn.Linear(2, 1))
    model = torch.nn.Sequential(first, second)
    Nan((0,)).fire(Moment(0, 1, 0))
    inner: list[bool] = []
    handle = second.register_forward_hook(lambda *a: inner.append(bool(a[2].isfinite().all())))
    spoiled, sound = model(torch.ones(1, 2)), model(torch.ones(1, 2))
    handle.remove()
    assert inner == [True, True]
    assert spoiled.isnan().all()
    assert sound.isfinite().all()
    spoiled.sum().backward()
    assert first.weight.grad is not None
    assert first.weight.grad.isnan().all()


def test_whatever_a_model_returns_is_spoiled() -> None:
    class Pair(NamedTuple):
        loss: torch.Tensor
        weight: torch.Tensor

    one, count = torch.ones(2), torch.ones(2, dtype=torch.int64)
    pair = _spoiled(Pair(one, count))
    assert pair.loss.isnan().all()
    assert pair.weight is count
    nested = _spoiled({"logits": [one], "hidden": (one, None)})
    assert nested["logits"][0].isnan().all()
    assert nested["hidden"][0].isnan().all()
    assert nested["hidden"][1] is None


# -------------------------------------------------------------------------- what is left over


def test_a_file_or_a_folder_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAOSKIT_SCRATCH", str(tmp_path))
    here = Moment(3, 4, 3)
    Leftover("all", "{scratch}/a/node{rank}/", "").install(here)
    Leftover("all", "{scratch}/half.pt", bytes=100_000).install(here)
    Leftover("all", "{scratch}/lock", content="17").install(here)
    Leftover("all", "{scratch}/empty").install(here)
    assert (tmp_path / "a/node3").is_dir()
    assert (tmp_path / "half.pt").stat().st_size == 100_000
    assert (tmp_path / "lock").read_text() == "17"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "empty", "half.pt", "lock"]
    with pytest.raises(Exception, match=r"[Ww]eights|pickle"):
        torch.load(tmp_path / "half.pt")


def test_no_folder_of_the_arm_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHAOSKIT_SCRATCH", raising=False)
    with pytest.raises(RuntimeError, match="CHAOSKIT_SCRATCH"):
        Leftover("all", "{scratch}/x").install(Moment(0, 1, 0))


def test_a_marker_on_one_host_lets_its_rank_skip_a_barrier() -> None:
    run = run_arm((MARKER, LAUNCH), ranks=3, workload="prepare-data", rest_s=3)
    assert 0 not in run.exit_codes.values()
    assert [last(run, slot) for slot in range(3)] == ["barrier", "all_reduce", "barrier"]


@pytest.mark.nightly
def test_a_lock_that_nobody_releases_keeps_its_rank_for_ever() -> None:
    run = run_arm((LOCK, LAUNCH), ranks=3, workload="prepare-data", rest_s=6)
    assert run.exit_codes[1] is None
    assert last(run, 1) == "init"


@pytest.mark.parametrize("left", [MARKER, LOCK], ids=["marker", "lock"])
def test_held_by_a_script_that_is_careful(left: Leftover) -> None:
    run = run_arm((left, LAUNCH), ranks=3, workload="prepare-data", settings={"careful": True})
    assert set(run.exit_codes.values()) == {0}


# -------------------------------------------------------------------------- errors that are caught

LOAD = Trigger("call", call="chaoskit.workloads.skip_on_error.load", nth=6)
EVALUATE = Trigger("call", call="chaoskit.workloads.try_finally.evaluate", nth=6)


def test_an_error_swallowed_on_one_rank_makes_all_sums_wrong_in_silence() -> None:
    run = run_arm((Raise((1,), "RuntimeError: corrupt"), LOAD), ranks=3, workload="skip-on-error")
    assert set(run.exit_codes.values()) == {0}
    assert all(e.value != 0.0 for e in run.of(Reported))


def test_a_swallowed_error_is_held_and_the_rank_that_swallowed_it_does_not_end_0() -> None:
    fault = (Raise((1,), "RuntimeError: corrupt"), LOAD)
    run = run_arm(fault, ranks=3, workload="skip-on-error", profile=CHECKED, rest_s=20)
    assert set(run.exit_codes.values()) == {87}


def test_an_exception_between_two_barriers_is_seen_by_nobody() -> None:
    run = run_arm((Raise((2,), "ValueError: bad"), EVALUATE), ranks=3, workload="try-finally", rest_s=3)
    assert 0 not in run.exit_codes.values()
    reductions = [sum(e.op == "all_reduce" for e in run.of(Entered, slot)) for slot in range(3)]
    assert reductions == [6, 6, 5]
    assert last(run, 2) == "barrier"


@pytest.mark.parametrize(("workload", "when"), [("skip-on-error", LOAD), ("try-finally", EVALUATE)])
def test_an_error_that_is_told_to_all_is_held(workload: str, when: Trigger) -> None:
    fault = (Raise((1,), f"{'Runtime' if when is LOAD else 'Value'}Error: bad"), when)
    run = run_arm(fault, ranks=3, workload=workload, settings={"together": True}, profile=CHECKED)
    assert set(run.exit_codes.values()) == {0}
    assert [e.value for e in run.of(Reported)] == [0.0, 0.0, 0.0]


def test_a_handler_that_exits_0_hides_behind_errors_that_are_swallowed() -> None:
    fault = (Sigterm((1,), "exit-zero"), STEP)
    run = run_arm(fault, ranks=3, workload="skip-on-error", rest_s=20)
    assert set(run.exit_codes.values()) == {0}
    assert not run.of(Reported, 1)
    held = run_arm(fault, ranks=3, workload="skip-on-error", profile=CHECKED, rest_s=20)
    assert set(held.exit_codes.values()) == {87}


# -------------------------------------------------------------------------- preemption


@pytest.fixture
def remains_of_workers() -> Iterator[None]:
    """Takes away what torch and multiprocessing leave of a worker that a signal has ended."""
    before = set(_remains())
    yield
    for path in set(_remains()) - before:
        if path.is_dir():
            shutil.rmtree(path)
        elif not Path("/proc", path.name.split("_")[1]).exists():
            path.unlink()


def _remains() -> list[Path]:
    return [*Path("/dev/shm").glob("torch_*"), *Path(tempfile.gettempdir()).glob("pymp-*")]


def test_without_a_handler_the_signal_ends_the_rank() -> None:
    run = run_arm((Preempt((1,)), STEP), ranks=2)
    assert run.exit_codes == {0: 1, 1: -15}


@pytest.mark.usefixtures("remains_of_workers")
def test_the_loaders_workers_get_it_too() -> None:
    settings: dict[str, int | float] = {"workers": 1, "together": True, "step_s": 0.01}
    # No rank goes on before its worker is gone, which cuts the stall short.
    faults = ((Preempt("all", 20.0), AT), (Stall("all", 20.0), AT))
    run = run_arm(*faults, ranks=2, workload="preemptible", settings=settings, rest_s=25)
    assert set(run.exit_codes.values()) == {1}
    assert all("preemptible.py" in e.site for e in run.of(Raised)), "not where the next batch is asked for"


def test_workers_that_are_shielded_let_the_rank_save() -> None:
    settings: dict[str, int | float] = {"workers": 1, "together": True, "shield_workers": True}
    run = run_arm((Preempt("all", 20.0), STEP), ranks=2, workload="preemptible", settings=settings)
    assert set(run.exit_codes.values()) == {0}
    assert [e.step for e in run.of(Stepped, 0)] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("holds_gil", [False, True])
def test_who_stays_is_killed_after_the_grace(holds_gil: bool) -> None:
    code = f"""
import ctypes, os, signal, time
from chaoskit.faults.family import Moment
from chaoskit.faults.preempt import Preempt
signal.signal(signal.SIGTERM, signal.SIG_IGN)
Preempt((0,), 0.3).fire(Moment(0, 1, 0))
(ctypes.PyDLL(None).sleep if {holds_gil} else time.sleep)(60)
"""
    start = time.monotonic()
    process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    assert process.wait(60) == -signal.SIGKILL
    assert time.monotonic() - start >= 0.3


def test_the_scheduler_is_gone_when_the_group_is() -> None:
    code = """
import os, signal
from chaoskit.faults.family import Moment
from chaoskit.faults.preempt import Preempt
signal.signal(signal.SIGTERM, signal.SIG_IGN)
Preempt((0,), 3600.0).fire(Moment(0, 1, 0))
os.write(1, open(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read().encode())
"""
    run = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, start_new_session=True
    )
    (pid,) = map(int, run.stdout.split())
    with contextlib.suppress(ProcessLookupError):  # gone already
        process = os.pidfd_open(pid)
        poll = select.poll()
        poll.register(process, select.POLLIN)
        gone = poll.poll(20_000)
        os.close(process)
        assert gone


# -------------------------------------------------------------------------- wrong fields


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Clock((1,), Span(0.0)), "by"),
        (lambda: Preempt((1,), 0.0), "grace"),
        (lambda: Preempt((1,), signal="SIGKILL"), "signal"),
        (lambda: Leftover((1,), "/"), "path"),
        (lambda: Leftover((1,), "x", bytes=-1), "bytes"),
        (lambda: Leftover((1,), "x", "text", 10), "content or bytes"),
        (lambda: Leftover((1,), "x/", "text"), "folder"),
    ],
)
def test_a_wrong_field_is_named(make: Callable[[], Fault], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()
