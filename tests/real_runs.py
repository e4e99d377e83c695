"""Real runs of the engine: the servers that all tests share, and one finished run that many tests look at.

Loading torch costs more than an arm, so the engine gets the same servers in every test. What is claimed
of its own servers is tested with ``python -m chaoskit``.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psutil
import pytest

from chaoskit.model import ScenarioResult, Verdict
from chaoskit.request import ArmId, RunRequest, RunResult

ROOT = Path(__file__).parents[1]
SCENARIOS = ("rank-killed-mid-all-reduce", "dtypes-differ", "uncaught-exception", "rank-stopped")
"""A death, a silent corruption, an error, and a hang."""
SEED = 5
MARK = "CHAOSKIT_TEST_MARK"
GONE_LIMIT_S = 20.0

Run = Callable[..., RunResult]


@dataclass
class Heard:
    """An observer that keeps what it is told."""

    run_dir: Path | None = None
    announced: tuple[ArmId, ...] = ()
    started: list[ArmId] = field(default_factory=list)
    ended: list[tuple[ArmId, Verdict]] = field(default_factory=list)
    results: list[ScenarioResult] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    on_start: Callable[[ArmId], None] = lambda arm: None

    def run_started(self, run_dir: Path, seed: int, arms: tuple[ArmId, ...]) -> None:
        self.order.append("run")
        self.run_dir, self.announced = run_dir, arms

    def arm_started(self, arm: ArmId, limit_s: float) -> None:
        assert limit_s > 0
        self.order.append("start")
        self.started.append(arm)
        self.on_start(arm)

    def arm_ended(self, arm: ArmId, verdict: Verdict) -> None:
        self.order.append("end")
        self.ended.append((arm, verdict))

    def scenario_ended(self, result: ScenarioResult) -> None:
        self.order.append("scenario")
        self.results.append(result)


@dataclass(frozen=True)
class Finished:
    result: RunResult
    heard: Heard

    @property
    def verdicts(self) -> list[Verdict]:
        return last(self.result.verdicts)

    @property
    def arms(self) -> dict[tuple[str, str], Path]:
        return {(v.scenario, v.arm): folder_of(self.result, v) for v in self.verdicts}

    def verdict(self, scenario: str, arm: str) -> Verdict:
        return next(v for v in self.verdicts if (v.scenario, v.arm) == (scenario, arm))

    def scenario(self, name: str) -> ScenarioResult:
        return next(s for s in self.result.scenarios if s.name == name)


def last(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """The verdicts that count: an arm that was only late, as a busy machine makes it, is run once more."""
    return list({(v.scenario, v.arm, v.backend, v.repeat): v for v in verdicts}.values())


def folder_of(result: RunResult, verdict: Verdict) -> Path:
    """Where the files of that attempt are."""
    from chaoskit import rundir

    v = verdict
    arm = ArmId(v.scenario, v.arm, v.backend, v.repeat, v.attempt)
    return rundir.arm_dir(result.run_dir, arm)


@contextmanager
def patient_evidence(limit_s: float = 60.0) -> Iterator[None]:
    """All evidence is waited for: of what a busy machine is late with, a run says that it is missing."""
    from chaoskit.evidence import flight_recorder, gather, stacks

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gather, "Asked", partial(gather.Asked, limit_s=limit_s))
        patch.setattr(gather, "FIRST_S", limit_s)
        patch.setattr(stacks, "DUMP_S", limit_s)
        patch.setattr(flight_recorder, "BEGINS_WITHIN_S", limit_s)
        yield


@pytest.fixture(scope="session")
def server_pool() -> Iterator[object]:
    from chaoskit.launchers.forkserver import ServerPool

    with ServerPool() as pool:
        yield pool


@pytest.fixture(scope="session")
def shared_servers(server_pool: object) -> Iterator[None]:
    """From here on the engine uses servers that stay."""
    from chaoskit import engine

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "ServerPool", lambda *_, **__: contextlib.nullcontext(server_pool))
        yield


@pytest.fixture(scope="session")
def finished(shared_servers: None, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """One run of SCENARIOS."""
    from chaoskit import engine
    from chaoskit.scenario import select

    heard = Heard()
    folder = tmp_path_factory.mktemp("finished")
    request = RunRequest(tuple(select(SCENARIOS)), seed=SEED, runs_dir=folder, command="a test")
    with patient_evidence():
        return Finished(engine.run(request, heard), heard)


@pytest.fixture
def run(shared_servers: None, tmp_path: Path) -> Run:
    """Run scenarios by name, or objects, on the shared servers."""
    from chaoskit import engine
    from chaoskit.scenario import select

    def run(*scenarios: object, observer: Heard | None = None, **fields: object) -> RunResult:
        meant = [s for one in scenarios for s in (select([one]) if isinstance(one, str) else [one])]
        asked: dict[str, object] = {"seed": SEED, "runs_dir": tmp_path / "runs", **fields}
        return engine.run(RunRequest(tuple(meant), **asked), observer)  # type: ignore[arg-type]

    return run


# ---------------------------------------------------------------- processes of a command


@dataclass
class Command:
    """A ``python -m chaoskit`` that a test started. ``mark`` is in the environment of all that it starts."""

    process: subprocess.Popen[str]
    mark: str
    folder: Path
    seen: set[int] = field(default_factory=set)
    """The ids of all its processes that a look has met."""

    def all(self) -> list[psutil.Process]:
        """The process and all that it started, however deep, orphans included."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(MARK) == self.mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        self.seen |= {p.pid for p in found}
        return found

    def wait_until(self, wanted: Callable[[], object], limit_s: float = 90.0) -> None:
        """Look again and again, as nothing tells us; return at once when the process ends."""
        until = time.monotonic() + limit_s
        while not wanted():
            assert self.process.poll() is None, f"it ended early: {self.process.communicate()}"
            assert time.monotonic() < until
            select.select([], [], [], 0.01)

    def shows(self, text: str) -> bool:
        """Whether the command line of something it started holds ``text``."""
        for process in self.all():
            with contextlib.suppress(psutil.Error):
                if text in " ".join(process.cmdline()):
                    return True
        return False

    def is_stopped(self) -> bool:
        """Whether a rank is."""
        for process in self.all():
            with contextlib.suppress(psutil.Error):
                if process.status() == psutil.STATUS_STOPPED:
                    return True
        return False

    def left(self) -> list[str]:
        """Wait until nothing is left; return what stays."""
        until = time.monotonic() + GONE_LIMIT_S
        while (found := self.all()) and time.monotonic() < until:
            select.select([], [], [], 0.02)
        return [f"{p.pid} {' '.join(p.cmdline())}" for p in found if p.is_running()]


@contextmanager
def chaoskit(*arguments: str, folder: Path) -> Iterator[Command]:
    """Start ``python -m chaoskit`` in ``folder``, which is also its place for temporary files."""
    mark = str(uuid.uuid4())
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    env = {**os.environ, MARK: mark, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)}
    process = subprocess.Popen(
        [sys.executable, "-m", "chaoskit", *arguments],
        cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip
    command = Command(process, mark, folder)
    try:
        yield command
    finally:
        for one in command.all():
            with contextlib.suppress(psutil.Error):
                one.kill()
        process.communicate()


def temporary_files(folder: Path) -> list[str]:
    """What a command has left where temporary files go, but for the cache that torch makes by itself."""
    return [p.name for p in (folder / "tmp").iterdir() if not p.name.startswith("torchinductor_")]


# ---------------------------------------------------------------- load


@contextmanager
def load(burners: int = 2) -> Iterator[None]:
    """Keep as many cores busy with processes of our own."""
    code = "import os\nos.write(1, b'r')\nwhile True: pass"
    with contextlib.ExitStack() as stack:
        for _ in range(burners):
            process = stack.enter_context(
                subprocess.Popen([sys.executable, "-S", "-c", code], stdout=subprocess.PIPE)
            )
            stack.callback(os.kill, process.pid, signal.SIGKILL)
            assert process.stdout is not None
            assert process.stdout.read(1) == b"r"
        yield


def signature(verdict: Verdict) -> tuple[object, ...]:
    """What has to be equal in every repeat."""
    culprits = tuple(sorted(map(str, verdict.culprits)))
    return verdict.status, verdict.outcome, verdict.kind, culprits, verdict.ambiguous


def last_attempts(result: ScenarioResult) -> dict[str, list[Verdict]]:
    """The verdicts that count, by arm, in order of repeat."""
    last = {(v.arm, v.repeat): v for v in result.verdicts}
    arms: dict[str, list[Verdict]] = {}
    for (arm, _), verdict in sorted(last.items()):
        arms.setdefault(arm, []).append(verdict)
    return arms
