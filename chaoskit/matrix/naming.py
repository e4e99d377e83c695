"""Did the job itself name who did it? From the lines that its guards and its launcher wrote.

A user has these lines and no verdict. Of a line counts whom it names first (``rank 4 of 5 has not come (ranks
0-3 are here)``), and all lines together have to name exactly those whom the contract names. Reads history
lines; may not know plan or injections.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from chaoskit.event_lines import from_line
from chaoskit.events import GuardFired, GuardNoticed, Signalled
from chaoskit.model import Culprit

Speaker = GuardFired | GuardNoticed | Signalled
_KINDS = tuple(f'{{"kind":"{kind.__name__}"'.encode() for kind in (GuardFired, GuardNoticed, Signalled))
_FIRST = re.compile(r"\b(?:ranks?|process) (\d+(?:-\d+)?(?:(?:, and |, | and )\d+(?:-\d+)?)*)", re.IGNORECASE)
_RANKS_MAX = 4096
_BYTES_MAX = 64 << 20
"""A history beyond that is of a program with millions of operations; its guards spoke late, so it is not
told who was named rather than read for seconds."""


def said_in(history: Path) -> tuple[Speaker, ...] | None:
    """Return what guards and launcher said in an arm; None where that cannot be known."""
    try:
        if history.stat().st_size > _BYTES_MAX:
            return None
        with history.open("rb") as lines:
            found = [from_line(line) for line in lines if line.startswith(_KINDS)]
    except (OSError, ValueError):
        return None
    return tuple(e for e in found if isinstance(e, GuardFired | GuardNoticed | Signalled))


def names(wanted: Iterable[Culprit] | None, said: Iterable[Speaker] | None) -> bool | None:
    """Return whether exactly ``wanted`` are named; None where nobody is to be named, or nothing is known."""
    expected = {str(culprit) for culprit in wanted or ()}
    if not expected or said is None:
        return None
    named = {name for event in said for name in _named(event)}
    return named == expected


def _named(event: Speaker) -> set[str]:
    if isinstance(event, Signalled):
        return _ranks(event.reason)
    if event.blames:
        return set(event.blames)
    found = _ranks(event.message)
    if not found and isinstance(event, GuardFired) and event.local:
        return {f"rank {event.slot}"}
    return found


def _ranks(text: str) -> set[str]:
    first = _FIRST.search(text)
    found: set[str] = set()
    for part in re.split(r", and |, | and ", first.group(1)) if first is not None else ():
        low, _, high = part.partition("-")
        start, last = int(low), int(high or low)
        found |= {f"rank {rank}" for rank in range(start, min(last, start + _RANKS_MAX) + 1)}
    return found
