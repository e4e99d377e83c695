"""What a guard knows of the rank that it protects, and how it makes itself heard.

chaoskit's own ranks use an implementation that records; :class:`StandaloneContext` is for a user's
script, where stderr is all there is.
"""

from __future__ import annotations

import contextlib
import os
from typing import Protocol


class GuardContext(Protocol):
    """The rank in which a guard is armed. Methods may be called from any thread."""

    @property
    def rank(self) -> int:
        """RANK as the launcher gave it; -1 where it gave none."""

    @property
    def world_size(self) -> int:
        """WORLD_SIZE as the launcher gave it; -1 where it gave none."""

    @property
    def backend(self) -> str:
        """The backend that the job is meant to use, or '' where nobody knows before it is formed."""

    def armed(self, guard: str, effective: tuple[str, ...], applicable: bool = True) -> None:
        """Announce that a guard is in effect with these settings, as read back."""

    def fired(
        self, guard: str, exit_code: int, message: str, local: bool = False, blames: tuple[str, ...] = ()
    ) -> None:
        """Say, in one line, why the guard ends this rank now. Must not block.

        ``local`` says that what was found is wrong on this very rank, not somewhere else; ``blames`` are the
        hosts, interfaces or links that are (``nic hostB docker0``)."""

    def noticed(self, guard: str, message: str, blames: tuple[str, ...] = ()) -> None:
        """Say, in one line, what the guard saw and does nothing about."""

    def work_done(self) -> None:
        """Mark that the script's work is done (for a launcher's early-exit rule)."""


class StandaloneContext:
    """A rank without chaoskit's runner: identity from the environment, messages to stderr."""

    def __init__(self) -> None:
        self.rank = number("RANK")
        self.world_size = number("WORLD_SIZE")
        self.backend = ""

    def armed(self, guard: str, effective: tuple[str, ...], applicable: bool = True) -> None:
        """Rank 0 speaks for all: the same lines a thousand times help nobody."""
        if self.rank <= 0:
            state = "armed" if applicable else "not applicable here"
            say(f"guard {guard}: {state}" + (f" ({', '.join(effective)})" if effective else ""))

    def fired(
        self, guard: str, exit_code: int, message: str, local: bool = False, blames: tuple[str, ...] = ()
    ) -> None:
        of = f"rank {self.rank}: " if self.rank >= 0 else ""
        say(f"guard {guard}: {of}{message} (exit {exit_code})")

    def noticed(self, guard: str, message: str, blames: tuple[str, ...] = ()) -> None:
        say(f"guard {guard}: {message}")

    def work_done(self) -> None:
        """Nobody listens here; a launcher with an early-exit rule brings its own context."""


def number(variable: str) -> int:
    """Return the environment variable as a number, -1 where it is unset or none."""
    try:
        return int(os.environ.get(variable, ""))
    except ValueError:
        return -1


def say(line: str) -> None:
    """Write one line to stderr, past every Python buffer and lock, so that a stuck rank can say it too."""
    with contextlib.suppress(OSError):
        os.write(2, f"chaoskit: {line}\n".encode(errors="replace"))
