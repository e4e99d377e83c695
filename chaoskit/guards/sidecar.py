"""Ends the whole job when one rank is lost, by a process beside each rank, whatever the launcher does."""

from __future__ import annotations

import atexit
import dataclasses
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from chaoskit import progress
from chaoskit.guards import movement, torch_hooks
from chaoskit.guards.context import GuardContext
from chaoskit.guards.sidecar_meeting import Meeting
from chaoskit.model import Guard
from chaoskit.sidecar.policy import Limits
from chaoskit.sidecar.protection import EXIT_CODE, Identity, Protection
from chaoskit.sidecar.shared import Shared, Word

_BEAT_S = 0.25
_LOOPBACK = ("127.", "localhost", "::1")
_RANK = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
_WORLD_SIZE = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
_LOCAL_WORLD_SIZE = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE")


@dataclass(frozen=True, slots=True)
class Sidecar(Guard):
    """A small process beside each rank, its *keeper*, sees what no code in the rank can, and tells the
    keepers of all ranks when one rank is lost. Each then says why in one line, ends its rank (SIGTERM, and
    SIGKILL for everything below it ``grace_s`` later) and exits 90; the keeper of the rank that was lost
    passes on how that ended. All within 1 s of the death or of the detection, without help of any launcher,
    also when rank 0, its keeper or the store is what was lost. A rank is lost when

    - it ended nonzero or by a signal, or its keeper or its host is gone (``on_failure``);
    - it ended 0 before its work was done and others are still there ``early_exit_wait_s`` later. Done means:
      the script ran to its end, or ``sys.exit(0)`` stood at the top level of it, or
      ``destroy_process_group()`` (outside an exception) or ``chaoskit.guards.finished()`` was called;
    - it has been stopped (SIGSTOP) for ``stopped_wait_s`` while others run. A job that is stopped as a whole
      is suspended, and left alone;
    - no Python ran in it for ``gil_wait_s`` although it is not stopped: something holds the GIL. An
      interpreter that ends has run its last Python: it is given ``gil_wait_s``, at least 60 s, to be gone;
    - it made no progress (steps, collectives) for ``progress_wait_s``, from the first one on (0: off);
    - it got a SIGTERM through its launcher, does not ignore it, and is still there ``sigterm_wait_s`` later.
      A rank that ends after a SIGTERM, SIGINT or SIGHUP, whatever its exit code, gives the others the same
      time: all may have been told to end, and some may be saving what they have;
    - nothing is heard of its keeper for ``silent_s``. A keeper that is itself stopped is given
      ``stopped_wait_s`` instead where the keeper that misses it is on the same host and can see that.

    A wait of 0 is off; ``gil_wait_s`` and ``silent_s`` are at least 2 s. A declared phase
    (``chaoskit.guards.phase``) defers the rules about the GIL, progress and SIGTERM.

    Needs ``python -m chaoskit.guards --profile … train.py``, because the keeper has to be there before torch;
    in a script that calls ``install()`` it is not in effect, nor under chaoskit's own launcher, which does
    the same by ``group_kill``. To the launcher the keeper is the rank: same exit status, same signals, same
    output; rank 0's keeper stays until the others have ended. The keepers find each other through the job's
    store while the process group forms: before that a lost rank is only passed on as its own status, as
    without the guard. Every rank needs it.

    A launcher names the rank that it sees end first, so the keepers of the other ranks leave after that of
    the lost one; so does that of a rank that failed as well, but later. On the same host they see its
    launcher take note of its end (wait for it), and leave then; 0.3 s later where it has another parent than
    they have (a shell for each rank). On other hosts they are told when that was seen, or, where no other
    keeper is on its host, when its connection has closed, and leave 0.3 s later: what the launcher hears from
    that host is not seen there. A launcher that waits for another rank first holds nobody up for more than
    0.3 s after the keeper's end, or until ``grace_s`` is over. A keeper of the lost rank that is held up
    itself (stopped, its host cut off, a process in the D state below it) is given 3 s more than ``grace_s``;
    then the others leave all the same, and a launcher may name one of them. Their ranks have ended in time in
    any case.

    A keeper that is itself stopped can end nothing: when the job is ended without it, it and its rank stay
    until somebody continues it (then it ends its rank) or kills it (then its rank is killed). On other hosts
    its silence is that of a lost host.

    Example::

        guards:
          sidecar: {early_exit_wait: 30s, stopped_wait: 30s, gil_wait: 60s, sigterm_wait: 20s, grace: 500ms}
    """

    name: ClassVar[str] = "sidecar"
    lives_in: ClassVar[Literal["rank", "sidecar", "launcher", "scheduler"]] = "sidecar"
    exit_codes: ClassVar[dict[int, str]] = {
        EXIT_CODE: "ended by its keeper: another rank is lost, or this one no longer takes part",
        -int(signal.SIGTERM): "how the rank itself ends then; its launcher sees 90",
        -int(signal.SIGKILL): "how the rank itself ends then, where SIGTERM was not enough",
    }

    on_failure: bool = True
    early_exit_wait_s: float = 60.0
    stopped_wait_s: float = 30.0
    gil_wait_s: float = 120.0
    progress_wait_s: float = 0.0
    sigterm_wait_s: float = 20.0
    silent_s: float = 10.0
    grace_s: float = 0.5

    def protection(self) -> Protection:
        """Return what a keeper needs to carry this guard out: give it to ``keep``, then arm the guard in the
        rank."""
        fields = (field.name for field in dataclasses.fields(self))
        protection = Protection(
            Limits(**{name: getattr(self, name) for name in fields}), identity(os.environ)
        )
        _here.protection = protection
        return protection

    def arm(self, rank: GuardContext) -> tuple[str, ...] | None:
        """Do the rank's part; None where it has no keeper, or the launcher does what a keeper would."""
        protection = _here.protection
        if protection is None or not has_keeper():
            return None
        informer = _Informer(protection.shared)
        if self.progress_wait_s:
            protection.shared.write(Word.FOLLOWED, 1)
            movement.follow(informer)
        progress.subscribe(informer)
        atexit.register(
            protection.shared.write, Word.LEAVING, 1
        )  # the script's own come later, and run first
        torch_hooks.replace("destroy_process_group", informer.noting_done)
        if protection.identity.world_size > 1:
            torch_hooks.around_init(Meeting(protection))
        threading.Thread(target=informer.beat, name="chaoskit sidecar", daemon=True).start()
        return (f"keeper={_here.keeper}", f"exit={EXIT_CODE}")


class _Here:
    """This process: the protection made for it, and its keeper's pid once it has one."""

    protection: Protection | None = None
    keeper = 0


_here = _Here()


def kept_by(pid: int) -> None:
    """Note that this process is a rank with that keeper. Called right after ``keep`` has returned."""
    _here.keeper = pid


def has_keeper() -> bool:
    """Return whether a keeper carries this guard out for this process."""
    return _here.protection is not None and os.getppid() == _here.keeper


def work_done() -> None:
    """Note that the script's work is done: its main program returned."""
    if _here.protection is not None:
        _here.protection.shared.write(Word.WORK_DONE, 1)


class _Informer:
    """Writes what the rank does where its keeper reads it."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._phases: list[float] = []

    def beat(self) -> None:
        """Run in a thread of its own: as long as this goes on, Python runs."""
        wait = threading.Event().wait
        while True:
            self._shared.write(Word.BEAT_NS, time.monotonic_ns())
            wait(_BEAT_S)

    def noting_done(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def destroy_process_group(group: Any = None) -> Any:
            from torch.distributed import GroupMember

            if (group is None or group is GroupMember.WORLD) and sys.exc_info()[1] is None:
                self._shared.write(Word.WORK_DONE, 1)
            return original(group)

        return destroy_process_group

    # ---- progress

    def step_done(self, step: int) -> None:
        self._shared.write(Word.STEP, step)

    def phase_begin(self, name: str, allowance_s: float) -> None:
        self._phases.append(time.monotonic() + allowance_s)
        self._allow()

    def phase_end(self, name: str) -> None:
        if self._phases:
            self._phases.pop()
        self._allow()

    def report_result(self, value: float) -> None:
        """A result is no end."""

    def finished(self) -> None:
        self._shared.write(Word.WORK_DONE, 1)

    # ---- movement

    def moved(self, what: movement.What) -> None:
        if what != "entered":
            self._shared.count(Word.PROGRESS)

    def allow(self, until: float) -> None:
        """Phases are seen above, also without movement."""

    def _allow(self) -> None:
        self._shared.write(Word.ALLOWED_UNTIL_NS, int(max(self._phases, default=0.0) * 1e9))


def identity(env: Mapping[str, str]) -> Identity:
    """Return which rank of how many a launcher with these variables means. Scripts under srun and mpirun may
    set RANK only later, for themselves."""

    def first(names: tuple[str, ...]) -> int:
        return next((int(env[name]) for name in names if env.get(name, "").isdecimal()), -1)

    rank, world_size, local = first(_RANK), first(_WORLD_SIZE), first(_LOCAL_WORLD_SIZE)
    here = local >= world_size if local >= 0 else env.get("MASTER_ADDR", "").startswith(_LOOPBACK)
    return Identity(rank, world_size, socket.gethostname(), this_host_only=here)
