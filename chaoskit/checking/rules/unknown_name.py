"""Names that nobody reads."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from chaoskit.checking.case import Case, Setting
from chaoskit.checking.family import Rule, said_of
from chaoskit.checking.finding import Finding, Level
from chaoskit.profiles.nccl import OF_OTHERS, nccl_variables
from chaoskit.profiles.variable import NEWEST
from chaoskit.profiles.variables import NOBODY_READS, VARIABLES

_COMPLETE: Final = ("TORCH_NCCL_", "TORCH_FR_", "TORCH_GLOO_", "TORCHELASTIC_")
"""Of these the tables hold every name of torch 2.4 to 2.15."""
_OWNED: Final = (*_COMPLETE, "NCCL_", "GLOO_", "TORCH_DIST")
_CLOSE: Final = 0.88
_VERY_CLOSE: Final = 0.93
"""Outside the prefixes that torch and NCCL use, other programs have names of their own."""
_SHORTEST: Final = 8


@dataclass(frozen=True, slots=True)
class UnknownName(Rule):
    """A name that neither torch nor NCCL reads: misspelt (close to a known one: an error), passed around
    though it never existed, or unknown under a prefix whose names are all known. Of other programs' variables
    nothing is said, nor of a name that stands in the installed torch."""

    name: ClassVar[str] = "unknown-name"

    def check(self, case: Case) -> Iterator[Finding]:
        for setting in case.subject.settings:
            name = setting.name
            if name not in VARIABLES and name not in nccl_variables() and not name.startswith(OF_OTHERS):
                yield from _of(setting, case)


def _of(setting: Setting, case: Case) -> Iterator[Finding]:
    name = setting.name
    if name in NOBODY_READS:
        message = "neither torch nor NCCL reads this name"
        yield said_of(setting, Level.WARNING, message, NOBODY_READS[name])
        return
    if _is_read_by_installed(name, case):
        return
    meant = _meant(name)
    if meant and name.startswith("NCCL_") and _has_a_word_more(name, meant):
        message = "NCCL 2.18 to 2.30 does not read this name; a plug-in may"
        yield said_of(setting, Level.NOTE, message, f"is {meant} meant?")
    elif meant:
        level = Level.ERROR if name.upper().startswith(_OWNED) else Level.WARNING
        yield said_of(setting, level, "nobody reads this name", f"did you mean {meant}?")
    elif name.startswith(_COMPLETE) and case.target.torch is not None and case.target.torch <= NEWEST:
        versions = f"2.4 to {'.'.join(map(str, NEWEST))}"
        yield said_of(setting, Level.WARNING, f"no torch from {versions} reads this name", "remove it")
    elif name.startswith("NCCL_"):
        message = "NCCL 2.18 to 2.30 does not read this name; a plug-in may"
        yield said_of(setting, Level.NOTE, message)


def _meant(name: str) -> str:
    """Return the known name that is meant, or ''."""
    known = [*VARIABLES, *nccl_variables()]
    for other in (name.upper(), f"TORCH_{name}", name.removeprefix("TORCH_")):
        if other != name and (other in VARIABLES or other in nccl_variables()):
            return other
    if len(name) < _SHORTEST or len(name) > 80:
        return ""
    cutoff = _CLOSE if name.upper().startswith(_OWNED) else _VERY_CLOSE
    close = difflib.get_close_matches(name.upper(), known, 1, cutoff)
    return close[0] if close and not _is_numbered(name.upper(), close[0]) else ""


def _has_a_word_more(name: str, other: str) -> bool:
    """``NCCL_IB_EXT_DISABLE`` is a plug-in's name, not a slip for ``NCCL_IB_DISABLE``."""
    words = iter(name.split("_"))
    return all(word in words for word in other.split("_")) and name.count("_") > other.count("_")


def _is_numbered(name: str, other: str) -> bool:
    """``OMP_NUM_THREADS_2`` and the like are somebody's own variables, not slips."""
    return name.startswith(other) and len(name) > len(other) + 1


def _is_read_by_installed(name: str, case: Case) -> bool:
    evidence = case.target.evidence
    return name.startswith(("TORCH", "PYTORCH", "GLOO_")) and evidence is not None and evidence.names(name)
