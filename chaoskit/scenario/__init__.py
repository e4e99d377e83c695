"""YAML → Scenario and Profile, with every problem at once, each with its file, line and a hint.

pydantic lives in this package only, and is imported with the first name that needs it: the listing of
the library (:mod:`chaoskit.scenario.listing`) does without. Nothing here runs anything.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chaoskit.scenario.checks import CONTROL, HARDENED, check, check_ranks, hardened_arm
    from chaoskit.scenario.loading import load, load_library, parse
    from chaoskit.scenario.profile_file import load_profile, profile_names
    from chaoskit.scenario.selection import select
    from chaoskit.scenario.values import duration_s
    from chaoskit.scenario.writing import dump

__all__ = [
    "CONTROL",
    "HARDENED",
    "check",
    "check_ranks",
    "dump",
    "duration_s",
    "hardened_arm",
    "load",
    "load_library",
    "load_profile",
    "parse",
    "profile_names",
    "select",
]

_HOMES = {
    "checks": ("CONTROL", "HARDENED", "check", "check_ranks", "hardened_arm"),
    "loading": ("load", "load_library", "parse"),
    "profile_file": ("load_profile", "profile_names"),
    "selection": ("select",),
    "values": ("duration_s",),
    "writing": ("dump",),
}


def __getattr__(name: str) -> object:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
