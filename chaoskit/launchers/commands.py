"""The command line of a launcher that is not chaoskit's own, with chaoskit's entry put before the program.

``torchrun --nproc-per-node 4 train.py`` becomes ``torchrun --nproc-per-node 4 -m chaoskit.rank --plan PLAN
train.py``: in the place of the program each process runs :mod:`chaoskit.rank`, which joins the arm and then
runs the program. Pure.
"""

from __future__ import annotations

import os
import sys
from typing import Final

from chaoskit.errors import usage
from chaoskit.model import Plan, Workload

PLACEHOLDER: Final = "{rank}"
"""In a command: where ``-m chaoskit.rank --plan PLAN`` belongs, if that cannot be guessed."""


def of(plan: Plan, plan_path: str) -> tuple[str, ...]:
    """Return the command that starts the ranks of ``plan``; empty where chaoskit forks them itself."""
    if plan.launcher == "forkserver":
        return ()
    entry = ("-m", "chaoskit.rank", "--plan", plan_path)
    if plan.launcher == "command":
        return with_entry(plan.workload, entry)
    agent = ("--nnodes=1", f"--nproc-per-node={len(plan.ranks)}", "--max-restarts=0")
    store = ("--master-addr=127.0.0.1", f"--master-port={plan.master_port}")
    return (sys.executable, "-m", "torch.distributed.run", *agent, *store, *entry)


def with_entry(program: Workload, entry: tuple[str, ...]) -> tuple[str, ...]:
    """Return the user's command with ``entry`` before its program.

    Raises InvalidInput where it cannot be told where the program stands.
    """
    words = program.args
    if PLACEHOLDER in words:
        at = words.index(PLACEHOLDER)
        return (*words[:at], *entry, *words[at + 1 :])
    at = position(words)
    return (*words[:at], *entry, *words[at:])


def position(words: tuple[str, ...]) -> int:
    """Return where the program begins in ``words``: the placeholder, its ``-m NAME`` or its Python file.

    Raises InvalidInput where there is neither.
    """
    if PLACEHOLDER in words:
        return words.index(PLACEHOLDER)
    for at, word in enumerate(words):
        if at and word in ("-m", "--module") and _runs_python(words[at - 1], at) and at + 1 < len(words):
            if words[at + 1] not in (
                "torch.distributed.run",
                "torch.distributed.launch",
                "accelerate.commands.launch",
            ):
                return at
        elif at and word.endswith(".py") and not words[at - 1].startswith("--config"):
            return at
    raise usage(
        f"no Python program in the command {' '.join(words)!r}",
        f"write {PLACEHOLDER} where `-m chaoskit.rank --plan …` belongs: before the program",
    )


def _runs_python(before: str, at: int) -> bool:
    """Whether ``-m`` is an interpreter's or torchrun's, not some option of the launcher itself."""
    name = os.path.basename(before)
    return name.startswith(("python", "torchrun")) or before.startswith("-") or at > 1


_COUNTS: Final = frozenset({
    "--nproc-per-node", "--nproc_per_node", "--num_processes", "--num-processes", "--ntasks",
    "-n", "-np", "--np",
})  # fmt: skip
_NODES: Final = frozenset({"--nnodes", "--num_machines", "--num-machines"})


def ranks_in(words: tuple[str, ...]) -> int | None:
    """Return how many ranks a command of torchrun, accelerate, srun or mpirun starts, None where it does not
    say so."""
    ranks, nodes = None, 1
    for at, word in enumerate(words[: position(words)]):
        name, equals, value = word.partition("=")
        value = value if equals else "".join(words[at + 1 : at + 2])
        if value.isascii() and value.isdigit():
            ranks = int(value) if name in _COUNTS else ranks
            nodes = int(value) if name in _NODES else nodes
    return None if ranks is None else ranks * nodes
