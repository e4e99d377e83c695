"""``chaoskit new``: a commented scenario that runs as it is."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import click

from chaoskit.cli.printing import say
from chaoskit.errors import ChaoskitError, usage

TEMPLATE = """\
# A scenario: what runs, what goes wrong, and what must hold. `chaoskit validate FILE` checks it,
# `chaoskit run FILE` runs it. `chaoskit schema scenario` prints a JSON Schema for your editor.
name: {name}
summary: A rank dies in the middle of an all_reduce; the others must not wait for it.
tags: [mine]                       # chaoskit run tag:mine
# seen_in: [owner/repository#123]  # where it happened for real

# What runs. One of these:
{workloads}
# With settings: {{ddp-train: {{steps: 30}}}}. Or a program of yours, as it is:
# {{script: train.py, args: [--steps, 20]}}, {{module: pkg.train}},
# {{command: [torchrun, --nproc-per-node=4, train.py]}}
workload: ddp-train
topology: {{ranks: 4, backend: gloo}}
# On virtual hosts, with interfaces of their own (docs/hosts.md):
# {{ranks: 4, hosts: 2, nics: {{eth0: {{}}, docker0: {{same_address: 172.17.0.1/16}}}}}}
# A job that has to survive the fault in every arm: healthy: true

# What goes wrong. Others:
{faults}
faults:
  - kill: {{rank: 1, signal: SIGKILL}}
    # When: the nth call of an operation on that rank, before, during or after it. Or one of
    # {{step: 5}}, {{call: torch.save, nth: 1, phase: after}}, {{call: __main__.train_step}},
    # {{forward: layer.2, nth: 3}}, {{backward: layer.2}}, {{loader: any, nth: 5}} (the 5th batch),
    # {{write: "*.pt"}} (the first byte of such a file), {{after: 500ms}}, init, launch.
    when: {{op: all_reduce, nth: 8, phase: during}}

arms:
  # The control arm shows what happens without protection.
  control:
    profile: torch-defaults
    expect: {{outcome: {{gloo: failed}}}}  # as observed; leave out a backend that you have not run
  # The hardened arm is the promise. Try your own profile with --profile FILE.
  hardened:
    profile: recommended
    expect:
      outcome: failed              # completed, failed, hung, overdue, corrupted or masked
      within: 2s                   # or {{timeout: collective, plus: 2s}}; counts from the fault
      exit: nonzero
      culprits: [rank 1]           # on virtual hosts also host hostB, nic hostB eth0, link hostA-hostB
"""


@click.command("new")
@click.argument("name", default="my-scenario")
@click.option("--output", "-o", metavar="FILE", help="Write to FILE, which must not exist (default: stdout).")
def new(name: str, output: str | None) -> None:
    """Write a commented scenario to start from."""
    from chaoskit import faults, workloads
    from chaoskit.scenario.values import Wrong, slug

    others = ", ".join(name for name in faults.REGISTRY.names(plugins=False) if name != "kill")
    try:
        text = TEMPLATE.format(
            name=slug(name), faults=_commented(others), workloads=_commented(", ".join(workloads.names()))
        )
    except Wrong as wrong:
        raise usage(f"the name {wrong.message}", wrong.hint) from None
    if output is None:
        say(text.rstrip("\n"))
        return
    _write(Path(output), text)
    say(f"{output} is written; next: chaoskit validate {output}")


def _commented(text: str) -> str:
    return textwrap.fill(text, 98, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)


def _write(path: Path, text: str) -> None:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except FileExistsError:
        raise usage(f"{path} exists already", "choose another file: nothing is overwritten") from None
    except (OSError, ValueError) as error:
        raise usage(f"{path} cannot be written: {getattr(error, 'strerror', None) or error}") from None
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ChaoskitError(f"{path} could not be written: {error.strerror or error}") from None
