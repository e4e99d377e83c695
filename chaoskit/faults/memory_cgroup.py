"""A memory cgroup that is truly exceeded: the kernel kills the rank."""

from __future__ import annotations

import contextlib
import mmap
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, Literal

from chaoskit.faults.family import IN_SCRIPT, Moment, RankFault
from chaoskit.model import Plan, RankSet

_V1: Final = Path("/sys/fs/cgroup/memory")
_V2: Final = Path("/sys/fs/cgroup")
_OWN: Final = "CHAOSKIT_MEMORY_CGROUP"
"""Where the parent of the ranks has made the cgroups, as an environment variable of the arm."""


@dataclass(frozen=True, slots=True)
class MemoryCgroup(RankFault):
    """The rank's container runs out of memory: the rank is moved into a memory cgroup of its own with `bytes`
    of room and touches memory until the kernel ends it with SIGKILL, as Kubernetes does (`OOMKilled`, exit
    137). Python sees nothing of it. Seen in bigscience-workshop/Megatron-DeepSpeed#282.

    Needs the right to make memory cgroups (v1 or v2); elsewhere the scenario is skipped.

    Example:

        faults:
          - memory-cgroup: {rank: 1, bytes: 67108864}
            when: {op: all_reduce, nth: 8}
    """

    name: ClassVar[str] = "memory-cgroup"
    triggers: ClassVar[frozenset[str]] = IN_SCRIPT
    needs: ClassVar[tuple[str, ...]] = ("memory-cgroup",)
    ends_by_signal: ClassVar[bool] = True
    any_thread: ClassVar[bool] = True
    releases: ClassVar[Literal["at_end"]] = "at_end"

    rank: RankSet
    bytes: int = 64 << 20

    def __post_init__(self) -> None:
        if self.bytes < 4 << 20:
            raise ValueError(f"bytes must be at least 4194304 (4 MiB), is {self.bytes}")

    def prepare(self, arm_id: str, plan: Plan | None = None) -> Callable[[], None]:
        """Make the cgroup of this arm; what is returned removes it, and can tell of the kernel's kills."""
        root = memory_root()
        if root is None:
            raise OSError("no memory cgroup can be made here")
        group = root / f"chaoskit-{arm_id}"
        group.mkdir()
        os.environ[_OWN] = str(group)
        return _Made(group)

    def fire(self, here: Moment) -> None:
        group = Path(os.environ[_OWN])
        set_limit(group, self.bytes)
        (group / "cgroup.procs").write_text(str(os.getpid()))
        held = []
        while True:  # what was touched before stays charged elsewhere, so only new pages count
            piece = mmap.mmap(-1, 1 << 20)
            for at in range(0, 1 << 20, mmap.PAGESIZE):
                piece[at] = 1
            held.append(piece)


class _Made:
    """The cgroup of one arm."""

    def __init__(self, group: Path) -> None:
        self._group = group

    def oom_kills(self) -> int:
        """Return how many processes the kernel has ended in it for want of memory."""
        for name in ("memory.oom_control", "memory.events"):
            with contextlib.suppress(OSError):
                words = (self._group / name).read_text().split()
                return int(words[words.index("oom_kill") + 1])
        return 0

    def __call__(self) -> None:
        # A process that has just ended can keep its cgroup busy for some milliseconds.
        for _ in range(100):
            try:
                self._group.rmdir()
                return
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.01)
        self._group.rmdir()


def set_limit(group: Path, limit: int) -> None:
    """Limit the memory of ``group``, swap included where the kernel counts it. Raises OSError."""
    if (group / "memory.max").exists():
        (group / "memory.max").write_text(str(limit))
        with contextlib.suppress(OSError):
            (group / "memory.swap.max").write_text("0")
        return
    (group / "memory.limit_in_bytes").write_text(str(limit))
    with contextlib.suppress(OSError):
        (group / "memory.memsw.limit_in_bytes").write_text(str(limit))


def memory_root() -> Path | None:
    """Return the directory in which this process may make memory cgroups, or None.

    Checked by making one: only then do permissions, delegation and controllers agree.
    """
    for root in (_V1, _own_v2()):
        probe = root / f"chaoskit-probe-{os.getpid()}"
        try:
            probe.mkdir()
        except OSError:
            continue
        try:
            if not (probe / "cgroup.procs").exists():
                continue  # a plain folder, where no cgroup filesystem is mounted
            set_limit(probe, 64 << 20)
        except OSError:
            continue
        finally:
            with contextlib.suppress(OSError):
                probe.rmdir()
        return root
    return None


def _own_v2() -> Path:
    """Return the parent of this process's cgroup: in v2 one with processes can have no limited children."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            if line.startswith("0::/"):
                own = _V2 / line.removeprefix("0::/")
                return own.parent if own != _V2 else own
    return _V2
