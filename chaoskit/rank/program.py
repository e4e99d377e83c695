"""The user's program of a plan: what is handed to it, and how it is run in this process."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from chaoskit.guards import program
from chaoskit.model import SCRATCH, Workload
from chaoskit.rank import calls

SCRATCH_VARIABLE: Final = "CHAOSKIT_SCRATCH"
"""Where the arm's own folder is, for the program and for faults."""


def arguments(chosen: Workload, environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the arguments of the program as they are handed over: with the arm's folder in its place."""
    scratch = environment.get(SCRATCH_VARIABLE, SCRATCH)
    return [text.replace(SCRATCH, scratch) for text in chosen.args]


def run(chosen: Workload) -> None:
    """Run a script or a module to its end. What it raises, SystemExit included, comes out of here."""
    if chosen.kind == "module":
        program.run_module(chosen.target, arguments(chosen))
    else:
        program.run_script(chosen.target, arguments(chosen), calls.compiled)
