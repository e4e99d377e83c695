"""Every fault keeps the family's contract, and its documentation is true."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import textwrap
from typing import ClassVar

import pytest

from chaoskit.errors import BrokenPlugin, InvalidInput
from chaoskit.faults import REGISTRY, RankFault
from chaoskit.faults.cast import Cast
from chaoskit.faults.disk_full import DiskFull
from chaoskit.faults.environment import Environment
from chaoskit.faults.hold_gil import HoldGil
from chaoskit.faults.kill import Kill
from chaoskit.faults.kill_later import KillLater
from chaoskit.faults.leave import Leave
from chaoskit.faults.loader_worker_killed import LoaderWorkerKilled
from chaoskit.faults.loader_worker_stuck import LoaderWorkerStuck
from chaoskit.faults.memory_cgroup import MemoryCgroup
from chaoskit.faults.memory_limit import MemoryLimit
from chaoskit.faults.open_files import OpenFiles
from chaoskit.faults.port_taken import PortTaken
from chaoskit.faults.raise_ import Raise
from chaoskit.faults.reshape import Reshape
from chaoskit.faults.same_device import SameDevice
from chaoskit.faults.shm_full import ShmFull
from chaoskit.faults.slow import Slow
from chaoskit.faults.slow_filesystem import SlowFilesystem
from chaoskit.faults.stall import Stall
from chaoskit.faults.stuck_kernel import StuckKernel
from chaoskit.faults.stuck_thread import StuckThread
from chaoskit.model import Fault, RankSet, Span, Timeouts
from chaoskit.scenario import parse

HEAD = "name: example\nsummary: An example.\nworkload: all-reduce-loop\n"
ARMS = """\
arms:
  control: {profile: torch-defaults, expect: {outcome: hung}}
  hardened: {profile: strict, expect: {outcome: failed, within: 2s}}
"""
NAMES = [
    "cast", "clock", "cuda-oom", "device-assert", "disk-full", "end-of-data", "environment",
    "extra", "hold-gil", "host-crash",
    "host-freeze", "kill", "kill-later", "leave", "leftover", "link-down", "link-jitter", "link-slow",
    "loader-worker-killed", "loader-worker-stuck", "memory-cgroup", "memory-limit", "name-late", "nan",
    "one-way-loss", "only-port", "oom", "open-files", "partition", "port-taken", "preempt", "raise",
    "reshape", "same-device", "second-thread", "shm-full", "sigterm", "skip", "slow", "slow-filesystem",
    "stale-rendezvous", "stall", "stop", "stuck-kernel", "stuck-thread", "swap", "wrong-group",
]  # fmt: skip


def test_all_are_found() -> None:
    assert REGISTRY.names() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_each_says_what_it_is(name: str) -> None:
    cls = REGISTRY.get(name)
    assert cls is not None
    assert issubclass(cls, RankFault)
    doc = cls.__doc__ or ""
    assert f"- {name}:" in doc.partition("Example:")[2]
    assert next(f.name for f in dataclasses.fields(cls)) == "rank"
    for field in dataclasses.fields(cls):
        if field.name.endswith("_s"):
            assert "Span" in str(field.type), "a duration may follow a timeout"
    if cls.replaces_call:
        assert cls.triggers == {"collective"}
        assert cls.phases == {"before"}
    assert cls.name == name


@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_each_is_true(name: str) -> None:
    cls = REGISTRY.get(name)
    assert cls is not None
    example = textwrap.dedent((cls.__doc__ or "").partition("Example:\n")[2]).strip()
    hosts = "topology: {hosts: 4}\n" if cls.needs_hosts or cls.host_wide else ""
    text = f"{HEAD}{hosts}{example}\n{ARMS}"
    (injection,) = parse(text).injections
    assert type(injection.fault) is cls
    assert injection.when.kind in cls.triggers


def test_none_needs_torch_to_be_imported() -> None:
    code = (
        "import sys; from chaoskit.faults import REGISTRY; REGISTRY.names(); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Kill((1,), "SIGWINCH"), "signal"),
        (lambda: Kill((1,), "SIGSTOP"), "signal"),
        (lambda: Raise((1,), "NoSuchError: text"), "error"),
        (lambda: Raise((1,), "print: text"), "error"),
        (lambda: Leave((1,), 256), "code"),
        (lambda: HoldGil((1,), 0.0), "for"),
        (lambda: KillLater((1,), 0.0), "delay"),
        (lambda: StuckKernel((1,), Span(0.0)), "for"),
        (lambda: StuckThread((1,), "a" * 16), "thread"),
        (lambda: SameDevice((1,), 1), "another rank"),
        (lambda: SameDevice((1,), -1), "another rank"),
        (lambda: Stall((1,), Span(-1.0)), "for"),
        (lambda: Slow((1,), Span(0.0)), "by"),
        (lambda: MemoryLimit((1,), 10), "bytes"),
        (lambda: MemoryCgroup((1,), 10), "bytes"),
        (lambda: Environment((1,)), "nothing"),
        (lambda: Environment((1,), (("A=B", "c"),)), "name"),
        (lambda: Reshape((1,)), "numel"),
        (lambda: Reshape((1,), 4, 0.5), "numel"),
        (lambda: Reshape((1,), factor=1.0), "factor"),
        (lambda: Cast((1,), "complex"), "dtype"),
        (lambda: LoaderWorkerKilled((1,), -1), "worker"),
        (lambda: LoaderWorkerKilled((1,), 0, "SIGCONT"), "signal"),
        (lambda: LoaderWorkerStuck((1,), -1), "worker"),
        (lambda: LoaderWorkerStuck((1,), 0, 0.0), "for"),
        (lambda: ShmFull((1,), -1), "bytes"),
        (lambda: DiskFull((0,), "relative"), "path"),
        (lambda: DiskFull((0,), "/"), "path"),
        (lambda: DiskFull((0,), bytes=-1), "bytes"),
        (lambda: OpenFiles((0,), -1), "spare"),
        (lambda: SlowFilesystem((0,), "relative"), "path"),
        (lambda: SlowFilesystem((0,), by_s=Span(0.0)), "by"),
    ],
)
def test_a_wrong_field_is_named(make: type[Fault], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()


def test_durations_are_resolved_from_the_timeouts() -> None:
    timeouts = Timeouts(collective_s=10.0)
    assert Stall((0,), Span(0.5, "collective", 0.3)).resolved(timeouts).for_s == pytest.approx(3.5)
    assert Stall((0,), Span(2.0)).resolved(timeouts).for_s == 2.0
    forever = Stall((0,))
    assert forever.resolved(timeouts) is forever
    with pytest.raises(InvalidInput, match="stall: for follows the init timeout"):
        Stall((0,), Span(0.0, "init")).resolved(timeouts)


def test_targets() -> None:
    assert [s for s in range(4) if Kill((1, 3)).targets(s)] == [1, 3]
    assert all(Kill("all").targets(s) for s in range(4))
    assert PortTaken().rank == (0,)


def test_an_environment_is_edited() -> None:
    env = {"RANK": "2", "LOCAL_RANK": "2", "WORLD_SIZE": "4"}
    Environment((2,), (("WORLD_SIZE", "3"), ("X", "y")), ("LOCAL_RANK", "NONE")).environment(env)
    assert env == {"RANK": "2", "WORLD_SIZE": "3", "X": "y"}


@pytest.mark.parametrize(
    ("attributes", "fields", "says"),
    [
        ({"triggers": frozenset({"lunch"})}, ["rank"], "triggers"),
        ({"triggers": frozenset({"init"}), "phases": frozenset({"never"})}, ["rank"], "phases"),
        ({"triggers": frozenset({"init"})}, ["who"], "first field"),
        ({"triggers": frozenset({"init"})}, ["rank"], "fire"),
        ({"triggers": frozenset({"collective"}), "replaces_call": True}, ["rank"], "around"),
        ({"triggers": frozenset({"launch"})}, ["rank"], "environment"),
    ],
)
def test_a_malformed_one_is_refused_with_its_place(
    attributes: dict[str, object], fields: list[str], says: str
) -> None:
    namespace = {"name": "bad", "__doc__": "A fault.", "__module__": __name__, **attributes}
    cls = dataclasses.make_dataclass(
        "Bad", [(f, RankSet) for f in fields], bases=(RankFault,), namespace=namespace
    )
    assert says in REGISTRY._check(cls)


def test_one_that_is_no_rank_fault_is_refused() -> None:
    @dataclasses.dataclass(frozen=True)
    class Odd(Fault):
        """A fault."""

        name: ClassVar[str] = "odd"
        rank: RankSet

    with pytest.raises(BrokenPlugin, match=r"test_contract\.py:\d+.*RankFault"):
        REGISTRY._add(Odd)
