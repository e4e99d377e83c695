"""Lines of progress, from any thread, with a sign of life while nothing else is said.

Each line is flushed as it comes. A reader that goes away ends the lines, never the run.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Self

from rich.console import Console
from rich.text import Text

from chaoskit.reports.console import Pen
from chaoskit.reports.heartbeat import Heartbeat


class Lines:
    """Prints lines until the reader goes away."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lock = threading.Lock()
        self._gone = False

    def print(self, line: Text) -> None:
        with self._lock:
            if self._gone:
                return
            try:
                self._console.print(line, soft_wrap=True)
                self._console.file.flush()
            except (OSError, ValueError):  # ValueError: the file was closed
                self._gone = True


class Telling(ABC):
    """What observers have in common that print lines while their context is open."""

    def __init__(self, console: Console, every_s: float) -> None:
        self._lines = Lines(console)
        self._pen = Pen(console)
        self._heartbeat = Heartbeat(self._still_running, every_s)

    def __enter__(self) -> Self:
        self._heartbeat.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._heartbeat.__exit__()

    @abstractmethod
    def _still_running(self, passed_s: float) -> None:
        """Print a sign of life; called from the heartbeat's thread."""

    def _say(self, line: str | Text, style: str = "") -> None:
        """Print a line, after which a sign of life has time."""
        self._heartbeat.said()
        self._lines.print(line if isinstance(line, Text) else Text(line, style))
