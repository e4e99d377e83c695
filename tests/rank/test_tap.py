"""Faults fire exactly where the plan says, and what is recorded is what the rank really issued."""

from __future__ import annotations

import pytest
from forked_ranks import Run, run_arm

from chaoskit.faults.extra import Extra
from chaoskit.faults.kill import Kill
from chaoskit.faults.raise_ import Raise
from chaoskit.faults.skip import Skip
from chaoskit.faults.slow import Slow
from chaoskit.faults.stall import Stall
from chaoskit.faults.stop import Stop
from chaoskit.faults.swap import Swap
from chaoskit.history import Completed, Entered, Held, Injected, OpFailed, Raised, Reported, Stepped
from chaoskit.model import Phase, Trigger

pytestmark = pytest.mark.timeout(300)


def at(
    op: str = "all_reduce", nth: int = 8, phase: str = "before", group: str = "default", step: int = 0
) -> Trigger:
    return Trigger("collective", op=op, nth=nth, phase=Phase(phase), group=group, step=step)


def entered(run: Run, slot: int) -> list[tuple[str, int]]:
    return [(e.op, e.nth) for e in run.of(Entered, slot)]


def moments(run: Run, op: str, nth: int, group: str = "default") -> dict[int, float]:
    return {e.slot: e.t_s for e in run.of(Entered) if (e.op, e.nth, e.group) == (op, nth, group)}


def test_a_healthy_rank_records_every_operation_with_place_and_step() -> None:
    run = run_arm(ranks=2, settings={"steps": 3})
    assert run.exit_codes == {0: 0, 1: 0}
    for slot in (0, 1):
        wanted = [("init", 1)] + [(op, n) for n in (1, 2, 3) for op in ("all_reduce", "broadcast", "barrier")]
        assert entered(run, slot) == wanted
        assert [(e.op, e.nth) for e in run.of(Completed, slot)] == wanted
        assert [e.step for e in run.of(Entered, slot)] == [1, 1, 1, 1, 2, 2, 2, 3, 3, 3]
        assert [e.seq for e in run.of(Entered, slot)] == list(range(1, 11))
        assert [e.step for e in run.of(Stepped, slot)] == [1, 2, 3]
    first = run.of(Entered, 0)[1]
    assert first.site.rpartition(":")[0].endswith("workloads/all_reduce_loop.py")
    assert (first.shape, first.dtype, first.members) == ("1024", "float32", (0, 1))
    assert first.fingerprint == run.of(Entered, 1)[1].fingerprint != 0
    assert not run.of(Injected)


@pytest.mark.parametrize(
    ("settings", "when"),
    [
        ({"ranks": 3}, at(phase="during")),
        ({"ranks": 2}, at(phase="during")),  # the only peer is the holder
        ({"ranks": 3, "workload": "ddp-train"}, at(phase="during")),
        ({"ranks": 3, "workload": "ddp-train"}, at(phase="during", step=5, nth=2)),
        ({"ranks": 4, "workload": "subgroups"}, at(phase="during", group="left", nth=5)),
    ],
)
def test_during_is_between_the_submission_and_the_last_entry(
    settings: dict[str, object], when: Trigger
) -> None:
    run = run_arm((Kill((1,)), when), **settings)
    (injected,) = run.of(Injected)
    assert (injected.slot, injected.submitted, injected.phase) == (1, True, "during")
    nth = injected.nth
    if not when.step:
        assert nth == when.nth
    times = moments(run, "all_reduce", nth, when.group)
    assert times[1] < injected.t_s < times[0]  # target, fault, holder
    members = {0, 1} if when.group == "left" else set(range(len(run.exit_codes)))
    assert {e.slot for e in run.of(Held)} == {0}
    assert not [e for e in run.of(Completed) if (e.op, e.nth, e.group) == ("all_reduce", nth, when.group)]
    assert run.exit_codes[1] == -9
    assert {s for s in run.exit_codes if run.exit_codes[s] == 1} == set(run.exit_codes) - {1}
    assert times.keys() == members
    if when.step:
        within = [e for e in run.of(Entered, 1) if e.op == "all_reduce" and e.step == when.step]
        assert [e.nth for e in within].index(nth) == when.nth - 1


def test_during_with_a_stopped_target() -> None:
    run = run_arm((Stop((2,)), at(phase="during")), ranks=3, rest_s=1.5)
    (injected,) = run.of(Injected)
    times = moments(run, "all_reduce", 8)
    assert times[2] < injected.t_s < times[0]
    assert run.stopped == {2}
    assert set(run.exit_codes.values()) == {None}  # they wait for it
    assert not [e for e in run.of(Completed) if (e.op, e.nth) == ("all_reduce", 8)]


def test_during_with_an_exception_leaves_the_operation_incomplete() -> None:
    run = run_arm((Raise((1,), "OSError: disk full"), at(phase="during")), ranks=3)
    (injected,) = run.of(Injected)
    assert moments(run, "all_reduce", 8)[0] > injected.t_s
    assert not [e for e in run.of(Completed) if (e.op, e.nth) == ("all_reduce", 8)]
    assert not run.of(OpFailed, 1)  # its own exception is none of the operation's
    assert run.of(Raised, 1)[0].type == "OSError"


def test_a_blocking_fault_releases_the_holder_at_once() -> None:
    run = run_arm((Stall((1,), 2.0), at(phase="during")), ranks=2)
    _, released = run.of(Held, 0)
    (stalled,) = [e for e in run.of(Completed, 1) if (e.op, e.nth) == ("all_reduce", 8)]
    assert released.t_s < stalled.t_s
    assert run.exit_codes == {0: 0, 1: 0}


def test_after_fires_once_the_operation_is_complete() -> None:
    run = run_arm((Kill((1,)), at(phase="after")), ranks=2)
    (injected,) = run.of(Injected)
    completed = [e for e in run.of(Completed, 1) if (e.op, e.nth) == ("all_reduce", 8)]
    assert completed[0].t_s <= injected.t_s
    assert entered(run, 1)[-1] == ("all_reduce", 8)
    assert not injected.submitted


def test_a_trigger_that_is_never_reached_leaves_no_injection() -> None:
    too_late, not_called, no_step = at(nth=21), at(op="reduce", phase="during"), Trigger("step", step=99)
    run = run_arm((Kill((1,)), too_late), (Kill((0,)), not_called), (Kill((1,)), no_step), ranks=2)
    assert run.exit_codes == {0: 0, 1: 0}
    assert not run.of(Injected)


def test_a_skipped_operation_is_never_entered_and_the_next_has_its_number() -> None:
    run = run_arm((Skip((1,)), at(op="barrier", nth=20)), ranks=2)
    assert ("barrier", 20) in entered(run, 0)
    assert ("barrier", 20) not in entered(run, 1)
    assert run.of(Injected)[0].nth == 20
    shifted = run_arm((Skip((1,)), at(nth=19)), (Kill((1,)), at(nth=20)), ranks=2, rest_s=2)
    fired = shifted.of(Injected, 1)
    assert [e.nth for e in fired] == [19]  # it waits in the broadcast: its own twentieth never comes
    assert entered(shifted, 1)[-1] == ("broadcast", 19)


def test_an_extra_operation_is_entered_once_more() -> None:
    run = run_arm((Extra((1,)), at(op="barrier", nth=20)), ranks=2)
    assert entered(run, 1)[-2:] == [("barrier", 20), ("barrier", 21)]
    assert ("barrier", 21) not in entered(run, 0)
    (first,) = [e for e in run.of(Completed, 1) if (e.op, e.nth) == ("barrier", 20)]
    (second,) = [e for e in run.of(Entered, 1) if (e.op, e.nth) == ("barrier", 21)]
    assert first.t_s <= second.t_s
    assert second.site.rpartition(":")[0].endswith("all_reduce_loop.py")


def test_swapped_operations_are_recorded_in_the_order_of_issue() -> None:
    # In a world of one nothing waits, so both are seen.
    run = run_arm((Swap((0,)), at(nth=2)), ranks=1, settings={"steps": 3})
    order = [e for e in entered(run, 0) if e[1] == 2]
    assert order == [("broadcast", 2), ("all_reduce", 2), ("barrier", 2)]
    assert run.exit_codes == {0: 0}


def test_a_lasting_fault_is_said_once() -> None:
    run = run_arm((Slow((1,), 0.002), at(nth=3)), ranks=2)
    assert [e.nth for e in run.of(Injected)] == [3]
    assert run.exit_codes == {0: 0, 1: 0}


@pytest.mark.timeout(300)
def test_steps_calls_and_points_in_time() -> None:
    run = run_arm((Raise((1,), "ValueError: bad"), Trigger("step", step=5)), ranks=2)
    assert run.of(Stepped, 1)[-1].step == 5
    assert run.of(Raised, 1)[0].type == "ValueError"
    run = run_arm((Kill((0,)), Trigger("call", call="torch.save", nth=2)), ranks=2, workload="ddp-train")
    assert run.exit_codes == {0: -9, 1: 1}
    assert run.of(Stepped, 0)[-1].step == 10
    long = {"steps": 2000, "step_s": 0.01}
    run = run_arm((Raise((1,), "ValueError: bad"), Trigger("after", after_s=3.0)), ranks=2, settings=long)
    assert run.exit_codes[1] == 1
    assert run.of(Raised, 1)[0].site.rpartition(":")[0].endswith("all_reduce_loop.py")
    run = run_arm((Kill((1,)), Trigger("init")), ranks=2, rest_s=1)
    assert run.exit_codes[1] == -9
    assert not run.of(Entered, 1)


def test_a_point_in_time_comes_also_inside_a_collective() -> None:
    run = run_arm(
        (Stall((0,), "forever"), at()), (Kill((1,)), Trigger("after", after_s=6.0)), ranks=2, rest_s=8
    )
    assert run.exit_codes[1] == -9
    assert entered(run, 1)[-1] == ("all_reduce", 8)


def test_two_faults_fire_at_their_own_counts() -> None:
    run = run_arm((Slow((0,), 0.001), at(nth=2)), (Kill((1,)), at(op="broadcast", nth=4)), ranks=2)
    assert [(e.slot, e.index, e.op, e.nth) for e in run.of(Injected)] == [
        (0, 0, "all_reduce", 2), (1, 1, "broadcast", 4),
    ]  # fmt: skip
    assert not run.of(Reported)
    assert len(run.doorbell) == 2 + len(run.of(Raised))
