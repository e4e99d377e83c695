"""What can be known of an environment variable: who reads it, when, from which torch on, and which values it
takes. Data types only; the tables are beside this file, :mod:`chaoskit.profiles.variables` joins them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from chaoskit.model import Backend

Version = tuple[int, int]
"""Major and minor number of a torch or NCCL release."""

OLDEST: Final[Version] = (2, 4)
NEWEST: Final[Version] = (2, 15)
"""The releases of torch that the tables were checked against; nothing is claimed beyond them."""

Implementation = Literal["gloo", "nccl-legacy", "nccl2"]
"""What a backend's name resolves to: ``nccl`` is the legacy group up to torch 2.14 and nccl2 from 2.15 on."""

ReadWhen = Literal["start-up", "import", "group"]
"""When the interpreter starts; when torch is imported (or first used); when a process group forms, or
later."""

Kind = Literal[
    "text", "torch-flag", "torch-int", "torch-word", "zero-or-one", "only-one", "gloo-interfaces",
    "nccl-interfaces", "nccl-int", "nccl-word", "nccl-list", "nccl-functions", "nccl-level", "set-or-not",
    "threads", "port",
]  # fmt: skip
"""How a value is read:

- torch-flag: y, yes, 1, t, true, n, no, 0, f, false in any case; anything else raises (getCvarBool).
- torch-int: ``std::stoi``: digits, and whatever follows them is ignored without a word; no digits raise.
- torch-word: one of ``words`` in any case; anything else raises.
- zero-or-one: anything else is ignored with a warning (c10::utils::check_env).
- only-one: anything but ``1`` is off.
- gloo-interfaces: exact names; nccl-interfaces: prefixes, ``=name``, ``^name``.
- nccl-int: ``strtoll``: what begins with no digit is 0, without a word.
- nccl-word: one of ``words`` in any case; anything else is the default, without a word.
- nccl-list: some of ``words`` in any case, separated by commas, all but these after ``^``.
- nccl-functions: the same; newer NCCL also takes ``function:list``, separated by semicolons.
- nccl-level: one of ``words`` in capitals, or (old) a number; anything else is the default, without a word.
- port: a port of TCP.
- set-or-not: any text that is not empty turns it on, ``0`` too.
- threads: a whole number from 1, or several.
"""

Unit = Literal["", "s", "ms"]

BOTH: tuple[Backend, ...] = ("gloo", "nccl")
GLOO: tuple[Backend, ...] = ("gloo",)
NCCL: tuple[Backend, ...] = ("nccl",)


@dataclass(frozen=True, slots=True)
class EnvVariable:
    """One variable. ``reader`` says who reads it; ``note`` the trap, where there is one.

    ``since``, ``until``: the first torch that reads it, and the first that no longer does; None: all that the
    tables know. ``nccl2``: the first torch whose nccl2 reads it, ``never``, or ``unknown``.
    ``replaced_by``: the name to use from torch ``replaced_since`` on. ``words``, ``low``, ``high``, ``unit``:
    which values it takes. ``source``: where that was read.
    """

    name: str
    read_when: ReadWhen
    backends: tuple[Backend, ...]
    reader: str
    note: str = ""
    kind: Kind = "text"
    default: str = ""
    words: tuple[str, ...] = ()
    low: int | None = None
    high: int | None = None
    unit: Unit = ""
    since: Version | None = None
    until: Version | None = None
    nccl2: Version | Literal["never", "unknown"] = "unknown"
    replaced_by: str = ""
    replaced_since: Version | None = None
    source: str = ""

    def is_read(self, torch: Version, by: Implementation) -> bool | None:
        """Return whether that torch reads it where the backend is ``by``; None where that is not known."""
        if ("gloo" if by == "gloo" else "nccl") not in self.backends:
            return False
        if self.since is not None and torch < self.since:
            return False
        if torch > NEWEST:
            return None
        if self.until is not None and torch >= self.until:
            return False
        if by != "nccl2" or "gloo" in self.backends:
            return True
        if self.nccl2 == "unknown":
            return None
        return self.nccl2 != "never" and torch >= self.nccl2
