"""Operations of two threads in one group, in another order on some ranks."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from chaoskit.faults.family import Moment, Proceed, RankFault
from chaoskit.model import RankSet

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup, Work

    from chaoskit.intercept import Call

_SUBMIT_S: Final = 0.3


@dataclass(frozen=True, slots=True)
class SecondThread(RankFault):
    """A second thread (an asynchronous checkpoint, a reporter of metrics) enters a barrier in the group that
    the main thread trains in. Operations of one group are matched by their order, and between two threads
    nothing keeps it the same on all ranks. Seen in KempnerInstitute/KempnerForge#104.

    Each target has such a thread. On the ranks in `ahead` its barrier comes before the nth call of the main
    thread, on the other targets after it. With targets that are all `ahead`, or none, nothing is wrong: that
    is the lucky case in which such a script works.

    Example:

        faults:
          - second-thread: {rank: all, ahead: 1}
            when: {op: all_reduce, nth: 8}
    """

    name: ClassVar[str] = "second-thread"
    triggers: ClassVar[frozenset[str]] = frozenset({"collective"})
    phases: ClassVar[frozenset[str]] = frozenset({"before"})
    replaces_call: ClassVar[bool] = True

    rank: RankSet
    ahead: RankSet = (1,)

    def around(self, here: Moment, call: Call, proceed: Proceed) -> Work | None:
        group = _group_of(call)
        if self.ahead == "all" or here.slot in self.ahead:
            # A guard may hold the thread back inside the barrier; it is in front all the same.
            _enter_barrier(group).wait(_SUBMIT_S)
            behind: Work | None = proceed()
            return behind
        work: Work | None = proceed()
        _enter_barrier(group)
        return work


def _group_of(call: Call) -> ProcessGroup:
    """Return the group as the script knows it."""
    from torch.distributed import distributed_c10d as c10d

    return next(g for g in c10d._world.pg_map if getattr(g, "inner", None) is call.inner)


def _enter_barrier(group: ProcessGroup) -> threading.Event:
    """Enter a barrier on a thread of its own; the event is set when it has been submitted."""
    submitted = threading.Event()

    def run() -> None:
        import torch.distributed as dist

        # Nobody hears of an error in such a thread either.
        with contextlib.suppress(Exception):
            work = dist.barrier(group, async_op=True)
            submitted.set()
            if work is not None:
                work.wait()

    threading.Thread(target=run, name="reporter", daemon=True).start()
    return submitted
