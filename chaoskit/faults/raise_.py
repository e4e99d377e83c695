"""An exception that nobody catches."""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from typing import ClassVar, Literal

from chaoskit.faults.family import ANYWHERE, Moment, RankFault
from chaoskit.model import RankSet


@dataclass(frozen=True, slots=True)
class Raise(RankFault):
    """The rank raises a Python exception, as a bug in a data loader or a full disk would: one rank alone
    fails, the others wait in their next collective. Seen in NVIDIA/Megatron-LM#367,
    NVIDIA-NeMo/Automodel#3254.

    `error` is the name of a built-in exception and its text. The exception comes out of the script's own
    line: of the collective, of `optimizer.step()`, or of the function called.

    Example:

        faults:
          - raise: {rank: 2, error: "OSError: [Errno 28] No space left on device"}
            when: {op: all_reduce, nth: 8}
    """

    name: ClassVar[str] = "raise"
    triggers: ClassVar[frozenset[str]] = ANYWHERE
    releases: ClassVar[Literal["at_end"]] = "at_end"

    rank: RankSet
    error: str = "RuntimeError: injected failure"

    def __post_init__(self) -> None:
        _class_of(self.error)

    def fire(self, here: Moment) -> None:
        raise _class_of(self.error)(self.error.partition(":")[2].strip())


def _class_of(error: str) -> type[BaseException]:
    name = error.partition(":")[0].strip()
    cls = getattr(builtins, name, None)
    if not (isinstance(cls, type) and issubclass(cls, BaseException)) or name.startswith("Unicode"):
        raise ValueError(f"error must be 'ExceptionName: text' with a built-in exception, is {error!r}")
    return cls
