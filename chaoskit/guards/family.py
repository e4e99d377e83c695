"""The registry of guards and the contract that a guard's class has to keep."""

from __future__ import annotations

from chaoskit.model import Guard
from chaoskit.registry import Registry

ENTRY = {"rank": "arm", "launcher": "policy", "sidecar": "arm", "scheduler": ""}
"""The method by which a guard is put to work, by where it lives."""


def check(cls: type[Guard]) -> str:
    """Return what is wrong with ``cls`` as a guard, or an empty text."""
    if not getattr(cls, "name", ""):
        return "has no name"
    if getattr(cls, "lives_in", None) not in ENTRY:
        return f"lives_in must be one of {', '.join(ENTRY)}"
    entry = ENTRY[cls.lives_in]
    if entry and not callable(getattr(cls, entry, None)):
        return f"lives in the {cls.lives_in}, so it must have a method {entry}()"
    if not isinstance(getattr(cls, "exit_codes", None), dict):
        return "exit_codes must map codes to what they mean"
    return ""


REGISTRY: Registry[Guard] = Registry("chaoskit.guards", Guard, check)
