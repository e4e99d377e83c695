"""Ranks at their worst: a fault from another package makes them so, found by its entry point."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from real_runs import Run, last

from chaoskit import faults, history
from chaoskit.history import Leftover
from chaoskit.model import (
    Arm,
    Backend,
    Culprit,
    Expectation,
    Fault,
    Injection,
    Kind,
    Outcome,
    Result,
    Scenario,
    Span,
    Status,
    Topology,
    Trigger,
    Verdict,
    Workload,
)

pytestmark = pytest.mark.timeout(300)

PLUGIN = '''
"""A fault for tests."""
import ctypes, os, signal, socket, sys, time
from dataclasses import dataclass
from typing import ClassVar
from chaoskit.faults import RankFault


@dataclass(frozen=True, slots=True)
class Nasty(RankFault):
    """The rank does one ``deed`` after the other."""

    name: ClassVar[str] = "nasty"
    triggers: ClassVar[frozenset[str]] = frozenset({"collective"})
    phases: ClassVar[frozenset[str]] = frozenset({"before"})
    ends_by_signal: ClassVar[bool] = True

    rank: "tuple[int, ...] | str"
    deeds: str = ""

    def fire(self, here):
        for deed in self.deeds.split():
            globals()[deed]()


def ignore():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def daemon():
    """A double fork into a session of its own that ignores everything and listens on a port."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork() == 0:
            ignore()
            kept = socket.create_server(("127.0.0.1", 0))
            os.write(writer, b"r")
            while True:
                time.sleep(1000)
        os._exit(0)
    os.read(reader, 1)
    os.waitpid(child, 0)  # else a busy machine may leave two behind


def flood():
    line = b"x" * 99 + bytes([10])
    for _ in range(400):
        os.write(1, line * 1_000)


def close():
    os.closerange(0, 4096)


def stay():
    while True:
        time.sleep(1000)


def recurse():
    """Exhausts the stack of the process itself: C code that calls itself through Python for ever."""
    sys.setrecursionlimit(1 << 30)
    compare = ctypes.CFUNCTYPE(ctypes.c_int)
    @compare
    def again():
        return again()
    again()


def crash():
    ctypes.string_at(0)


def leave():
    os._exit(0)
'''
CULPRIT = (Culprit("rank", "1"),)


@pytest.fixture
def nasty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int, str], Injection]:
    """Install the package for the length of a test; ``nasty(rank, deeds)`` makes the injection."""
    site = tmp_path / "site"
    info = site / "nasty_fault-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "nasty_fault.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: nasty-fault\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[chaoskit.faults]\nnasty = nasty_fault:Nasty\n")
    monkeypatch.syspath_prepend(site)
    importlib.invalidate_caches()
    monkeypatch.setattr(faults.REGISTRY, "_plugins_loaded", False)
    monkeypatch.setattr(faults.REGISTRY, "_known", dict(faults.REGISTRY._known))
    made = cast("Callable[[tuple[int, ...], str], Fault]", faults.REGISTRY.get("nasty"))
    return lambda rank, deeds: Injection(made((rank,), deeds), Trigger("collective", "all_reduce", 6))


def scenario(name: str, injection: Injection, contract: Expectation) -> Scenario:
    control = Arm("control", "torch-defaults", Expectation(FAILED))
    hardened = Arm("hardened", "strict", contract)
    return Scenario(
        name, "", "process", Workload("all-reduce-loop"), Topology(3), (injection,), (control, hardened)
    )


FAILED: tuple[tuple[Backend, Outcome], ...] = (("gloo", Outcome.FAILED),)
DONE: tuple[tuple[Backend, Outcome], ...] = (("gloo", Outcome.COMPLETED),)
FAILS = Expectation(FAILED, Span(10.0), "nonzero", culprits=CULPRIT)


def test_whatever_ranks_do_they_are_ended_and_the_verdict_is_right(
    nasty: Callable[[int, str], Injection], run: Run
) -> None:
    wanted = {
        "floods": (nasty(1, "flood"), Expectation(DONE, exit="zero")),
        "recurses": (nasty(1, "flood recurse"), dataclasses.replace(FAILS, kind=Kind.KILLED)),
        "crashes": (nasty(1, "ignore crash"), dataclasses.replace(FAILS, kind=Kind.KILLED)),
        "lets-go": (nasty(1, "ignore close stay"), FAILS),
        "daemon": (nasty(1, "ignore daemon close leave"), FAILS),
    }
    result = run(*(scenario(name, *what) for name, what in wanted.items()), arms=("hardened",), jobs=3)
    found: dict[str, Verdict] = {v.scenario: v for v in last(result.verdicts)}
    for name in ("floods", "recurses", "crashes", "lets-go"):
        assert found[name].status is Status.PASS, found[name]
    assert found["daemon"].status is Status.FAIL
    assert "left behind" in found["daemon"].reason
    assert found["daemon"].outcome is Outcome.FAILED
    assert found["daemon"].culprits == CULPRIT
    events, _ = history.read(result.run_dir / "daemon" / "hardened" / "history.jsonl")
    assert len(events.all(Leftover)) == 1
    assert {s.result for s in result.scenarios} == {Result.INCONCLUSIVE, Result.NOT_HELD}
    size = sum(p.stat().st_size for p in result.run_dir.rglob("*") if p.is_file())
    assert size < 5_000_000, f"the run directory has {size} bytes"
    log = (result.run_dir / "floods" / "hardened" / "rank1" / "stdout.log").read_text()
    assert "bytes of output left out here" in log
