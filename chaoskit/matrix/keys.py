"""The key of a cell: a digest of all that can change what comes of it.

That is its plan (scenario, profile, durations, bounds, seed, ranks), chaoskit's own code and plug-ins, torch,
Python, the machine's kernel, the variables that ranks inherit and a user's program (``program``). Not: what
it is called in reports, how it is run again, which port was free.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import platform
from pathlib import Path

import chaoskit
from chaoskit import codec
from chaoskit.matrix import surroundings
from chaoskit.matrix.program import Programs
from chaoskit.model import Plan

UNKNOWABLE = ""
"""The key of what is never kept: it runs what cannot be digested."""


def key(plan: Plan, torch: str, programs: Programs | None = None) -> str:
    """Return the key of one repeat of a cell; UNKNOWABLE where it must not be kept."""
    program = (programs or Programs()).of(plan.workload)
    if program.why_not:
        return UNKNOWABLE
    profile = dataclasses.replace(plan.profile, name="", summary="", file="")
    same = dataclasses.replace(plan, profile=profile, rerun="", notes=())
    body = [codec.encode(same), conditions(torch), program.digest]
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def conditions(torch: str) -> dict[str, str]:
    """Return what all cells of a matrix have in common, beside their plans."""
    return {
        "chaoskit's code": code(),
        "torch": torch,
        "Python": platform.python_version(),
        "the kernel": platform.release(),
        **surroundings.conditions(),
    }


@functools.cache
def code() -> str:
    """Return the digest of chaoskit's own modules; a change of reports changes no cell, but is not told
    apart."""
    found = hashlib.sha256()
    root = Path(chaoskit.__file__).parent
    for path in sorted(root.rglob("*.py")):
        if path.relative_to(root).parts[0] in _CHANGES_NOTHING:
            continue
        found.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


_CHANGES_NOTHING = frozenset({"cli", "reports", "matrix", "compare", "cost", "claims", "checking"})
"""Parts that show or compare what others found out."""
