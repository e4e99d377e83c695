"""The signals that end a process which does nothing about them, by the names that users write."""

from __future__ import annotations

import signal
from typing import Final

_NAMES: Final = (
    "KILL",
    "TERM",
    "INT",
    "HUP",
    "QUIT",
    "ABRT",
    "SEGV",
    "BUS",
    "FPE",
    "ILL",
    "PIPE",
    "USR1",
    "USR2",
    "XCPU",
)


def number_of(name: str) -> signal.Signals:
    """Return the signal called ``name``, with or without SIG. Raises ValueError for one that ends nothing."""
    if name.removeprefix("SIG") not in _NAMES:
        known = ", ".join(f"SIG{n}" for n in _NAMES)
        raise ValueError(f"signal must be one that ends a process ({known}), is {name!r}")
    return signal.Signals[f"SIG{name.removeprefix('SIG')}"]
