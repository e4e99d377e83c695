"""Two collectives in the wrong order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from chaoskit.faults.family import Moment, Proceed, RankFault
from chaoskit.model import RankSet

if TYPE_CHECKING:
    from torch.distributed import Work

    from chaoskit.intercept import Call


@dataclass(frozen=True, slots=True)
class Swap(RankFault):
    """The rank calls two operations in the other order than its peers, as when each rank walks a dict or
    a set of modules in its own order. Seen in pytorch/pytorch#75373.

    The nth call is put off until the script's next call in the same group has been issued and waited for.
    Until then its tensors stay as they were. Without a next call it is never made.

    Example:

        faults:
          - swap: {rank: 1}
            when: {op: all_reduce, nth: 8}
    """

    name: ClassVar[str] = "swap"
    triggers: ClassVar[frozenset[str]] = frozenset({"collective"})
    phases: ClassVar[frozenset[str]] = frozenset({"before"})
    replaces_call: ClassVar[bool] = True

    rank: RankSet

    def around(self, here: Moment, call: Call, proceed: Proceed) -> Work | None:
        from chaoskit.intercept import finished

        here.defer(call)
        return finished(call)
