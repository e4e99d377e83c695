"""The out-of-memory handler of the articles, to the letter, so that what it does not hold can be shown. Use
oom_exit."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from types import TracebackType
from typing import ClassVar, Literal

from chaoskit.guards.context import GuardContext
from chaoskit.model import Guard


@dataclass(frozen=True, slots=True)
class FolkloreOomHandler(Guard):
    """A ``RuntimeError`` with "out of memory" in its text: ``destroy_process_group()``, then
    ``os._exit(1)``; any other is raised on. In the articles it stands around forward, backward and step;
    here around the whole script.

    ``destroy_process_group()`` can wait for the peers; the CPU allocator's error has another text;
    MemoryError is no RuntimeError; and exit 1 cannot be told from a bug.
    """

    name: ClassVar[str] = "folklore_oom_handler"
    lives_in: ClassVar[Literal["rank", "sidecar", "launcher", "scheduler"]] = "rank"
    exit_codes: ClassVar[dict[int, str]] = {1: "out of memory"}

    def arm(self, rank: GuardContext) -> tuple[str, ...]:
        """Stand around the script: what leaves it comes here first."""
        previous = sys.excepthook

        def excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
            if isinstance(error, RuntimeError) and "out of memory" in str(error):
                import torch.distributed as dist

                dist.destroy_process_group()
                rank.fired(self.name, 1, "out of memory, exiting")
                os._exit(1)
            previous(kind, error, trace)

        sys.excepthook = excepthook
        return ('text="out of memory"',)
