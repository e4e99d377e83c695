"""A file system that takes its time, or does not answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from chaoskit.faults._file_brake import Brake, brake
from chaoskit.faults._paths import check_folder, folder
from chaoskit.faults.family import IN_SCRIPT, Moment, RankFault, check_duration, seconds_of
from chaoskit.model import SCRATCH, RankSet, Span

_brakes: dict[int, Brake] = {}  # by identity of the fault


@dataclass(frozen=True, slots=True)
class SlowFilesystem(RankFault):
    """Files below `path` are slow for the rank: each call of the thread it fires in that reads or writes
    their data, or syncs them, takes `by` longer in the kernel; `forever` is a file server that does not
    answer. The peers wait in the next collective. Meanwhile no handler of a signal runs (from Linux 5.19 on);
    a signal without one, and SIGKILL, end the rank. Seen in ai2cm/ace#851, tdrussell/qlora-pipe#19: saving
    a checkpoint takes longer than the timeout.

    It holds from the trigger on, also for threads and DataLoader workers that this thread starts later, not
    for those that are there. Opening, renaming and memory maps are not slowed. `{scratch}` is a folder of
    the arm. Needs seccomp notifications (Linux 5.5 on x86-64 or arm64), not root.

    Example:

        faults:
          - slow-filesystem: {rank: 0, path: "{scratch}", by: 200ms}
            when: {step: 5}
    """

    name: ClassVar[str] = "slow-filesystem"
    triggers: ClassVar[frozenset[str]] = IN_SCRIPT
    needs: ClassVar[tuple[str, ...]] = ("seccomp-notify",)

    rank: RankSet
    path: str = SCRATCH
    by_s: Span | float | Literal["forever"] = "forever"

    def __post_init__(self) -> None:
        check_folder(self.path)
        if not isinstance(self.by_s, str):
            check_duration("by", self.by_s)

    def install(self, here: Moment) -> None:
        hold_s = None if isinstance(self.by_s, str) else seconds_of(self.by_s)
        _brakes[id(self)] = brake(folder(self.path, here.rank), hold_s)

    def fire(self, here: Moment) -> None:
        _brakes[id(self)].engage()
