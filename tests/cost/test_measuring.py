"""Measured on real ranks: what is compared is in effect, what cannot be compared is said; a signal keeps
what was measured until then."""

from __future__ import annotations

import math
import os
import signal
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from chaoskit.cost.measuring import block_calls, measure, of_either_side, scope_of, without_effect
from chaoskit.cost.request import CostRequest, Model
from chaoskit.cost.values import Case, Comparison, CostReport, Estimate, Treatment
from chaoskit.errors import LaunchFailed
from chaoskit.guards.census import Census
from chaoskit.guards.progress_watchdog import ProgressWatchdog
from chaoskit.model import Profile, Workload
from chaoskit.scenario import load_profile
from chaoskit.timing.messages import Prepared

DEFAULTS = load_profile("torch-defaults")
PLAIN = Treatment("torch-defaults", "torch's defaults", DEFAULTS)
BARRIERS = Treatment("monitored-barrier:1", "a monitored barrier", DEFAULTS, "monitored-barrier", every=1)
SERIALISED = Treatment("serialised-waits", "serialised waits", DEFAULTS, "serialised-waits")
DDP = Case("ddp", "ddp 2 × 64 KiB")
TINY = Model(layers=2, bucket_bytes=1 << 16, compute_ratio=0.5)


def variable(name: str, value: str) -> Treatment:
    return Treatment(f"{name}={value}", name, Profile(name, env=((name, value),)))


@dataclass
class Interrupts:
    """Sends this process a signal once so many times have been told."""

    number: int
    after: int = 3
    ended: list[Comparison] = field(default_factory=list)

    def started(self, run_dir: Path, seed: int, comparisons: int) -> None: ...
    def comparison_started(self, treatment: str, case: Case) -> None: ...

    def timed(self, elapsed_s: float, so_far: Estimate | None) -> None:
        self.after -= 1
        if self.after == 0:
            os.kill(os.getpid(), self.number)

    def comparison_ended(self, comparison: Comparison) -> None:
        self.ended.append(comparison)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> CostReport:
    detail = variable("TORCH_DISTRIBUTED_DEBUG", "DETAIL")
    request = CostRequest(
        (BARRIERS, detail), PLAIN, (DDP,), budget_s=3.0, width=0.0, model=TINY, seed=7,
        runs_dir=tmp_path_factory.mktemp("runs"),
    )  # fmt: skip
    return measure(request)


def of(report: CostReport, name: str) -> Comparison:
    return next(one for one in report.comparisons if one.treatment == name)


@pytest.mark.nightly
def test_both_sides_are_timed_in_the_same_ranks_in_several_starts(report: CostReport) -> None:
    found = of(report, "monitored-barrier:1")
    assert (found.scope, found.problem) == ("ranks", "")
    assert found.estimate is not None
    assert found.estimate.launches >= 2
    assert found.estimate.rounds >= 5 * found.estimate.launches
    assert found.proofs == ((), ("monitored-barrier every 1 steps",))


@pytest.mark.nightly
def test_a_setting_that_ends_the_ranks_is_no_figure(report: CostReport) -> None:
    """DETAIL ends DDP on gloo by signal 11 in torch 2.13: there is nothing to compare."""
    found = of(report, "TORCH_DISTRIBUTED_DEBUG=DETAIL")
    assert found.scope == "process"
    assert found.estimate is None
    assert "SIGSEGV" in found.problem


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.nightly)])
def test_a_signal_ends_it_and_what_was_measured_is_kept(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However long a start takes on a busy machine, the signal comes before the third.
    monkeypatch.setattr("chaoskit.cost.measuring.OVER_BUDGET_MAX", math.inf)
    script = tmp_path / "train.py"
    script.write_text(
        "import torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))\n"
        "optimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
        "while True:\n"
        "    model(torch.ones(2, 8)).sum().backward()\n"
        "    optimizer.step()\n"
    )
    watchdog = Treatment("recommended", "recommended", load_profile("recommended"))
    request = CostRequest(
        (watchdog, watchdog), PLAIN, (Case("program", "train.py"),), budget_s=3.0, width=0.0,
        program=Workload("train.py", kind="script", target=str(script)), runs_dir=tmp_path / "runs",
    )  # fmt: skip
    heard = Interrupts(number)
    report = measure(request, heard)
    assert report.interrupted
    (found,) = report.comparisons  # the second is not begun
    assert found.estimate is not None
    assert found.estimate.launches == 2
    assert any(said.startswith("guard progress_watchdog: timeout=450s") for said in found.proofs[1])
    assert not any("guard" in said for said in found.proofs[0])


@pytest.mark.parametrize(
    ("call_s", "launch_s", "calls"), [(1e-5, 2.0, 4000), (0.02, 2.0, 8), (0.05, 2.0, 4), (3.0, 2.0, 1)]
)
def test_a_block_is_some_time_long_and_some_steps(call_s: float, launch_s: float, calls: int) -> None:
    assert block_calls(call_s, launch_s) == calls


def test_a_guard_that_has_no_effect_is_no_figure() -> None:
    census = Treatment("guard:census", "census", Profile("c", guards=(Census(),)))
    said = ("guard census: not applicable here",)
    assert without_effect(census, PLAIN, said) == list(said)
    assert without_effect(census, PLAIN, ("guard census: wait=300s",)) == []
    assert without_effect(census, census, said) == []
    both = Treatment("both", "both", Profile("b", guards=(Census(), ProgressWatchdog())))
    assert without_effect(both, PLAIN, (*said, "guard progress_watchdog: timeout=450s")) == []


def test_each_side_has_its_own_proofs_also_in_the_same_ranks() -> None:
    both = Prepared(("OMP_NUM_THREADS=1: ...",), sides=((), ("serialised-waits",)))
    assert of_either_side([both]) == (
        ("OMP_NUM_THREADS=1: ...",), ("OMP_NUM_THREADS=1: ...", "serialised-waits"),
    )  # fmt: skip
    assert of_either_side([Prepared(("a",)), Prepared(("b",), sides=(("t",),))]) == (("a",), ("b", "t"))


def test_a_server_that_does_not_come_up_is_one_comparison_without_a_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PYTHONMALLOC=nonsense keeps Python itself from starting; the others are measured all the same."""

    def refuse(one: object) -> None:
        raise LaunchFailed("the fork server did not come up")

    monkeypatch.setattr("chaoskit.cost.measuring._One._load", refuse)
    report = measure(CostRequest((BARRIERS, SERIALISED), PLAIN, (DDP,), runs_dir=tmp_path))
    assert [one.problem for one in report.comparisons] == ["the fork server did not come up"] * 2
    assert [one.estimate for one in report.comparisons] == [None, None]


def test_where_a_setting_can_be_compared() -> None:
    """Same ranks for what the program does and what a process group is given; else sets of ranks."""
    blocking = variable("TORCH_NCCL_BLOCKING_WAIT", "1")
    assert scope_of(SERIALISED, PLAIN, DDP) == "ranks"
    assert scope_of(blocking, PLAIN, DDP) == "ranks"
    assert scope_of(variable("TORCH_FR_BUFFER_SIZE", "0"), PLAIN, DDP) == "process"
    assert scope_of(Treatment("r", "r", load_profile("recommended")), PLAIN, DDP) == "process"
    assert scope_of(blocking, PLAIN, Case("program", "train.py")) == "process"
