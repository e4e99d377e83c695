"""A problem of a scenario as a value, and where in its file it belongs."""

from __future__ import annotations

from dataclasses import dataclass

from chaoskit.scenario.source import KeyPath


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem and where in the file it belongs."""

    path: KeyPath
    message: str
    hint: str = ""
