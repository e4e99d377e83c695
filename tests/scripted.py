"""Runs a script of a test as one rank under a fault, with a folder of its own."""

from __future__ import annotations

import dataclasses
import textwrap
from pathlib import Path

from forked_ranks import Run, Server, make_plan

from chaoskit.model import Trigger, Workload


def run_script(folder: Path, text: str, *injections: tuple[object, Trigger], rest_s: float = 20.0) -> Run:
    """Run ``text`` as ``folder``/train.py, on one rank."""
    script = folder / "train.py"
    script.write_text(textwrap.dedent(text))
    plan = make_plan(
        *injections,
        ranks=1,
        gated=False,
        env={0: {"CHAOSKIT_SCRATCH": str(folder)}},
    )
    workload = Workload("train.py", kind="script", target=str(script))
    return Server.shared().run(dataclasses.replace(plan, workload=workload, expected_result=None), rest_s)
