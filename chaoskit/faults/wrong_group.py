"""A collective that one rank issues in another process group than the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from chaoskit.faults.family import Moment, Proceed, RankFault
from chaoskit.model import RankSet

if TYPE_CHECKING:
    from torch.distributed import Work

    from chaoskit.intercept import Call


@dataclass(frozen=True, slots=True)
class WrongGroup(RankFault):
    """The rank issues one call in another group than its peers, as when `group=` is forgotten, or the groups
    of a mesh are mixed up on some ranks. It waits there for ranks that wait for it elsewhere.

    The call goes to the group `to`; without it, to that with the most members of those which the rank is in,
    the first made of equals. It is one of the script's own groups; a script with one group only fails with
    an error.

    Example:

        faults:
          - wrong-group: {rank: 1, to: metrics}
            when: {op: all_reduce, nth: 6}
    """

    name: ClassVar[str] = "wrong-group"
    triggers: ClassVar[frozenset[str]] = frozenset({"collective"})
    phases: ClassVar[frozenset[str]] = frozenset({"before"})
    replaces_call: ClassVar[bool] = True

    rank: RankSet
    to: str = ""

    def around(self, here: Moment, call: Call, proceed: Proceed) -> Work | None:
        group = _other(call, self.to)
        work: Work | None = getattr(group, call.method)(*call.args, **call.kwargs)
        return work


def _other(call: Call, name: str) -> Any:
    """Return the wrapper of the group that the call is to go to."""
    from torch.distributed import distributed_c10d as c10d

    from chaoskit.intercept import Intercepted

    groups = [g for g in c10d._world.pg_map if isinstance(g, Intercepted) and g.inner is not call.inner]
    named = [g for g in groups if not name or g._known_as == name]
    if not named:
        have = ", ".join(g._known_as for g in groups) or "no other group"
        raise RuntimeError(
            f"wrong-group: this rank is in {have}, there is none to issue {call.op} in instead"
        )
    return max(named, key=lambda g: len(g._ranks))
