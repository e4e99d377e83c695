"""One thing that a rule has to say about a profile."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Level(enum.StrEnum):
    ERROR = "error"
    """It does not do what it is there for, or breaks a job."""
    WARNING = "warning"
    """It does nothing here, or less than it seems to."""
    NOTE = "note"
    """Worth knowing; nothing has to be changed."""

    @property
    def weight(self) -> int:
        return list(Level).index(self)


@dataclass(frozen=True, slots=True)
class Finding:
    """``subject`` is the variable or guard that is meant, ``hint`` what to do next, ``line`` 1-based or 0;
    ``source`` is where the reason was read or tried."""

    level: Level
    subject: str
    message: str
    hint: str = ""
    line: int = 0
    source: str = ""
    rule: str = ""
