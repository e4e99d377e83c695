"""A rank starts as under a launcher and ends as Python would end."""

from __future__ import annotations

import pytest
from forked_ranks import make_plan, run_arm

from chaoskit.faults.environment import Environment
from chaoskit.faults.raise_ import Raise
from chaoskit.guards.timeouts import Timeouts
from chaoskit.history import Entered, Finished, GuardArmed, Identity, Injected, Malfunction, Raised, Reported
from chaoskit.model import Phase, Profile, Trigger

pytestmark = pytest.mark.timeout(300)
EARLY = Trigger("collective", op="all_reduce", nth=2)


def test_a_healthy_rank_says_who_it_is_what_it_got_and_that_it_is_done() -> None:
    run = run_arm(ranks=2)
    assert [(e.rank, e.local_rank, e.world_size) for e in run.of(Identity)] in (
        [(0, 0, 2), (1, 1, 2)], [(1, 1, 2), (0, 0, 2)],
    )  # fmt: skip
    expected = make_plan(ranks=2).expected_result
    assert {e.slot: e.value for e in run.of(Reported)} == {0: expected, 1: expected}
    assert len(run.of(Finished)) == 2
    assert run.exit_codes == {0: 0, 1: 0}
    assert run.output == {0: "", 1: ""}


def test_guards_are_armed_and_announced() -> None:
    run = run_arm(ranks=1, profile=Profile("p", guards=(Timeouts(3.0, 2.0, 3.0),)))
    assert {e.guard for e in run.of(GuardArmed)} == {"timeouts"}
    assert run.exit_codes == {0: 0}


def test_an_exception_is_shown_as_pythons_without_a_frame_of_ours() -> None:
    run = run_arm((Raise((0,), "OSError: disk full"), EARLY), ranks=1)
    (raised,) = run.of(Raised)
    assert (raised.type, raised.message, raised.category) == ("OSError", "disk full", "own")
    assert run.exit_codes == {0: 1}
    shown = run.output[0]
    assert "Traceback (most recent call last)" in shown
    assert shown.rstrip().endswith("OSError: disk full")
    assert "dist.all_reduce(tensor)" in shown
    assert raised.site.rpartition(":")[0].endswith("workloads/all_reduce_loop.py")
    for ours in ("chaoskit/rank", "chaoskit/faults", "chaoskit/intercept", "workloads/__init__"):
        assert ours not in shown
        assert not any(ours in line for line in raised.stack)


@pytest.mark.parametrize(("error", "code"), [("SystemExit: ", 1), ("KeyboardInterrupt: ", 130)])
def test_other_ways_out(error: str, code: int) -> None:
    run = run_arm((Raise((0,), error), EARLY), ranks=1)
    assert run.exit_codes == {0: code}
    assert not run.of(Finished)


def test_a_missing_variable_of_the_launcher_is_configuration() -> None:
    fault = Environment((0,), unset=("LOCAL_RANK",))
    run = run_arm((fault, Trigger("launch")), ranks=1)
    (raised,) = run.of(Raised)
    assert (raised.type, raised.category) == ("KeyError", "configuration")
    assert run.of(Identity)[0].local_rank == -1
    assert run.of(Injected)[0].fault == "environment"
    assert not run.of(Entered)


def test_what_is_wrong_before_the_script_is_a_malfunction_of_ours() -> None:
    when = Trigger("call", call="torch.no_such_function", phase=Phase.BEFORE)
    run = run_arm((Raise((0,)), when), ranks=1)
    (said,) = run.of(Malfunction)
    assert "no_such_function" in said.message
    assert run.exit_codes == {0: 70}
