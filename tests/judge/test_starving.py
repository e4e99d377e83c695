"""A machine that is too busy: late by that alone is neither a fault that bites nor a guard that fails."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from histories import Story, hung
from plans import HARDENED, Kill, Stall, plan_of

from chaoskit.history import RunDelay, Sampled
from chaoskit.judge import contract
from chaoskit.model import Contract, Culprit, Outcome, Plan, Profile, Status, Verdict


def verdict(plan: Plan, story: Story) -> Verdict:
    return contract.judge(plan, story.history)


def starved(state: str = "R", cpu_s: float = 0.2, told_s: float | None = None) -> Story:
    """Rank 1 is killed; rank 0 loses it at once and needs 9 s to end. Three looks at it on its way."""
    story = killed_but_for(0)
    for look in range(3):
        story.add(Sampled(story.tick(1.0), 0, state, "1.1.1", cpu_s * look, "train.py:5"))
    story.tick(6.0)
    if told_s is not None:
        story.add(RunDelay(story.tick(), 0, told_s))
    story.end(0, 1)
    return story


def killed_but_for(slot: int) -> Story:
    story = Story()
    story.everyone("init", "all_reduce")
    story.inject(1, op="all_reduce", nth=2)
    story.end(1, -9)
    for victim in (0, 2, 3):
        story.enter(victim, "all_reduce")
        story.fail(victim)
        if victim != slot:
            story.end(victim, 1)
    return story


ARMS: list[dict[str, object]] = [
    {"arm": "control", "contract": Contract(Outcome.FAILED)},
    {"arm": "none", "contract": Contract(None)},
    {"arm": "hardened"},
    {"arm": "alone-sidecar", "launcher": "torchrun", "profile": Profile("alone (matrix)", file="")},
]


@pytest.mark.parametrize("arm", ARMS, ids=lambda arm: arm["arm"])
def test_a_slow_machine_is_never_taken_for_a_fault_that_bites_or_a_guard_that_fails(
    arm: dict[str, object],
) -> None:
    """Whatever the arm is called and whoever started its ranks."""
    plan, story = plan_of(Kill(), **arm), starved()
    found = verdict(plan, story)
    assert found.status is Status.INCONCLUSIVE and found.bites is None
    assert "rank 0 waited for a core" in found.reason
    assert contract.worth_another_try(plan, story.history, found)
    told = starved(told_s=8.5)
    found = verdict(plan, told)
    assert found.status is not Status.INCONCLUSIVE and found.bites
    assert contract.worth_another_try(plan, told.history, found)


@pytest.mark.parametrize(
    "story",
    [starved(state="S"), starved(cpu_s=0.9), starved(told_s=0.3)],
    ids=["sleeping", "computing", "told: shorter than the miss"],
)
@pytest.mark.parametrize("arm", ARMS, ids=lambda arm: arm["arm"])
def test_what_is_late_by_its_own_doing_stays_so(arm: dict[str, object], story: Story) -> None:
    plan = plan_of(Kill(), **arm)
    found = verdict(plan, story)
    assert found.bites and found.status is not Status.INCONCLUSIVE
    assert not contract.worth_another_try(plan, story.history, found)


def test_a_busy_machine_excuses_nothing_but_lateness() -> None:
    wrong = dataclasses.replace(HARDENED, culprits=(Culprit("rank", "2"),))
    plan, story = plan_of(Kill(), contract=wrong, hardened_contract=wrong), starved()
    found = verdict(plan, story)
    assert found.status is Status.FAIL and not contract.worth_another_try(plan, story.history, found)


def test_a_control_that_hangs_asleep_stays_one_that_bites() -> None:
    story = hung()
    plan = plan_of(Stall(), arm="control", contract=Contract(Outcome.HUNG))
    found = verdict(plan, story)
    assert (found.status, found.outcome, found.bites) == (Status.PASS, Outcome.HUNG, True)
    assert not contract.worth_another_try(plan, story.history, found)
