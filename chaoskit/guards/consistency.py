"""Compares, across ranks, a checksum of what they must hold alike, and ends a job whose replicas differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from chaoskit import progress
from chaoskit.guards.agreement import Agreement
from chaoskit.guards.comparing import Comparing, Terms
from chaoskit.guards.comparison import GroupKey
from chaoskit.guards.context import GuardContext
from chaoskit.model import Guard

if TYPE_CHECKING:
    from chaoskit.intercept.replicated import Replica

_HINT = "replicas must stay equal bit for bit; look for what only some ranks do to them"


@dataclass(frozen=True, slots=True)
class Consistency(Guard):
    """After every ``every`` updates, what ranks must hold alike has to be equal on all of them, bit for bit.
    If it is not, every rank exits 88 with one line that names the odd one out and the step::

        rank 1 holds other values of DistributedDataParallel(ResNet) than ranks 0, 2, 3 after step 150; equal
        after step 100

    So a job that went silently wrong (one rank skipped an update, changed a weight, loaded another file) ends
    nonzero. Compared are the parameters of DistributedDataParallel that require a gradient (before the first
    forward pass after an update, when every optimizer has finished, ZeroRedundancyOptimizer too), and DTensor
    parameters placed as ``Replicate``, each among the ranks that share them. With
    ``chaoskit.guards.finished()`` the last state is compared too.

    Never compared: sharded state, parameters that DDP ignores, frozen ones, and buffers. Left alone
    because replicas differ there on purpose: optimizer steps under ``no_sync()``, local SGD and other
    communication hooks than torch's exact ones, ``Join``. A script that alters its model on one rank, and
    trains it on, is meant to be found.

    How: a checksum in each rank (about 0.4 ms for each MiB on a CPU core; on a GPU one short wait for the
    device) goes to rank 0 from a thread, over a connection beside the job's: no collective is added, and
    nothing waits. At exit a rank waits until what it told has been compared, at most ``exit_wait_s``;
    ``settle_s`` bounds how long a difference waits for ranks not yet heard, so that a majority can be told.
    Of two ranks nobody can tell which is wrong. Every rank needs this guard, and hardware that computes
    alike.

    ```yaml
    guards:
      consistency: {every: 100}
    ```
    """

    name: ClassVar[str] = "consistency"
    lives_in: ClassVar[Literal["rank", "sidecar", "launcher", "scheduler"]] = "rank"
    exit_codes: ClassVar[dict[int, str]] = {88: "ranks hold different values of what they must hold alike"}

    every: int = 50
    settle_s: float = 5.0
    exit_wait_s: float = 10.0

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ValueError(f"consistency: every must be 1 or more, is {self.every}")

    def arm(self, rank: GuardContext) -> tuple[str, ...]:
        """Know what is replicated from now on, and compare it."""
        from chaoskit.intercept import replicated

        checker = _Checker(self, rank)
        replicated.on_replica(checker.hold, self.every)
        progress.subscribe(checker)
        return (f"every={self.every}", f"settle={self.settle_s:g}s", f"exit_wait={self.exit_wait_s:g}s")


class _Checker:
    """Tells rank 0 what this rank holds."""

    def __init__(self, guard: Consistency, rank: GuardContext) -> None:
        self._every = guard.every
        self._counts: dict[GroupKey, int] = {}
        terms = Terms(guard.name, 88, _HINT, guard.settle_s, guard.exit_wait_s, Agreement)
        self._comparing = Comparing(terms, rank, self)
        self._comparing.start()

    def hold(self, replica: Replica, moment: str = "") -> None:
        """This rank holds ``replica`` now."""
        reporter = self._comparing.reporter
        if reporter is None:
            return
        key = (f"{replica.ordinal}{moment}", replica.ranks)
        index = replica.step // self._every + 1
        self._counts[key] = index
        # ["enter", name, members, index, checksum, op, nth, what, step]: as side_channel reads it
        held = [replica.checksum, replica.name, replica.numel, "", replica.step]
        reporter.say(["enter", *key, index, *held])
        self._comparing.stop_if_over()

    # ---- comparing

    def formed(self) -> None:
        self._counts.clear()

    def counts(self) -> list[tuple[GroupKey, int]]:
        return list(self._counts.items())

    # ---- progress

    def finished(self) -> None:
        """The last update is followed by no forward pass: compare what is there now."""
        from chaoskit.intercept import replicated

        for replica in replicated.replicas():
            self.hold(replica, " at the end")

    def step_done(self, step: int) -> None:
        """Updates are counted where they are made."""

    def phase_begin(self, name: str, allowance_s: float) -> None:
        """Takes as long as it takes."""

    def phase_end(self, name: str) -> None:
        """Nothing to compare."""

    def report_result(self, value: float) -> None:
        """The result is not the state."""
