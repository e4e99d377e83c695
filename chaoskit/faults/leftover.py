"""Something that an earlier run has left where this one looks."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from chaoskit.faults._paths import entry
from chaoskit.faults.family import Moment, RankFault
from chaoskit.model import RankSet

_BYTES_MAX: Final = 1 << 30
_BLOCK: Final = b"chaoskit leftover " * 1024


@dataclass(frozen=True, slots=True)
class Leftover(RankFault):
    """A file or a folder from an earlier run is there when the rank's script starts: a lock that nobody
    releases any more, a marker that says that the data are prepared, half a checkpoint to resume from. The
    run before was perhaps killed; this one takes for its own what it finds. On one rank only, as on a host
    with a disk of its own, the ranks decide differently. Seen in pytorch/pytorch#189245 (the lock file of a
    build), KempnerInstitute/KempnerForge#49 (a checkpoint that not every rank sees).

    `path` ends in `/` for a folder. A file holds `content`, or `bytes` bytes that are nothing sensible, or
    nothing. `{scratch}` in the path is the arm's own folder, `{rank}` the rank. Folders above it are made;
    what is there already is replaced. It is there before the target's own script starts, for the others at
    the latest when the process group has formed.

    Example:

        faults:
          - leftover: {rank: 1, path: "{scratch}/node{rank}/prepared"}
            when: launch
    """

    name: ClassVar[str] = "leftover"
    triggers: ClassVar[frozenset[str]] = frozenset({"launch"})

    rank: RankSet
    path: str
    content: str = ""
    bytes: int = 0

    def __post_init__(self) -> None:
        if not self.path.strip("/"):
            raise ValueError("path must name a file or a folder")
        if not 0 <= self.bytes <= _BYTES_MAX:
            raise ValueError(f"bytes must be from 0 to {_BYTES_MAX}, is {self.bytes}")
        if self.bytes and self.content:
            raise ValueError("give content or bytes, not both")
        if self.path.endswith("/") and (self.bytes or self.content):
            raise ValueError("a folder (a path that ends in /) has neither content nor bytes")

    def install(self, here: Moment) -> None:
        target = entry(self.path, here.rank)
        if self.path.endswith("/"):
            target.mkdir(parents=True, exist_ok=True)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        _write_at_once(
            target, self.content.encode() or (_BLOCK * (self.bytes // len(_BLOCK) + 1))[: self.bytes]
        )

    def environment(self, env: dict[str, str]) -> None:
        """Nothing: what is left over is no variable."""


def _write_at_once(target: Path, content: bytes) -> None:
    """Write so that another rank sees all of it or nothing."""
    written = target.with_name(f"{target.name}.{os.getpid()}")
    written.write_bytes(content)
    written.replace(target)
