"""A launcher for tests: forks real ranks with ``run_rank`` and gathers what they wrote.

It does what the warden does for a rank (regions, release, output, deaths) and nothing more. Ranks that do
nothing for ``rest_s``, all of them, are killed and have no exit code: not at a point in time, which a loaded
machine reaches sooner than they do. The ranks are forked from a server process of its
own, which has torch loaded and does nothing with it, as forking a process that has computed is not safe.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.process import current_process
from pathlib import Path
from typing import Any, TypeVar

from free_ports import free_port

from chaoskit import workloads
from chaoskit.history import Event
from chaoskit.model import (
    Contract,
    Injection,
    Outcome,
    Plan,
    Profile,
    RankPlan,
    Trigger,
    Workload,
)
from chaoskit.rank import region

E = TypeVar("E", bound=Event)
REST_S = 10.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
LOOK_S = 0.1
IDLE_SHARE = 0.05
"""Of a core: what ranks that wait use up all the same, as stores poll."""
LIMIT_S = 50.0
"""Below the shortest timeout of a test. Reached by ranks that compute for ever."""


@dataclass
class Run:
    """What came of an arm."""

    events: list[Event] = field(default_factory=list)
    exit_codes: dict[int, int | None] = field(default_factory=dict)
    ended_s: dict[int, float] = field(default_factory=dict)
    stopped: set[int] = field(default_factory=set)
    output: dict[int, str] = field(default_factory=dict)
    doorbell: bytes = b""

    def of(self, kind: type[E], slot: int | None = None) -> list[E]:
        return [e for e in self.events if isinstance(e, kind) and slot in (None, e.slot)]


def make_plan(
    *injections: tuple[object, Trigger],
    workload: str = "all-reduce-loop",
    ranks: int = 2,
    profile: Profile | None = None,
    gated: bool = True,
    env: dict[int, dict[str, str]] | None = None,
    settings: dict[str, int | float | str] | None = None,
) -> Plan:
    """Return a plan for ``ranks`` gloo ranks on a free port; ``env`` adds variables by slot."""
    port = free_port()
    given = tuple((settings or {}).items())
    plans = []
    for slot in range(ranks):
        launched = {
            "RANK": str(slot), "LOCAL_RANK": str(slot), "WORLD_SIZE": str(ranks),
            "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
            **(env or {}).get(slot, {}),
        }  # fmt: skip
        for fault, when in injections:
            if when.kind == "launch" and fault.targets(slot):  # type: ignore[attr-defined]
                fault.environment(launched)  # type: ignore[attr-defined]
        unset = tuple({"LOCAL_RANK", "RANK"} - launched.keys())
        plans.append(RankPlan(slot, tuple(launched.items()), unset))
    program = workloads.get(workload)
    assert program is not None
    return Plan(
        scenario="test", arm="control", backend="gloo", seed=1, repeat=0, attempt=0,
        profile=profile or Profile("none"), time_scale=1.0, workload=Workload(workload, given),
        ranks=tuple(plans),
        injections=tuple(Injection(f, w) for f, w in injections),  # type: ignore[arg-type]
        contract=Contract(Outcome.COMPLETED), hardened_contract=Contract(Outcome.COMPLETED),
        healthy=not injections, bound_s=None, production_bound_s=None, deadline_s=10.0, start_limit_s=10.0,
        expected_result=program.expected(dict(given), ranks), master_port=port, gated=gated, rerun="",
    )  # fmt: skip


class Server:
    """The process that forks ranks; the same for all tests of a session."""

    _shared: Server | None = None

    def __init__(self) -> None:
        here = Path(__file__).resolve()
        path = os.pathsep.join([str(here.parent.parent), os.environ.get("PYTHONPATH", "")])
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(here)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        )

    @classmethod
    def shared(cls) -> Server:
        if cls._shared is None:
            cls._shared = cls()
        return cls._shared

    def run(self, plan: Plan, rest_s: float = REST_S) -> Run:
        """Run one arm and return what came of it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        pickle.dump((plan, rest_s), self._process.stdin)
        self._process.stdin.flush()
        try:
            run = pickle.load(self._process.stdout)
        except BaseException:  # the next one must not get this answer
            type(self)._shared = None
            self._process.kill()
            self._process.wait()
            raise
        assert isinstance(run, Run)
        return run

    def close(self) -> None:
        type(self)._shared = None
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()
        self._process.wait(60)
        if self._process.stdout is not None:
            self._process.stdout.close()


def run_arm(*injections: tuple[object, Trigger], rest_s: float = REST_S, **settings: Any) -> Run:
    """Run the plan that :func:`make_plan` makes of this."""
    return Server.shared().run(make_plan(*injections, **settings), rest_s)


def _serve() -> None:
    import torch
    import torch._dynamo
    import torch.distributed
    import torch.nn.parallel
    import torch.optim

    torch.set_num_threads(1)
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    answers = os.fdopen(os.dup(1), "wb")
    while True:
        try:
            plan, rest_s = pickle.load(sys.stdin.buffer)
        except EOFError:
            os._exit(0)  # torch takes its time to say goodbye
        with tempfile.TemporaryDirectory() as out:
            run = _run(plan, Path(out), rest_s)
        pickle.dump(run, answers)
        answers.flush()


def _run(plan: Plan, out: Path, rest_s: float) -> Run:
    """Run the arm until its ranks have ended or rest; writes rank output below ``out``."""
    count = len(plan.ranks)
    memfd = os.memfd_create("ranks")
    os.truncate(memfd, count * region.REGION_BYTES)
    bell_r, bell_w = os.pipe2(os.O_NONBLOCK)
    release = os.eventfd(0, os.EFD_NONBLOCK)
    run = Run()
    (out / "scratch").mkdir()
    with _prepared(plan):
        pids = {
            _fork(plan, slot, region.Channels(memfd, slot, bell_w, release), out): slot
            for slot in range(count)
        }
        try:
            _wait(pids, run, release, rest_s)
        finally:
            for pid, slot in pids.items():
                if slot not in run.exit_codes:
                    os.killpg(pid, signal.SIGKILL)  # a worker of the rank may be stopped
                    os.waitpid(pid, 0)
                    run.exit_codes[slot] = None
    for slot in range(count):
        run.events += region.read_events(region.map_region(memfd, slot), slot)
        run.output[slot] = (out / f"rank{slot}.txt").read_text(errors="replace")
    run.events.sort(key=lambda e: e.t_s)
    with contextlib.suppress(BlockingIOError):
        run.doorbell = os.read(bell_r, 1000)
    for fd in (memfd, bell_r, bell_w, release):
        os.close(fd)
    return run


@contextlib.contextmanager
def _prepared(plan: Plan) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for number, injection in enumerate(plan.injections):
            prepare = getattr(injection.fault, "prepare", None)
            if prepare is not None:
                stack.callback(prepare(f"test-{os.getpid()}-{number}", plan))
        yield


def _fork(plan: Plan, slot: int, channels: region.Channels, out: Path) -> int:
    from chaoskit.rank.bootstrap import run_rank

    pid = os.fork()
    if pid:
        return pid
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        os.setsid()
        current_process()._config["tempdir"] = str(out)  # type: ignore[attr-defined]  # gone with the run
        os.environ["CHAOSKIT_SCRATCH"] = str(out / "scratch")
        # Reverse look-ups of c10d's logging take 5 s where DNS drops queries.
        getattr(ctypes.CDLL(None), "__nss_configure_lookup")(b"hosts", b"files")
        file = os.open(out / f"rank{slot}.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 1)
        os.dup2(file, 2)
        sys.stdout = open(1, "w", closefd=False)  # pytest has replaced them
        sys.stderr = open(2, "w", closefd=False)
        run_rank(plan, slot, channels)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(99)


def _wait(pids: dict[int, int], run: Run, release: int, rest_s: float) -> None:
    until_s = time.monotonic() + LIMIT_S
    done, since_s, look_s = 0.0, time.monotonic(), 0.0
    while len(run.exit_codes) < len(pids) and time.monotonic() < until_s:
        pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
        if pid == 0:
            time.sleep(0.002)
            if time.monotonic() < look_s:
                continue
            look_s = time.monotonic() + LOOK_S
            alive = [pid for pid, slot in pids.items() if slot not in run.exit_codes]
            now_done = _computed(alive)
            if now_done - done > IDLE_SHARE * rest_s:
                done, since_s = now_done, time.monotonic()
            elif time.monotonic() - since_s >= rest_s:
                if all(_rests(pid) for pid in alive):
                    return
                done, since_s = now_done, time.monotonic()
            continue
        slot = pids.get(pid)
        if slot is None:
            continue
        os.eventfd_write(release, 1)
        if os.WIFSTOPPED(status):
            run.stopped.add(slot)
        else:
            run.exit_codes[slot] = os.waitstatus_to_exitcode(status)
            run.ended_s[slot] = time.monotonic()
            done, since_s = 0.0, time.monotonic()  # those who are left may go on because of it


def _computed(pids: list[int]) -> float:
    """Return the CPU seconds that these processes have used."""
    return sum(sum(map(int, _stat(f"/proc/{pid}/stat")[11:13])) for pid in pids) / TICKS_PER_S


def _rests(pid: int) -> bool:
    """Return whether no thread of the process is about to do anything, or would if there were a free core."""
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except FileNotFoundError:
        return False
    return all(_stat(f"/proc/{pid}/task/{task}/stat")[:1] not in (["R"], ["D"]) for task in tasks)


def _stat(path: str) -> list[str]:
    """Return the fields of a stat file from the state on; zeros where the process has just ended."""
    try:
        return Path(path).read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ["R"] + ["0"] * 20


if __name__ == "__main__":
    import forked_ranks  # so that what is pickled belongs to the module that the tests import

    forked_ranks._serve()
