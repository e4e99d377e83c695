"""The contract of a fault, the moment it is given, and the registry of faults.

What a fault's class states here is read by the tap (:mod:`chaoskit.rank.tap`), which decides when it
fires and records that it did; a fault itself records nothing.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from chaoskit.errors import usage
from chaoskit.model import Fault, RankSet, Span, Timeouts
from chaoskit.network import Order
from chaoskit.registry import Registry

if TYPE_CHECKING:
    from torch.distributed import Work

    from chaoskit.intercept import Call

IN_SCRIPT = frozenset({"collective", "step", "call", "forward", "backward", "loader", "write", "after"})
"""Every trigger kind that is a moment while the script runs."""
ANYWHERE = IN_SCRIPT | {"init"}
"""Every trigger kind that is a moment in the life of a rank."""
Proceed = Callable[[], Any]
"""Issues the call as it is now; may be called more than once. Returns a Work or None."""


def _nothing() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Moment:
    """Where and when a fault fires. ``call`` is the collective, None at every other trigger.

    ``release`` lets the peer go on that is held for phase *during* (harmless when nobody is).
    ``reissue`` issues a call once more, as if the script had called it, and waits for it.
    ``defer`` puts the call off until the script has issued its next one in the same group.
    ``network`` changes the network of virtual hosts before it returns; raises RuntimeError where it cannot.
    ``broken`` says that the fault could not be had after all: nothing can then be said of the arm.
    """

    rank: int
    world_size: int
    slot: int
    seed: int = 0
    call: Call | None = None
    release: Callable[[], None] = _nothing
    reissue: Callable[[Call], None] = lambda _: None
    defer: Callable[[Call], None] = lambda _: None
    network: Callable[[Order], None] = lambda _: None
    broken: Callable[[str], None] = lambda _: None


class RankFault(Fault):
    """A fault of one process. Subclasses are frozen dataclasses with ``rank`` as their first field.

    They implement one of :meth:`fire` (something happens), :meth:`around` (the call is replaced; then
    ``replaces_call`` is true) and :meth:`environment` (another environment than the launcher meant).
    A field that is wrong raises ValueError in ``__post_init__``; the message is shown to the user.
    One that has to set up something outside the ranks has ``prepare(arm_id, plan)`` besides: it is called
    in the parent of the ranks before they start and returns what to call when all of them are gone.
    """

    replaces_call: ClassVar[bool] = False
    needs_tensors: ClassVar[bool] = False
    """True when it cannot be had on an operation without tensors (a barrier)."""
    needs_loader: ClassVar[bool] = False
    """True when there is nothing to do for it without a DataLoader in the script."""
    host_wide: ClassVar[bool] = False
    """True when it ends or stops all ranks on a virtual host: that of its targets, or that in ``host``."""
    needs_hosts: ClassVar[bool] = False
    """True when it changes the network, which can be had between virtual hosts only."""
    repeats: ClassVar[bool] = False
    """True when it acts on every match from the nth on, not only on the nth."""
    any_thread: ClassVar[bool] = False
    """True when it has the same effect on whichever thread it fires (for the trigger ``after``)."""
    releases: ClassVar[Literal["before", "after", "itself", "at_end"]] = "after"
    """When the peer goes on that is held for phase *during*: before the fault acts (it blocks), after it,
    when the fault itself says so, or when the target has ended or stopped (its launcher sees that)."""

    def install(self, here: Moment) -> None:
        """Called on a target before the user's script; most faults have nothing to do here."""

    def fire(self, here: Moment) -> None:
        """Make it happen. May raise, sleep, stop or end the process."""
        raise NotImplementedError(f"{type(self).__name__} does not fire by itself")

    def around(self, here: Moment, call: Call, proceed: Proceed) -> Work | None:
        """Replace ``call``; return what the script gets. A call not issued counts as never made."""
        raise NotImplementedError(f"{type(self).__name__} replaces no call")

    def environment(self, env: dict[str, str]) -> None:
        """Edit what the launcher hands to a target (trigger kind ``launch``)."""
        raise NotImplementedError(f"{type(self).__name__} has no effect on the environment")

    def targets(self, slot: int) -> bool:
        """Return whether the process ``slot`` is meant."""
        return self.rank == "all" or slot in self.rank

    def resolved(self, timeouts: Timeouts) -> Self:
        """Return a copy with every duration in seconds. Raises InvalidInput for a timeout that is not set."""
        changes: dict[str, float] = {}
        for field in dataclasses.fields(self):  # type: ignore[arg-type]  # a dataclass in every subclass
            value = getattr(self, field.name)
            if isinstance(value, Span):
                seconds = value.seconds(timeouts)
                if seconds is None:
                    raise usage(
                        f"{self.name}: {field.name.removesuffix('_s')} follows the {value.timeout} timeout, "
                        "which the profile does not set"
                    )
                changes[field.name] = seconds
        return dataclasses.replace(self, **changes) if changes else self  # type: ignore[type-var]


def seconds_of(value: Span | float) -> float:
    """Return a duration that the plan has resolved. Raises ValueError for one that it has not."""
    if isinstance(value, Span):
        if value.timeout is not None:
            raise ValueError(f"{value} has not been resolved to seconds")
        return value.plus_s
    return value


def check_duration(name: str, value: Span | float) -> None:
    """Raise ValueError unless the duration is positive."""
    bad = (
        value.times < 0 or (value.timeout is None and value.plus_s <= 0)
        if isinstance(value, Span)
        else value <= 0
    )
    if bad:
        raise ValueError(f"{name} must be more than 0 s, is {value}")


def _check(cls: type[Fault]) -> str:
    """Return what is wrong with ``cls`` as a fault, or an empty text."""
    if not issubclass(cls, RankFault):
        return "expected a subclass of chaoskit.faults.RankFault"
    known = ANYWHERE | {"launch"}
    triggers = getattr(cls, "triggers", None)
    if not isinstance(triggers, frozenset) or not triggers or not triggers <= known:
        return f"triggers must be a frozenset of {', '.join(sorted(known))}"
    if not cls.phases or not cls.phases <= {"before", "during", "after"}:
        return "phases must be a frozenset of before, during, after"
    fields = [f.name for f in dataclasses.fields(cls)]  # type: ignore[arg-type]  # the registry has checked that
    if not fields or fields[0] != "rank":
        return "its first field must be `rank: RankSet`"
    wanted = "environment" if triggers == {"launch"} else "around" if cls.replaces_call else "fire"
    has_prepare = callable(getattr(cls, "prepare", None))
    if getattr(cls, wanted) is getattr(RankFault, wanted) and not (wanted == "environment" and has_prepare):
        return f"must implement {wanted}()"
    undocumented = not (cls.__doc__ or "").strip() and sys.flags.optimize < 2  # -OO takes docstrings away
    if undocumented or (cls.__doc__ or "").startswith(f"{cls.__name__}("):
        return "needs a docstring: it is the fault's documentation"
    return ""


REGISTRY: Registry[Fault] = Registry("chaoskit.faults", Fault, _check)

__all__ = [
    "ANYWHERE",
    "IN_SCRIPT",
    "REGISTRY",
    "Moment",
    "Proceed",
    "RankFault",
    "RankSet",
    "check_duration",
    "seconds_of",
]
