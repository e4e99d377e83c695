"""Names that nobody reads."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from chaoskit.checking.case import Case, Setting
from chaoskit.checking.family import Rule, said_of
from chaoskit.checking.finding import Finding, Level
from chaoskit.profiles.nccl import OF_OTHERS, OF_PLUGINS, nccl_variables
from chaoskit.profiles.variable import NEWEST
from chaoskit.profiles.variables import NOBODY_READS, VARIABLES

_COMPLETE: Final = ("TORCH_NCCL_", "TORCH_FR_", "TORCH_GLOO_", "TORCHELASTIC_")
"""Of these the tables hold every name of torch 2.4 to 2.15."""
_OWNED: Final = (*_COMPLETE, "NCCL_", "GLOO_", "TORCH_DIST")
_CLOSE: Final = 0.88
_VERY_CLOSE: Final = 0.93
"""Outside the prefixes that torch and NCCL use, other programs have names of their own."""
_SHORTEST: Final = 8
_SEARCHES_MAX: Final = 300
"""Each search takes milliseconds; a file may hold thousands of names."""
_SAME_WORD: Final = 0.6
"""SOKET and SOCKET are one word, IB and IBEXT, SHM and SHARP are not."""


@dataclass(frozen=True, slots=True)
class UnknownName(Rule):
    """A name that neither torch nor NCCL reads: misspelt (close to a known one: an error), passed around
    though it never existed, or unknown under a prefix whose names are all known. Of other programs' variables
    nothing is said, nor of a name that stands in the installed torch."""

    name: ClassVar[str] = "unknown-name"

    def check(self, case: Case) -> Iterator[Finding]:
        unknown = [setting for setting in case.subject.settings if not _is_known(setting.name)]
        names = dict.fromkeys(setting.name for setting in unknown)
        # Names of torch and NCCL first: a slip in them is what matters.
        first = sorted(names, key=lambda name: not name.upper().startswith(_OWNED))[:_SEARCHES_MAX]
        meant = {name: _meant(name) for name in first}
        for setting in unknown:
            yield from _of(setting, case, meant.get(setting.name, ""))
        if len(names) > len(first):
            message = (
                f"{len(names)} names are known neither to torch nor to NCCL: only {len(first)} of them were "
                "searched for slips"
            )
            yield Finding(Level.NOTE, "", message, "check a file that holds the settings of the job alone")


def _is_known(name: str) -> bool:
    return (
        name in VARIABLES
        or name in nccl_variables()
        or name in OF_PLUGINS
        or name.startswith((*OF_OTHERS, "OFI_NCCL_"))
    )


def _of(setting: Setting, case: Case, meant: str) -> Iterator[Finding]:
    name = setting.name
    if name in NOBODY_READS:
        message = "neither torch nor NCCL reads this name"
        yield said_of(setting, Level.WARNING, message, NOBODY_READS[name])
        return
    if _is_read_by_installed(name, case):
        return
    if meant and name.startswith("NCCL_") and _has_another_word(name, meant):
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


def _has_another_word(name: str, other: str) -> bool:
    """``NCCL_IBEXT_DISABLE`` is a plug-in's name, not a slip for ``NCCL_IB_DISABLE``."""
    if name.replace("_", "") == other.replace("_", "") or other == f"TORCH_{name}":
        return False
    words, others = name.split("_"), other.split("_")
    if len(words) != len(others):
        return True
    return any(
        difflib.SequenceMatcher(None, *pair).ratio() < _SAME_WORD for pair in zip(words, others, strict=True)
    )


def _is_numbered(name: str, other: str) -> bool:
    """``OMP_NUM_THREADS_2`` and the like are somebody's own variables, not slips."""
    return name.startswith(other) and len(name) > len(other) + 1


def _is_read_by_installed(name: str, case: Case) -> bool:
    evidence = case.target.evidence
    return name.startswith(("TORCH", "PYTORCH", "GLOO_")) and evidence is not None and evidence.names(name)
