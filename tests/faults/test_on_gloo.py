"""Each fault does to real gloo ranks what its documentation says, without any guard."""

from __future__ import annotations

import os
import signal
import time

import pytest
from faults.hurry import hurry
from forked_ranks import Run, make_plan, run_arm

from chaoskit.faults.cast import Cast
from chaoskit.faults.environment import Environment
from chaoskit.faults.extra import Extra
from chaoskit.faults.family import Moment
from chaoskit.faults.hold_gil import HoldGil
from chaoskit.faults.kill import Kill
from chaoskit.faults.leave import Leave
from chaoskit.faults.memory_cgroup import MemoryCgroup, memory_root
from chaoskit.faults.memory_limit import MemoryLimit
from chaoskit.faults.oom import Oom
from chaoskit.faults.port_taken import PortTaken
from chaoskit.faults.raise_ import Raise
from chaoskit.faults.reshape import Reshape
from chaoskit.faults.sigterm import Sigterm
from chaoskit.faults.skip import Skip
from chaoskit.faults.slow import Slow
from chaoskit.faults.stall import Stall
from chaoskit.faults.stop import Stop
from chaoskit.faults.swap import Swap
from chaoskit.faults.wrong_group import WrongGroup
from chaoskit.guards.timeouts import Timeouts
from chaoskit.history import Entered, GuardArmed, Injected, OpFailed, Raised, Reported, Stepped
from chaoskit.model import Phase, Profile, Trigger

pytestmark = pytest.mark.timeout(300)
AT = Trigger("collective", op="all_reduce", nth=8)
DURING = Trigger("collective", op="all_reduce", nth=8, phase=Phase.DURING)
LAUNCH = Trigger("launch")
T = 1.0
SHORT = Profile("short", guards=(Timeouts(T, T, T),))
"""Only where no process group is to be formed: a loaded machine takes longer than that."""
PATIENT = Profile("patient", guards=(Timeouts(30.0, 30.0, 30.0),))


def category(run: Run, slot: int) -> str:
    return run.of(Raised, slot)[0].category


def last(run: Run, slot: int) -> tuple[str, int]:
    entry = run.of(Entered, slot)[-1]
    return entry.op, entry.nth


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGTERM"])
def test_kill(name: str) -> None:
    run = run_arm((Kill((1,), name), AT), ranks=2)
    assert run.exit_codes == {0: 1, 1: -signal.Signals[name]}
    assert category(run, 0) == "peer_lost"
    assert not run.of(Raised, 1)


def test_raise() -> None:
    run = run_arm((Raise((1,), "OSError: [Errno 28] No space left on device"), AT), ranks=2)
    assert run.exit_codes == {0: 1, 1: 1}
    assert (category(run, 0), category(run, 1)) == ("peer_lost", "own")
    assert last(run, 1) == ("barrier", 7)


def test_raise_comes_out_of_ddps_backward() -> None:
    run = run_arm((Raise((1,), "ValueError: bad"), AT), ranks=2, workload="ddp-train")
    assert run.exit_codes == {0: 1, 1: 1}
    assert run.of(Raised, 1)[0].type == "ValueError"
    assert "backward()" in run.output[1]


def test_stop() -> None:
    run = run_arm(hurry(AT, T), (Stop((1,)), AT), ranks=2, rest_s=2.5)
    assert run.exit_codes == {0: 1, 1: None}
    assert run.stopped == {1}
    assert category(run, 0) == "timeout"


def test_leave() -> None:
    run = run_arm((Leave((1,)), AT), ranks=2)
    assert run.exit_codes == {0: 1, 1: 0}
    assert not run.of(Reported)


def test_sigterm_with_a_flag_is_swallowed_inside_the_collective() -> None:
    run = run_arm((Sigterm((1,)), DURING), ranks=2)
    assert run.exit_codes == {0: 0, 1: 0}
    assert len(run.of(Reported)) == 2


def test_sigterm_ends_no_rank_that_waits_for_a_lost_peer() -> None:
    run = run_arm((Stop((0,)), AT), (Sigterm((1,)), AT), ranks=2, rest_s=2)
    assert run.exit_codes == {0: None, 1: None}
    assert len(run.of(Injected)) == 2


def test_sigterm_without_a_handler_ends_the_rank() -> None:
    run = run_arm((Sigterm((1,), "none"), DURING), ranks=2)
    assert run.exit_codes == {0: 1, 1: -15}
    assert last(run, 1) == ("all_reduce", 8)


def test_hold_gil_stops_python_and_no_signal_shortens_it() -> None:
    before = signal.signal(signal.SIGALRM, lambda *_: handled.append(time.monotonic()))
    handled: list[float] = []
    signal.setitimer(signal.ITIMER_REAL, 0.7)
    start = time.monotonic()
    try:
        HoldGil((0,), 1.0).fire(Moment(0, 1, 0))
    finally:
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - start >= 1.0
    assert not [at for at in handled if start < at < start + 1.0]  # before: the machine was that slow
    assert handled


def test_hold_gil_in_a_rank() -> None:
    run = run_arm((HoldGil((1,), 0.5), AT), ranks=2)
    assert run.exit_codes == {0: 0, 1: 0}
    (injected,) = run.of(Injected)
    (entry,) = [e for e in run.of(Entered, 1) if (e.op, e.nth) == ("all_reduce", 8)]
    assert entry.t_s - injected.t_s >= 0.5


def test_stall_and_slow() -> None:
    run = run_arm((Stall((1,), 0.3), Trigger("step", step=4)), (Slow((0,), 0.03), AT), ranks=2)
    assert run.exit_codes == {0: 0, 1: 0}
    times = {e.step: e.t_s for e in run.of(Stepped, 1)}
    assert times[5] - times[4] >= 0.3
    slow = {e.step: e.t_s for e in run.of(Stepped, 0)}
    assert all(slow[n + 1] - slow[n] >= 0.03 for n in range(8, 20))


def test_oom_that_nobody_catches() -> None:
    run = run_arm((Oom((1,)), AT), ranks=2)
    assert run.exit_codes == {0: 1, 1: 1}
    assert (category(run, 0), category(run, 1)) == ("peer_lost", "out_of_memory")
    assert run.of(Raised, 1)[0].type == "OutOfMemoryError"


def test_oom_with_the_copied_handler() -> None:
    run = run_arm((Oom((1,), "destroy-and-exit"), AT), ranks=2)
    assert run.exit_codes == {0: 1, 1: 1}
    assert not run.of(Raised, 1)


def test_oom_with_a_handler_that_stays() -> None:
    run = run_arm(hurry(AT, T), (Oom((1,), "keep-alive"), AT), ranks=2, rest_s=3)
    assert run.exit_codes == {0: 1, 1: None}
    assert category(run, 0) == "timeout"
    assert "out of memory" in run.output[1]


def test_memory_limit() -> None:
    run = run_arm((MemoryLimit((1,)), AT), ranks=2)
    assert run.exit_codes == {0: 1, 1: 1}
    (raised,) = run.of(Raised, 1)
    assert (raised.type, raised.category) == ("RuntimeError", "out_of_memory")
    assert "DefaultCPUAllocator: can't allocate memory" in raised.message


@pytest.mark.skipif(memory_root() is None, reason="no memory cgroup can be made here")
def test_memory_cgroup() -> None:
    root = memory_root()
    assert root is not None
    run = run_arm((MemoryCgroup((1,)), AT), ranks=2)
    assert run.exit_codes == {0: 1, 1: -9}
    assert not run.of(Raised, 1)
    assert not list(root.glob("chaoskit-*"))


@pytest.mark.skipif(memory_root() is None, reason="no memory cgroup can be made here")
def test_memory_cgroup_counts_the_kernels_kills() -> None:
    fault = MemoryCgroup((0,), 8 << 20)
    made = fault.prepare(f"count-{os.getpid()}")
    try:
        assert made.oom_kills() == 0
        pid = os.fork()
        if pid == 0:
            try:
                fault.fire(Moment(0, 1, 0))
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -9
        assert made.oom_kills() == 1
    finally:
        made()


@pytest.mark.parametrize(
    "fault", [Environment("all", (("WORLD_SIZE", "3"),)), Environment((1,), (("RANK", "0"),))]
)
def test_environment(fault: Environment) -> None:
    run = run_arm((fault, LAUNCH), ranks=2, profile=SHORT, gated=False, rest_s=8)
    assert all(run.exit_codes.values())
    assert {e.category for e in run.of(Raised)} <= {"timeout", "peer_lost", "configuration"}


def test_environment_with_an_interface_that_is_not_there() -> None:
    fault = Environment((1,), (("GLOO_SOCKET_IFNAME", "nosuch0"),))
    patient = Profile("patient", guards=(Timeouts(6.0, 6.0, 6.0),))  # rank 0 waits for as long
    run = run_arm((fault, LAUNCH), ranks=2, profile=patient, gated=False, rest_s=15)
    assert all(run.exit_codes.values())
    assert category(run, 1) == "configuration"
    assert category(run, 0) in {"timeout", "peer_lost"}


def test_environment_with_a_smaller_world() -> None:
    stays = (Stall((0,)), Trigger("step", step=1))  # with its store, until rank 2 has come to it
    run = run_arm((Environment("all", (("WORLD_SIZE", "2"),)), LAUNCH), stays, ranks=3, rest_s=3)
    assert run.exit_codes[2] == 1
    assert category(run, 2) == "configuration"


def test_port_taken() -> None:
    run = run_arm((PortTaken(), LAUNCH), ranks=2, profile=SHORT, gated=False, rest_s=3)
    assert run.exit_codes[0] == 1
    assert category(run, 0) == "configuration"
    assert "EADDRINUSE" in run.of(Raised, 0)[0].message
    assert run.exit_codes[1] is None  # the stranger never answers, and torch's connect ignores its timeout


@pytest.mark.parametrize("fault", [Skip((1,)), Swap((1,))])
def test_skip_and_swap_leave_the_ranks_in_different_operations(fault: Skip | Swap) -> None:
    run = run_arm(hurry(AT), (fault, AT), ranks=2, rest_s=8)
    assert run.exit_codes == {0: 1, 1: 1}
    assert (last(run, 0), last(run, 1)) == (("all_reduce", 8), ("broadcast", 8))
    # Whoever times out first is the other's lost peer.
    assert "timeout" in {category(run, 0), category(run, 1)} <= {"timeout", "peer_lost"}


def test_extra_waits_in_an_operation_that_the_others_do_not_call() -> None:
    run = run_arm(hurry(AT), (Extra((1,)), AT), ranks=3, rest_s=8)
    assert all(run.exit_codes.values())
    assert last(run, 1) == ("all_reduce", 9)
    assert {last(run, slot)[1] for slot in (0, 2)} == {8}
    assert run.of(OpFailed, 1)


def test_the_wrong_group_waits_where_nobody_comes() -> None:
    run = run_arm(hurry(AT), (WrongGroup((1,), "metrics"), AT), ranks=3, workload="ring-p2p", rest_s=8)
    assert all(run.exit_codes.values())
    ends = {e.slot: (e.op, e.group, e.nth) for e in run.of(Entered) if e.op == "all_reduce"}
    assert ends == {slot: ("all_reduce", "metrics" if slot == 1 else "default", 8) for slot in range(3)}


def test_the_wrong_group_says_so_where_there_is_no_other() -> None:
    run = run_arm((WrongGroup((1,)), AT), ranks=2, rest_s=8)
    assert "this rank is in no other group" in run.of(Raised, 1)[0].message


@pytest.mark.parametrize(
    ("fault", "numel"), [(Reshape((1,), factor=0.5), "512"), (Reshape((1,), 2048), "2048")]
)
def test_reshape(fault: Reshape, numel: str) -> None:
    run = run_arm(hurry(AT), (fault, AT), ranks=2, rest_s=8)
    assert any(run.exit_codes.values())
    shapes = {e.slot: (e.shape, e.fingerprint) for e in run.of(Entered) if (e.op, e.nth) == ("all_reduce", 8)}
    assert (shapes[0][0], shapes[1][0]) == ("1024", numel)
    assert shapes[0][1] != shapes[1][1]


@pytest.mark.parametrize("workload", ["all-reduce-loop", "ddp-train"])
def test_cast_makes_garbage_in_silence(workload: str) -> None:
    run = run_arm((Cast((1,), "int32"), AT), ranks=2, workload=workload)
    assert run.exit_codes == {0: 0, 1: 0}
    expected = make_plan(ranks=2, workload=workload).expected_result
    assert expected is not None
    assert all(not abs(e.value - expected) <= 1e-4 * expected for e in run.of(Reported))
    dtypes = {e.slot: e.dtype for e in run.of(Entered) if (e.op, e.nth) == ("all_reduce", 8)}
    assert dtypes == {0: "float32", 1: "int32"}


def test_skip_in_ddp_is_seen_in_the_result_or_hangs() -> None:
    run = run_arm(hurry(AT), (Skip((1,)), AT), ranks=2, workload="ddp-train", profile=PATIENT, rest_s=8)
    assert all(run.exit_codes.values())
    assert run.of(GuardArmed)
