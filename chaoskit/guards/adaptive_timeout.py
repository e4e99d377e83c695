"""Gives every process group a timeout that follows from how long its steps and collectives really take."""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from chaoskit import progress
from chaoskit.guards import torch_hooks
from chaoskit.guards.context import GuardContext, number
from chaoskit.guards.store_agreement import StoreAgreement
from chaoskit.model import Guard

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup, Work

    from chaoskit.intercept import Call, Proceed

_WINDOW = 1000
_FORMULAS = ("measured", "article")
_WORTH_SAYING = 0.2  # changes by less than this share are made, and not announced


@dataclass(frozen=True, slots=True)
class AdaptiveTimeout(Guard):
    """Sets the timeout of every group by one of two formulas, and keeps it the same on all ranks.

    ``formula: measured``: ``factor`` times the ``quantile`` of what steps and collectives took, whichever is
    longer, plus ``per_node_s`` for each node; not below ``floor_s``, not above ``ceiling_s``. Measured on
    every rank over the last 1000, for the first time after ``after_steps`` steps and again after as many;
    the ranks take the largest of theirs, through the job's store. What a declared phase takes is not
    measured, and inside one (``chaoskit.guards.phase``) the timeout is longer by what it declares.

    ``formula: article``: what a widely read article says: ``floor_s`` + ``per_node_s`` × nodes, and
    ``nic_s`` more where NCCL_SOCKET_IFNAME is set to something other than eth0; from the start, and the same
    for a job with steps of 10 ms and one with steps of 10 minutes.

    Nodes are WORLD_SIZE / LOCAL_WORLD_SIZE. A group's timeout is only ever made shorter than what the script
    or another guard gave it. Its tests run both, with the article's times scaled by 1/25:
    in a job with steps of 10 ms a stuck rank is found after 0.3 s (its floor there) by ``measured`` and after
    1.4 s by ``article``; a healthy job in which a rank takes 1.8 s for its step is ended by ``article``, and
    not by ``measured``.

    A rare pause that it has never seen (the first evaluation, a first checkpoint) is a stuck rank to it, so
    declare such phases on all ranks, or choose ``floor_s`` above them. The error that a timeout
    raises ends a rank only if nobody catches it: see fail_fast.

    ```yaml
    guards:
      adaptive_timeout: {formula: measured, floor: 60s}
    ```
    """

    name: ClassVar[str] = "adaptive_timeout"
    lives_in: ClassVar[Literal["rank", "sidecar", "launcher", "scheduler"]] = "rank"

    formula: str = "measured"
    quantile: float = 0.99
    factor: float = 5.0
    per_node_s: float = 5.0
    floor_s: float = 30.0
    ceiling_s: float = 1800.0
    nic_s: float = 10.0
    after_steps: int = 50

    def __post_init__(self) -> None:
        if self.formula not in _FORMULAS:
            raise ValueError(
                f"adaptive_timeout: formula must be one of {', '.join(_FORMULAS)}, is {self.formula!r}"
            )
        if not 0 < self.quantile <= 1 or self.factor < 1 or self.after_steps < 1:
            raise ValueError(
                "adaptive_timeout: quantile must be above 0 and at most 1, factor and after_steps at least 1"
            )

    def arm(self, rank: GuardContext) -> tuple[str, ...]:
        """See every collective and step from now on."""
        from chaoskit import intercept

        intercept.install()
        adapting = _Adapting(self, rank)
        intercept.add(adapting)
        torch_hooks.around_init(adapting)
        progress.count_optimizer_steps()
        progress.subscribe(adapting)
        if self.formula == "article":
            return ("formula=article", f"collective={article_s(self):g}s")
        return ("formula=measured", f"after_steps={self.after_steps}")


def article_s(guard: AdaptiveTimeout) -> float:
    """The article's formula, in the environment of this process."""
    other_nic = os.environ.get("NCCL_SOCKET_IFNAME", "eth0") != "eth0"
    return guard.floor_s + guard.per_node_s * _nodes() + (guard.nic_s if other_nic else 0.0)


def measured_s(guard: AdaptiveTimeout, steps: Iterable[float], collectives: Iterable[float]) -> float:
    """What this rank's own measurements ask for; the ceiling where there are none."""
    longest = max(_quantile(steps, guard.quantile), _quantile(collectives, guard.quantile))
    if longest == 0:
        return guard.ceiling_s
    asked = guard.factor * longest + guard.per_node_s * _nodes()
    return min(max(asked, guard.floor_s), guard.ceiling_s)


def _quantile(values: Iterable[float], of: float) -> float:
    ordered = sorted(values)
    return ordered[math.ceil(of * len(ordered)) - 1] if ordered else 0.0


def _nodes() -> int:
    world, local = number("WORLD_SIZE"), number("LOCAL_WORLD_SIZE")
    return max(1, world // local) if local > 0 else 1


class _Adapting:
    """Measures in one process, and sets what the ranks agree on."""

    def __init__(self, guard: AdaptiveTimeout, rank: GuardContext) -> None:
        self._guard = guard
        self._rank = rank
        self._formed = 0
        self._timeout_s: float | None = article_s(guard) if guard.formula == "article" else None
        self._said_s = self._timeout_s or 0.0
        self._given: dict[ProcessGroup, float] = {}  # what each group had at first
        self._unset = False  # there are groups that have not got it yet
        self._phases: list[float] = []
        self._begun: dict[int, float] = {}  # id of an open call → when
        self._collectives: deque[float] = deque(maxlen=_WINDOW)
        self._steps: deque[float] = deque(maxlen=_WINDOW)
        self._last_step: float | None = None  # None: what follows is not measured
        self._count = 0
        self._agreement: StoreAgreement | None = None

    # ---- intercept

    def group_made(self, name: str, ranks: tuple[int, ...], timeout_s: float | None) -> None:
        self._unset = self._timeout_s is not None

    def around(self, call: Call, proceed: Proceed) -> Work | None:
        if self._unset:
            self._apply()
        if len(self._begun) > _WINDOW:  # works that nobody waited for
            self._begun.clear()
        self._begun[id(call)] = time.monotonic()
        return proceed()

    def done(self, call: Call, error: BaseException | None) -> None:
        begun = self._begun.pop(id(call), None)
        if begun is not None and error is None and not self._phases:
            self._collectives.append(time.monotonic() - begun)

    # ---- torch_hooks

    def before_init(self, given: dict[str, Any]) -> None:
        self._given.clear()
        self._collectives.clear()

    def after_init(self, given: dict[str, Any], error: BaseException | None) -> None:
        if error is not None:
            return
        self._formed += 1
        self._agreement = StoreAgreement(f"chaoskit/adaptive_timeout/{self._formed}")
        self._unset = self._timeout_s is not None

    # ---- progress

    def step_done(self, step: int) -> None:
        now, last = time.monotonic(), self._last_step
        self._last_step = now
        if last is not None:
            self._steps.append(now - last)
        if self._guard.formula == "measured" and self._agreement is not None:
            self._agree(self._agreement)

    def phase_begin(self, name: str, allowance_s: float) -> None:
        self._phases.append(allowance_s)
        self._phase()

    def phase_end(self, name: str) -> None:
        if self._phases:
            self._phases.pop()
        self._phase()

    def report_result(self, value: float) -> None:
        """The result takes no time."""

    def finished(self) -> None:
        """Teardown is not measured."""
        self._last_step = None
        self._agreement = None

    def _phase(self) -> None:
        self._last_step = None
        if self._timeout_s is not None:
            self._apply()

    # ---- the timeout

    def _agree(self, agreement: StoreAgreement) -> None:
        self._count += 1
        if self._count % self._guard.after_steps == 0 and not agreement.is_open:
            agreement.propose(measured_s(self._guard, self._steps, self._collectives))
        agreed = agreement.largest() if agreement.is_open else None
        if agreed is not None:
            self._timeout_s = agreed
            self._apply()
            self._announce(agreed)

    def _apply(self) -> None:
        from torch.distributed import distributed_c10d as c10d

        self._unset = False
        if self._timeout_s is None or not c10d.is_initialized():
            return
        wanted = self._timeout_s + max(self._phases, default=0.0)
        for group in list(c10d._world.pg_map):
            given = self._given.setdefault(group, _timeout_of(group))
            c10d._set_pg_timeout(timedelta(seconds=min(wanted, given)), group)

    def _announce(self, seconds: float) -> None:
        if abs(seconds - self._said_s) <= _WORTH_SAYING * self._said_s:
            return
        self._said_s = seconds
        of = f"{self._guard.quantile:g} quantile of"
        self._rank.armed(
            self._guard.name,
            (
                f"collective={seconds:.3g}s",
                f"{of} steps {_quantile(self._steps, self._guard.quantile):.3g}s",
                f"of collectives {_quantile(self._collectives, self._guard.quantile):.3g}s",
            ),
        )


def _timeout_of(group: ProcessGroup) -> float:
    """The longest timeout in effect on the backends of ``group``."""
    found = [math.inf]
    for device in group._device_types:
        timeout = getattr(getattr(group._get_backend(device), "options", None), "_timeout", None)
        if timeout is not None:
            found.append(timeout.total_seconds())
    return max(found[1:], default=found[0])
