"""Is it proved that a fault fired *during* its operation? Pure; reads the order of events only."""

from __future__ import annotations

from chaoskit.history import Completed, Entered, Held, History, Injected
from chaoskit.judge.job import Job
from chaoskit.model import Phase


def unproved(history: History) -> str:
    """*During* is proved by submit < fire < the entry of some other member, and no rank saw it complete.

    That member is the one that was held; where its launcher ended it before it came that far, any that
    had not come there either.
    """
    for event in history.all(Injected):
        if event.phase != Phase.DURING:
            continue
        what = f"{event.op} #{event.nth}"
        if not event.submitted:
            return f"{event.fault} fired before its operation was submitted: not proved to be during"
        key = (event.op, event.group, event.nth)
        early = [c for c in history.all(Completed) if (c.op, c.group, c.nth) == key and c.t_s <= event.t_s]
        if early:
            return f"{what} had completed on slot {early[0].slot} when {event.fault} fired"
        entered = {
            e.slot: e for e in history.all(Entered) if (e.op, e.group, e.nth) == key and e.t_s < event.t_s
        }
        held = [h.slot for h in history.all(Held) if (h.op, h.nth) == (event.op, event.nth)]
        if held and held[0] in entered:
            return f"the held rank entered {what} before {event.fault} fired"
        if not held and not _absent(history, entered, event.slot):
            return f"no rank was held at {what}: not proved to be during"
    return ""


def _absent(history: History, entered: dict[int, Entered], target: int) -> bool:
    """Return whether a member of the target's group is known not to have been among ``entered``."""
    members = entered[target].members if target in entered else ()
    return any(
        v.slot not in entered and not v.lost and (not members or v.rank in members)
        for v in Job.of(history).ranks
    )
