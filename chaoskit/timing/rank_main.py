"""Turns a forked process into one rank that is timed: environment, guards, then what it is told to do.

The guards are armed as a user's script arms them, without chaoskit's recorder or interception: a job without
guards is timed as torch made it.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from chaoskit.guards.arming import arm
from chaoskit.guards.context import StandaloneContext
from chaoskit.model import Plan
from chaoskit.rank import computing
from chaoskit.rank.region import Channels
from chaoskit.timing import messages, proofs
from chaoskit.timing.bench import Bench
from chaoskit.timing.collectives import Collectives
from chaoskit.timing.ddp import DDP
from chaoskit.timing.messages import Block, Failed, Hello, Prepare, Prepared, Timed, Wire
from chaoskit.timing.program import follow

_BROKEN = 70


class ProvingContext(StandaloneContext):
    """Keeps what the guards announce of themselves."""

    def __init__(self, backend: str) -> None:
        super().__init__()
        self.backend = backend
        self.announced: list[str] = []

    def armed(self, guard: str, effective: tuple[str, ...], applicable: bool = True) -> None:
        state = ", ".join(effective) or "armed"
        self.announced.append(f"guard {guard}: {state if applicable else messages.NOT_APPLICABLE}")


def run(plan: Plan, slot: int, channels: Channels) -> NoReturn:
    """Be process ``slot`` until the connection to the one that measures ends."""
    code = _BROKEN
    try:
        code = _run(plan, slot)
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    except BaseException as error:  # noqa: BLE001 - the process is ours, and ends here
        sys.excepthook(type(error), error, error.__traceback__)
        code = 1
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)  # teardown is not measured, and nobody waits for it


def _run(plan: Plan, slot: int) -> int:
    rank = next(r for r in plan.ranks if r.slot == slot)
    os.environ.update(plan.profile.env)
    os.environ.update(rank.env)
    computing.use_threads()
    wire = messages.connect(os.environ[messages.SOCKET_VARIABLE])
    wire.send(Hello(slot))
    asked = wire.receive()
    if asked is None:
        return 0
    assert isinstance(asked, Prepare)
    context = ProvingContext(asked.backend)
    arm(plan.profile.guards, context)
    if asked.kind == "program":
        return follow(wire, plan.workload, lambda: _prepared(asked, context, plan.profile.env))
    return _answer(wire, asked, context, plan.profile.env)


def _prepared(
    asked: Prepare, context: ProvingContext, env: tuple[tuple[str, str], ...], batch: int = 0
) -> Prepared:
    found = proofs.of(env)
    missing = tuple(said for said, in_effect in found if not in_effect)
    said_of_all = (*context.announced, *(said for said, _ in found))
    return Prepared(said_of_all, missing, batch, proofs.of_sides(asked))


def _answer(wire: Wire, asked: Prepare, context: ProvingContext, env: tuple[tuple[str, str], ...]) -> int:
    bench: Bench = DDP(asked) if asked.kind == "ddp" else Collectives(asked)
    unfit = bench.unfit()
    if unfit:
        wire.send(Failed(unfit))
        return 0
    bench.prepare()
    wire.send(_prepared(asked, context, env, bench.batch))
    while (told := wire.receive()) is not None:
        assert isinstance(told, Block)
        wire.send(Timed(bench.block(told)))
    return 0
