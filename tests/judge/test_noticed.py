"""What guards noticed and did nothing about: notes, the contract's `says`, and culprits only on request."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from histories import Story
from plans import Stall, plan_of

from chaoskit.judge import contract, noticed
from chaoskit.model import Contract, Culprit, Kind, Outcome, Plan, Status, Verdict

SLOW = "hostA to hostB over eth1: 9.2 Mbit/s, below min_rate"
REPORTED = Contract(Outcome.COMPLETED, says="below min_rate")
BLAMED = dataclasses.replace(REPORTED, culprits=(Culprit("nic", "hostB eth1"),), kind=Kind.TOO_SLOW)


def done(*messages: str, blames: tuple[str, ...] = ("nic hostB eth1",)) -> Story:
    story = Story(hosts=("hostA", "hostA", "hostB", "hostB"))
    story.inject(1)
    for message in messages:
        story.noticed(0, message, *blames)
    story.everyone("init", "all_reduce")
    story.finish(0, 1, 2, 3)
    return story


def plan(kept: Contract) -> Plan:
    return plan_of(Stall(), contract=kept, hardened_contract=kept)


def verdict(kept: Contract, story: Story) -> Verdict:
    return contract.judge(plan(kept), story.history)


def test_a_notice_is_what_the_contract_wants_said_and_is_noted() -> None:
    found = verdict(REPORTED, done(SLOW, SLOW))
    assert (found.status, found.outcome) == (Status.PASS, Outcome.COMPLETED)
    assert found.notes == (f"nic_check: {SLOW}",)
    assert found.culprits == () and found.kind is None
    silent = verdict(REPORTED, done())
    assert silent.status is Status.FAIL and "no guard said" in silent.reason and silent.bites


def test_culprits_of_a_job_that_went_well_only_where_the_contract_asks() -> None:
    found = verdict(BLAMED, done(SLOW))
    assert found.status is Status.PASS
    assert found.culprits == (Culprit("nic", "hostB eth1"),)
    assert found.victims == ()
    missed = verdict(BLAMED, done())
    assert missed.status is Status.FAIL and "found nobody" in missed.reason


def test_many_notices_are_counted() -> None:
    notes = noticed.notes(done(*(f"pair {n}" for n in range(9))).history)
    assert len(notes) == noticed.NOTES_MAX + 1 and notes[-1] == "5 more such notices"
    long = noticed.notes(done("x" * 5000).history)
    assert len(long[0]) < 300
