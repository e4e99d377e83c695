"""A verdict from a plan and a history: every way in which a pass would not have been earned."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import ClassVar

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from histories import Story, hung
from hypothesis import given
from hypothesis import strategies as st
from plans import HARDENED, Belt, Kill, Stall, plan_of

from chaoskit.history import (
    Entered,
    GuardArmed,
    GuardFired,
    Held,
    History,
    Identity,
    Interrupted,
    Leftover,
    Malfunction,
    RunDelay,
    Sampled,
)
from chaoskit.judge import contract
from chaoskit.judge.job import Job
from chaoskit.model import (
    Contract,
    Culprit,
    Fault,
    Outcome,
    Phase,
    Plan,
    Profile,
    RankPlan,
    Status,
    Verdict,
)
from chaoskit.network import Network


def killed(story: Story | None = None) -> Story:
    """Rank 1 is killed before its second all_reduce; the others lose it and end 1."""
    story = story or Story()
    story.everyone("init", "all_reduce")
    story.inject(1, op="all_reduce", nth=2)
    story.end(1, -9)
    for slot in (0, 2, 3):
        story.enter(slot, "all_reduce")
        story.victim(slot)
    return story


def verdict(plan: Plan, story: Story) -> Verdict:
    return contract.judge(plan, story.history)


def test_a_kept_contract_passes_with_latency_culprit_and_victims() -> None:
    found = verdict(plan_of(Kill()), killed())
    assert (found.status, found.outcome) == (Status.PASS, Outcome.FAILED)
    assert found.culprits == (Culprit("rank", "1"),)
    assert found.victims == (0, 2, 3)
    assert found.latency_s is not None and 0 < found.latency_s < 0.1
    assert found.bites is False


def test_a_fault_that_never_fired_is_inconclusive_and_says_how_far_it_got() -> None:
    story = Story()
    story.everyone("init", "all_reduce")
    story.finish(0, 1, 2, 3)
    found = verdict(plan_of(Kill()), story)
    assert (found.status, found.outcome) == (Status.INCONCLUSIVE, Outcome.NOT_INJECTED)
    assert "kill on rank 1 never fired" in found.reason and "all_reduce 1" in found.reason


def test_late_fails() -> None:
    story = killed()
    plan = plan_of(Kill(), bound_s=0.001)
    found = verdict(plan, story)
    assert found.status is Status.FAIL and "bound" in found.reason


def test_the_wrong_culprit_fails() -> None:
    wrong = dataclasses.replace(HARDENED, culprits=(Culprit("rank", "2"),))
    found = verdict(plan_of(Kill(), contract=wrong), killed())
    assert found.status is Status.FAIL and "culprit expected rank 2, found rank 1" in found.reason


def test_falsifying_the_plans_ranks_does_not_change_the_culprit() -> None:
    for target in range(4):
        found = verdict(plan_of(Stall(rank=(target,))), killed())
        assert found.culprits == (Culprit("rank", "1"),)


def test_hung_is_a_broken_contract_and_bites() -> None:
    found = verdict(plan_of(Stall()), hung())
    assert (found.status, found.outcome, found.bites) == (Status.FAIL, Outcome.HUNG, True)
    assert found.latency_s is None


def test_alive_and_moving_is_overdue_and_inconclusive() -> None:
    story = Story()
    story.everyone("init", "all_reduce")
    story.inject(1, fault="stall")
    story.still(1, moving=True)
    for slot in (0, 2, 3):
        story.enter(slot, "all_reduce")
    story.still(0, 2, 3)
    story.deadline(0, 1, 2, 3)
    found = verdict(plan_of(Stall()), story)
    assert (found.status, found.outcome) == (Status.INCONCLUSIVE, Outcome.OVERDUE)


def test_too_few_samples_never_give_hung() -> None:
    story = Story()
    story.everyone("init")
    story.inject(1, fault="stall")
    story.deadline(0, 1, 2, 3)
    assert verdict(plan_of(Stall()), story).outcome is Outcome.OVERDUE


def test_wrong_results_with_exit_0_are_corrupted() -> None:
    story = Story()
    story.everyone("init", "all_reduce")
    story.inject(1)
    story.finish(0, 1, 2, 3, result=8.0)
    found = verdict(plan_of(Stall()), story)
    assert (found.status, found.outcome) == (Status.FAIL, Outcome.CORRUPTED)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -7.0])
def test_strange_results_are_wrong(value: float) -> None:
    story = Story()
    story.everyone("init")
    story.inject(1)
    story.finish(0, 1, 2, 3, result=value)
    assert verdict(plan_of(Stall()), story).outcome is Outcome.CORRUPTED


def test_exit_0_without_finishing_is_masked() -> None:
    story = Story()
    story.everyone("init")
    story.inject(1)
    story.finish(0, 2, 3)
    story.end(1, 0)
    assert verdict(plan_of(Stall()), story).outcome is Outcome.MASKED


def test_finished_without_a_result_that_is_known_is_masked() -> None:
    story = Story()
    story.everyone("init")
    story.inject(1)
    story.finish(0, 1, 2, 3)
    story.events = [e for e in story.events if not (type(e).__name__ == "Reported" and e.slot == 2)]
    assert verdict(plan_of(Stall()), story).outcome is Outcome.MASKED


def test_a_death_that_nothing_ordered_is_inconclusive() -> None:
    found = verdict(plan_of(Stall()), killed())
    assert found.status is Status.INCONCLUSIVE and "nothing in this arm ordered" in found.reason


def test_an_ordered_death_on_another_rank_is_inconclusive() -> None:
    found = verdict(plan_of(Kill(rank=(2,))), killed())
    assert found.status is Status.INCONCLUSIVE


def test_a_guards_own_signal_is_ordered() -> None:
    story = Story()
    story.everyone("init", "all_reduce")
    story.inject(1, fault="stall")
    story.end(1, -41)
    for slot in (0, 2, 3):
        story.enter(slot, "all_reduce")
        story.victim(slot)
    for slot in range(4):
        story.add(GuardArmed(100.0, slot, "belt"))
    plan = plan_of(Stall(), profile=Profile("p", guards=(Belt(),)))
    assert verdict(plan, story).status is Status.PASS


def test_a_guard_not_shown_in_effect_is_inconclusive() -> None:
    story = killed()
    story.add(GuardArmed(100.0, 0, "belt"))
    found = verdict(plan_of(Kill(), profile=Profile("p", guards=(Belt(),))), story)
    assert found.status is Status.INCONCLUSIVE and "ranks 1, 2, 3" in found.reason


def test_something_left_behind_breaks_every_contract() -> None:
    story = killed()
    story.add(Leftover(story.tick(), -1, 4242, "sleep 100"))
    found = verdict(plan_of(Kill()), story)
    assert found.status is Status.FAIL and "sleep 100 (pid 4242)" in found.reason


def test_failure_at_teardown_only_proves_nothing() -> None:
    story = Story()
    story.everyone("init")
    story.inject(1)
    story.finish(0, 1, 2)
    story.finish(3)
    story.events.pop()
    story.end(3, -6)
    plan = plan_of(Stall(), contract=Contract(Outcome.FAILED))
    assert verdict(plan, story).status is Status.INCONCLUSIVE


@pytest.mark.parametrize("event", [Interrupted(200.0, -1), Malfunction(200.0, -1, "the warden died")])
def test_an_arm_that_was_cut_short_is_inconclusive(event: object) -> None:
    story = killed()
    story.add(event)  # type: ignore[arg-type]
    assert verdict(plan_of(Kill()), story).status is Status.INCONCLUSIVE


def test_a_truncated_history_is_inconclusive() -> None:
    whole = killed().history
    for cut in range(len(whole.events) - 2):
        found = contract.judge(plan_of(Kill()), History(whole.events[:cut]))
        assert found.status is not Status.PASS


def during(submitted: bool = True, completed: bool = False, early: bool = False, held: bool = True) -> Story:
    story = Story()
    story.everyone("init", "all_reduce")
    for slot in (1, 2, 3):
        story.enter(slot, "all_reduce")
    if held:
        story.add(Held(story.tick(), 0, "all_reduce", "default", 2))
    if early:
        story.enter(0, "all_reduce")
    if completed:
        story.complete(2)
    story.inject(1, op="all_reduce", group="default", nth=2, phase="during", submitted=submitted)
    story.end(1, -9)
    if not early:
        story.enter(0, "all_reduce")
    for slot in (0, 2, 3):
        story.victim(slot)
    return story


def test_during_is_proved() -> None:
    assert verdict(plan_of(Kill(), phase=Phase.DURING), during()).status is Status.PASS


def test_during_is_proved_by_any_member_that_had_not_come_there() -> None:
    """The one to be held was ended by its launcher on its way there."""
    assert verdict(plan_of(Kill(), phase=Phase.DURING), during(held=False)).status is Status.PASS


@pytest.mark.parametrize(
    "flaw",
    [{"submitted": False}, {"completed": True}, {"early": True}, {"early": True, "held": False}],
    ids=" ".join,
)
def test_during_without_its_proof_is_inconclusive(flaw: dict[str, bool]) -> None:
    assert verdict(plan_of(Kill(), phase=Phase.DURING), during(**flaw)).status is Status.INCONCLUSIVE


def test_what_a_guard_says_counts_only_from_a_guard() -> None:
    plan = plan_of(Kill(), contract=dataclasses.replace(HARDENED, says="rank 1 is gone"))
    story = killed()
    assert verdict(plan, story).status is Status.FAIL
    story.add(GuardFired(story.tick(), 0, "fail_fast", 82, "lost a peer: rank 1 is gone"))
    assert verdict(plan, story).status is Status.PASS


def test_exit_codes_are_checked_by_rank() -> None:
    plan = plan_of(Kill(), contract=dataclasses.replace(HARDENED, exit_codes=((0, 1), (1, -9))))
    assert verdict(plan, killed()).status is Status.PASS
    plan = plan_of(Kill(), contract=dataclasses.replace(HARDENED, exit_codes=((0, 82),)))
    assert "rank 0 was to exit with 82, got 1" in verdict(plan, killed()).reason


def test_a_miss_smaller_than_the_wait_for_a_core_is_tried_again() -> None:
    story = killed()
    plan = plan_of(Kill(), bound_s=0.001)
    assert not contract.worth_another_try(plan, story.history, verdict(plan, story))
    story.add(RunDelay(story.tick(), 0, 0.5))
    assert contract.worth_another_try(plan, story.history, verdict(plan, story))


def test_a_miss_with_the_wrong_culprit_is_not_tried_again() -> None:
    story = killed()
    story.add(RunDelay(story.tick(), 0, 0.5))
    wrong = dataclasses.replace(HARDENED, culprits=(Culprit("rank", "2"),))
    plan = plan_of(Kill(), bound_s=0.001, contract=wrong)
    assert not contract.worth_another_try(plan, story.history, verdict(plan, story))


@given(st.data())
def test_no_history_whatever_raises_or_passes_without_an_injection(data: st.DataObject) -> None:
    """Any subset of the events of a real story, in any order, is judged without an exception."""
    events = list(during().history.events)
    chosen = data.draw(st.lists(st.sampled_from(events), max_size=40))
    found = contract.judge(plan_of(Kill(), phase=Phase.DURING), History.of(chosen))
    if not any(type(e).__name__ == "Injected" for e in chosen):
        assert found.status is not Status.PASS


def test_a_control_that_bites_only_by_lateness_under_load_is_tried_again() -> None:
    """Else a loaded machine would make a fault look as if it needed hardening."""
    story = killed()
    plan = plan_of(Kill(), arm="control", contract=Contract(Outcome.FAILED), bound_s=0.001)
    found = verdict(plan, story)
    assert found.status is Status.PASS and found.bites
    story.add(RunDelay(story.tick(), 0, 0.5))
    assert contract.worth_another_try(plan, story.history, found)


def test_a_limit_of_the_user_below_the_bound_says_nothing() -> None:
    """``--timeout 1s`` with a bound of 4 s is no reason to call a profile not held."""
    story = Story()
    story.everyone("init", "all_reduce")
    story.inject(1, fault="stall")
    for slot in (0, 2, 3):
        story.enter(slot, "all_reduce")
    story.still(0, 1, 2, 3)
    story.deadline(0, 1, 2, 3)
    cut = plan_of(Stall(), bound_s=4.0, deadline_s=1.0, timeout_s=1.0)
    assert verdict(cut, story).status is Status.INCONCLUSIVE
    assert verdict(cut, story).bites is None
    assert verdict(plan_of(Stall(), bound_s=0.5, deadline_s=1.0, timeout_s=1.0), story).status is Status.FAIL


def test_a_rank_that_computes_on_one_line_is_not_hung() -> None:
    story = Story()
    story.everyone("init")
    story.inject(1, fault="stall")
    for look in range(3):
        for slot in range(4):
            story.add(Sampled(story.tick(0.0), slot, "R", "1.1.1", 0.9 * look, "train.py:5"))
        story.tick(1.0)
    story.deadline(0, 1, 2, 3)
    assert verdict(plan_of(Stall()), story).outcome is Outcome.OVERDUE


@pytest.mark.parametrize("kind", ["Started", "Ended", "Entered"])
def test_a_history_with_a_gap_is_never_passed(kind: str) -> None:
    whole = killed().history
    for index, event in enumerate(whole.events):
        if type(event).__name__ == kind and not (
            kind == "Entered" and event is last_entry(whole, event.slot)
        ):
            kept = History((*whole.events[:index], *whole.events[index + 1 :]))
            assert contract.judge(plan_of(Kill()), kept).status is not Status.PASS


def last_entry(history: History, slot: int) -> Entered:
    return [e for e in history.all(Entered) if e.slot == slot][-1]


def test_a_profile_that_ends_a_healthy_job_before_its_harmless_fault_has_failed_it() -> None:
    story = Story()
    for slot in range(4):
        story.fired(slot, "progress_watchdog", 1)
        story.end(slot, 1)
    plan = plan_of(Stall(), healthy=True, contract=Contract(Outcome.COMPLETED))
    assert verdict(plan, story).outcome is Outcome.FAILED
    assert verdict(plan, story).status is Status.FAIL


def test_a_script_that_fails_without_a_message_before_the_fault_is_told() -> None:
    story = Story()
    story.everyone("init")
    story.raised(1, "own", "ValueError", "")
    for slot in range(4):
        story.end(slot, 1)
    found = verdict(plan_of(Kill()), story)
    assert found.outcome is Outcome.NOT_INJECTED
    assert "rank 1: an error without a message" in found.reason


# ---------------------------------------------------------------- faults that hit a whole host


@dataclasses.dataclass(frozen=True, slots=True)
class Crash(Kill):
    host_wide: ClassVar[bool] = True
    host: str = ""


HOSTS = ("hostA", "hostA", "hostB", "hostB")
BY_HOST = dataclasses.replace(HARDENED, within=None, culprits=(Culprit("host", "hostB"),))


def on_hosts(fault: Fault, store: str = "hostA") -> Plan:
    ranks = tuple(RankPlan(slot, (), host=host) for slot, host in enumerate(HOSTS))
    return plan_of(
        fault, ranks=ranks, network=Network((), store), contract=BY_HOST, hardened_contract=BY_HOST
    )


def crashed() -> Story:
    story = Story(hosts=HOSTS)
    story.everyone("init", "all_reduce")
    for slot in range(4):
        story.enter(slot, "all_reduce")
    story.inject(2)
    story.link("hostB", up=False)
    story.end(2, -9)
    story.end(3, -9)
    story.timed_out(0, 1)
    return story


@pytest.mark.parametrize("fault", [Crash((2,)), Crash((0,), "hostB"), Crash((0,), "store")])
def test_a_host_wide_fault_orders_the_death_of_all_ranks_on_the_host(fault: Crash) -> None:
    found = verdict(on_hosts(fault, store="hostB"), crashed())
    assert found.status is Status.PASS, found.reason
    assert found.culprits == (Culprit("host", "hostB"),)
    assert found.victims == (0, 1)


@pytest.mark.parametrize("fault", [Kill((2,)), Crash((0,)), Crash((2,), "hostA"), Crash((2,), "store")])
def test_deaths_elsewhere_stay_unordered(fault: Fault) -> None:
    found = verdict(on_hosts(fault), crashed())
    assert found.status is Status.INCONCLUSIVE and "nothing in this arm ordered" in found.reason


def test_ranks_behind_a_bad_interface_are_victims() -> None:
    story = Story(hosts=HOSTS)
    story.everyone("init")
    for slot in range(4):
        story.enter(slot, "all_reduce")
    story.inject(1)
    story.link("hostB", up=False)
    story.timed_out(0, 1, 2, 3)
    found = verdict(on_hosts(Stall()), story)
    assert found.culprits == (Culprit("nic", "hostB eth0"),) and found.victims == (0, 1, 2, 3)


def test_a_job_that_claims_a_rank_twice_ends_nonzero_by_either_process() -> None:
    story = Story(size=2)
    story.events = [
        dataclasses.replace(e, rank=0) if isinstance(e, Identity) else e for e in story.events
    ]  # two processes claim rank 0
    story.end(0, 80)
    story.end(1, 0)
    job = Job.of(History.of(story.events))
    promise = Contract(outcome=None, exit="nonzero")
    assert contract._exits(promise, job) == []
    assert contract._exits(dataclasses.replace(promise, exit="zero"), job) == ["the job did not end 0"]
