"""Variables that a launcher sets for each rank."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from chaoskit.checking.case import Case
from chaoskit.checking.family import Rule, said_of
from chaoskit.checking.finding import Finding, Level
from chaoskit.scenario.profile_file import OF_THE_LAUNCHER

_OF_A_RANK = frozenset({"RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK"})


@dataclass(frozen=True, slots=True)
class OfLauncher(Rule):
    """A file that all ranks read gives one of them its identity (``RANK``, ``LOCAL_RANK`` …): either the
    launcher overwrites it, or all ranks claim to be the same one. A profile cannot set anything of what the
    launcher sets for each rank (``WORLD_SIZE``, ``MASTER_ADDR`` … too); `chaoskit run` refuses it."""

    name: ClassVar[str] = "of-launcher"

    def check(self, case: Case) -> Iterator[Finding]:
        for setting in case.subject.settings:
            if case.subject.kind == "env-file" and setting.name in _OF_A_RANK:
                message = "differs from rank to rank; in a file that all read, every rank is the same one"
                yield said_of(setting, Level.ERROR, message, "remove it: the launcher sets it for each rank")
            elif case.subject.kind == "profile" and setting.name in OF_THE_LAUNCHER:
                message = "is set by the launcher for each rank; a profile cannot, and is refused"
                yield said_of(setting, Level.ERROR, message, "remove it from the profile")
