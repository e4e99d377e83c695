"""``python -m chaoskit.rank --plan PLAN [--dir DIR] [script.py | -m module] [args…]``: be one rank of an arm.

Stands in the place of ``python script.py args…`` under any launcher (torchrun, srun, mpirun, a pod). Without
a program, the plan's own is run. The process forks before torch is loaded: the parent is the rank's keeper,
which tells of its end; the child is the rank. Where the runner that made the plan cannot be reached, both
write files into DIR (by default the folder of the plan), for ``chaoskit judge``.
"""

from __future__ import annotations

import dataclasses
import mmap
import os
import signal
import sys
from typing import Final

from chaoskit import codec
from chaoskit.errors import ExitCode, InvalidInput
from chaoskit.guards import sidecar
from chaoskit.history import Ended, Malfunction, RunDelay, Signalled, Started, Stopped
from chaoskit.model import Plan, Workload
from chaoskit.rank import joining, program
from chaoskit.rank.recorder import Recorder
from chaoskit.rank.region import map_region
from chaoskit.secret_shapes import HIDDEN
from chaoskit.sidecar.keeper import Keeper, Watcher, keep

USAGE: Final = "usage: python -m chaoskit.rank --plan PLAN [--dir DIR] [script.py | -m module] [args…]"
_ENDING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


class Recording(Watcher):
    """Writes what the keeper sees as events of the arm, and lets go who is held for this rank."""

    def __init__(self, joined: joining.Joined) -> None:
        self._slot = joined.slot
        self._joined = joined
        self._sent: set[int] = set()

    def attach(self, keeper: Keeper) -> None:
        self._keeper = keeper

    def started(self, pid: int, t: float) -> None:
        self._recorder = Recorder.open(self._joined.keeper)
        self._region: mmap.mmap = map_region(self._joined.rank.memfd, self._joined.rank.region)
        self._recorder.note(Started(t, self._slot, pid))
        if int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") or 0):
            self._recorder.note(Malfunction(t, self._slot, _RESTARTED))
        self._recorder.ring_doorbell()

    def stopped(self, t: float) -> None:
        self._recorder.note(Stopped(t, self._slot))
        joining.release_all(self._region)

    def continued(self, t: float) -> None:
        self._recorder.note(Stopped(t, self._slot, stopped=False))

    def signalled(self, number: int, t: float) -> None:
        if number in _ENDING:
            self._sent.add(number)
            self._recorder.note(Signalled(t, self._slot, number, "launcher", "sent from outside"))

    def ending(self, exit_code: int, why: str, t: float) -> None:
        self._sent |= {signal.SIGTERM, signal.SIGKILL}
        self._recorder.note(Signalled(t, self._slot, signal.SIGTERM, "sidecar", why))

    def ended(self, exit_code: int, t: float) -> None:
        if self._keeper.run_delay_s is not None:
            self._recorder.note(RunDelay(t, self._slot, self._keeper.run_delay_s))
        by = "launcher" if -exit_code in self._sent else ""
        self._recorder.note(Ended(t, self._slot, exit_code, by))  # type: ignore[arg-type]  # one of the two
        joining.release_all(self._region)
        self._recorder.ring_doorbell()


_RESTARTED: Final = (
    "the launcher restarted the job; only one attempt can be judged: run it without restarts "
    "(torchrun --max-restarts 0)"
)


_NO_ARGUMENTS: Final = (
    "the plan does not hold the secrets among the program's arguments: give the program and its arguments "
    "after --plan PLAN"
)


def main(arguments: list[str]) -> int:
    """Join the arm, split off the keeper, run the program. Returns the exit code in the rank."""
    plan_path, folder, rest = _options(arguments)
    if not plan_path:
        return _refuse(USAGE, ExitCode.USAGE)
    slot = joining.slot_of(os.environ)
    if slot is None:
        known = ", ".join(joining.SLOT_VARIABLES)
        return _refuse(f"no launcher says which rank this is: none of {known} is set", ExitCode.USAGE)
    try:
        plan = codec.load_plan(joining.plan_text(plan_path))
        plan = dataclasses.replace(plan, workload=_program(rest) if rest else plan.workload)
        if any(HIDDEN in word for word in plan.workload.args):
            return _refuse(_NO_ARGUMENTS, ExitCode.USAGE)
        if slot >= len(plan.ranks):
            return _refuse(
                f"this is rank {slot}, but the plan is for {len(plan.ranks)} ranks", ExitCode.USAGE
            )
        joined = joining.join(
            plan_path, len(plan.ranks), slot, folder or os.environ.get(joining.FOLDER_VARIABLE, "")
        )
    except InvalidInput as error:
        return _refuse(str(error), error.exit_code)
    except OSError as error:
        return _refuse(f"cannot join the arm of {plan_path}: {error}", ExitCode.USAGE)
    if joined.folder:
        os.environ.setdefault(program.SCRATCH_VARIABLE, os.path.join(joined.folder, "scratch"))
        os.makedirs(os.environ[program.SCRATCH_VARIABLE], exist_ok=True)
    _split(plan, joined)
    joining.set_environment(plan, slot)
    from chaoskit.rank.bootstrap import run_here

    return run_here(plan, slot, joined.rank)


def _split(plan: Plan, joined: joining.Joined) -> None:
    """Leave the keeper behind, with the guard that it carries out where the profile has it."""
    watchers: list[Watcher] = [Recording(joined)]
    beside = plan.profile.guard(sidecar.Sidecar.name)
    if isinstance(beside, sidecar.Sidecar):
        watchers.append(beside.protection())
    sidecar.kept_by(keep(watchers))


def _options(arguments: list[str]) -> tuple[str, str, list[str]]:
    found = {"--plan": "", "--dir": ""}
    rest = list(arguments)
    while rest:
        name, equals, value = rest[0].partition("=")
        if name not in found:
            break
        if equals:
            found[name], rest = value, rest[1:]
        elif len(rest) > 1:
            found[name], rest = rest[1], rest[2:]
        else:
            return "", "", []
    return found["--plan"], found["--dir"], rest


def _program(words: list[str]) -> Workload:
    if words[0] in ("-m", "--module") and len(words) > 1:
        return Workload(words[1], kind="module", target=words[1], args=tuple(words[2:]))
    path = os.path.abspath(words[0])
    return Workload(os.path.basename(path), kind="script", target=path, args=tuple(words[1:]))


def _refuse(message: str, code: int) -> int:
    print(f"chaoskit: {message}", file=sys.stderr)
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
