"""Held has to be earned: the table of arms and what a scenario is then called."""

from __future__ import annotations

import dataclasses

import pytest

from chaoskit.judge.scenario_result import judge
from chaoskit.model import Outcome, Result, Status, Verdict

CONTROL = Verdict("s", "control", 1, 1, "gloo", "torch-defaults", Status.PASS, "", Outcome.HUNG, bites=True)
HARDENED = Verdict("s", "hardened", 1, 1, "gloo", "strict", Status.PASS, "", Outcome.FAILED, bites=False)


def but(verdict: Verdict, **changes: object) -> Verdict:
    return dataclasses.replace(verdict, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("verdicts", "result"),
    [
        ([CONTROL, HARDENED], Result.HELD),
        ([but(CONTROL, bites=False), HARDENED], Result.NOT_NEEDED),
        ([CONTROL, but(HARDENED, status=Status.FAIL)], Result.NOT_HELD),
        ([but(CONTROL, bites=False), but(HARDENED, status=Status.FAIL)], Result.NOT_HELD),
        ([HARDENED], Result.INCONCLUSIVE),
        ([CONTROL], Result.INCONCLUSIVE),
        ([], Result.INCONCLUSIVE),
        ([but(CONTROL, status=Status.INCONCLUSIVE), HARDENED], Result.INCONCLUSIVE),
        ([CONTROL, but(HARDENED, status=Status.INCONCLUSIVE)], Result.INCONCLUSIVE),
        ([but(CONTROL, status=Status.FAIL), HARDENED], Result.INCONCLUSIVE),
        ([but(CONTROL, status=Status.SKIPPED), but(HARDENED, status=Status.SKIPPED)], Result.SKIPPED),
        ([CONTROL, but(HARDENED, status=Status.FAIL), but(HARDENED, attempt=2)], Result.HELD),
        (
            [CONTROL, but(CONTROL, repeat=2, bites=False), HARDENED, but(HARDENED, repeat=2)],
            Result.INCONCLUSIVE,
        ),
    ],
)
def test_a_scenario(verdicts: list[Verdict], result: Result) -> None:
    assert judge("s", "gloo", False, verdicts).result is result


def test_a_healthy_twin_is_held_only_if_every_arm_completes() -> None:
    done = [but(v, outcome=Outcome.COMPLETED, bites=False) for v in (CONTROL, HARDENED)]
    assert judge("s", "gloo", True, done).result is Result.HELD
    assert judge("s", "gloo", True, [done[0], but(done[1], status=Status.FAIL)]).result is Result.NOT_HELD
    assert judge("s", "gloo", True, [but(done[0], status=Status.FAIL), done[1]]).result is Result.NOT_HELD


def test_a_healthy_control_alone_earns_nothing() -> None:
    done = but(CONTROL, outcome=Outcome.COMPLETED, bites=False)
    assert judge("s", "gloo", True, [done]).result is Result.INCONCLUSIVE


def test_a_fault_that_does_no_harm_is_not_charged_to_the_profile() -> None:
    control = but(CONTROL, status=Status.FAIL, outcome=Outcome.COMPLETED)
    hardened = but(HARDENED, status=Status.FAIL, outcome=Outcome.COMPLETED)
    assert judge("s", "gloo", False, [control, hardened]).result is Result.INCONCLUSIVE


def test_a_contract_of_a_job_that_completes_is_kept_or_not_whatever_harm_was_done() -> None:
    """A slow interface hurts nobody: what is promised is that it is told."""
    done = [
        but(v, outcome=Outcome.COMPLETED, status=Status.PASS, bites=v.arm == "control")
        for v in (CONTROL, HARDENED)
    ]
    silent = [done[0], but(done[1], status=Status.FAIL)]
    unhurt = [but(v, bites=False) for v in done]
    assert judge("s", "gloo", False, done).result is Result.INCONCLUSIVE
    assert judge("s", "gloo", False, done, completes=True).result is Result.HELD
    assert judge("s", "gloo", False, silent, completes=True).result is Result.NOT_HELD
    assert judge("s", "gloo", False, unhurt, completes=True).result is Result.NOT_NEEDED
