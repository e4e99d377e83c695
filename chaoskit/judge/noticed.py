"""What guards saw and did nothing about: told with the verdict, and blamed only where a contract asks."""

from __future__ import annotations

from chaoskit.history import GuardNoticed, History
from chaoskit.judge.rules import network
from chaoskit.model import Blame, Kind

NOTES_MAX = 4
"""Ranks that notice the same in other words: more of them say nothing new."""
NOTE_CHARS = 240


def notes(history: History) -> tuple[str, ...]:
    """Return the sentences for the verdict, each once."""
    said = dict.fromkeys(
        f"{g.guard}: {' '.join(g.message.split())[:NOTE_CHARS]}" for g in history.all(GuardNoticed)
    )
    more = len(said) - NOTES_MAX
    return (*list(said)[:NOTES_MAX], *((f"{more} more such notices",) if more > 0 else ()))


def blame(history: History) -> Blame:
    """Return all interfaces, links and hosts that were noticed; nobody where none was."""
    seen = history.all(GuardNoticed)
    named = dict.fromkeys(c for g in seen for text in g.blames if (c := network.culprit(text)) is not None)
    if not named:
        return Blame()
    first = next(g for g in seen if g.blames)
    reason = " ".join(first.message.split())[:300]
    said = dict.fromkeys(
        f"guard {g.guard}: {' '.join(g.message.split())[:NOTE_CHARS]}" for g in seen if g.blames
    )
    return Blame(tuple(named), Kind.TOO_SLOW, reason, evidence=tuple(said)[:NOTES_MAX])
