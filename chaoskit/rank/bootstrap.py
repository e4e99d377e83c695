"""Turns a forked process into one rank of an arm, runs the script in it, and ends it as Python would.

The order matters: environment, recorder, tap (the outermost listener), guards, faults' own preparations,
script. What goes wrong before the script runs is chaoskit's own malfunction and is recorded as such.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import os
import random
import signal
import socket
import sys
import threading
import time
import traceback
import weakref
from typing import Final, NoReturn

import torch

from chaoskit import intercept, progress, workloads
from chaoskit.errors import ExitCode
from chaoskit.guards import interfaces
from chaoskit.guards.arming import arm
from chaoskit.guards.context import number, say
from chaoskit.guards.program import is_done
from chaoskit.history import Clock, GuardArmed, GuardFired, GuardNoticed, Identity, Malfunction
from chaoskit.model import Plan
from chaoskit.rank import answering, computing, devices, failing, gate, ordering, outside, program
from chaoskit.rank.holder import Peers
from chaoskit.rank.recorder import Recorder
from chaoskit.rank.region import Channels, Word
from chaoskit.rank.tap import Tap
from chaoskit.rank.triggers import shots_of

_FAILED: Final = 1
_INTERRUPTED: Final = 130
_BOOT: Final = "/proc/sys/kernel/random/boot_id"


class RecordingContext:
    """The rank as its guards see it: what they say goes into the history, and to stderr."""

    def __init__(self, recorder: Recorder, slot: int, backend: str) -> None:
        self._recorder = recorder
        self._slot = slot
        self.rank = number("RANK")
        self.world_size = number("WORLD_SIZE")
        self.backend = backend

    def armed(self, guard: str, effective: tuple[str, ...], applicable: bool = True) -> None:
        self._recorder.note(GuardArmed(time.monotonic(), self._slot, guard, effective, applicable))

    def fired(
        self, guard: str, exit_code: int, message: str, local: bool = False, blames: tuple[str, ...] = ()
    ) -> None:
        now = time.monotonic()
        self._recorder.note(GuardFired(now, self._slot, guard, exit_code, message, local, blames))
        say(f"guard {guard}: {message} (exit {exit_code})")

    def noticed(self, guard: str, message: str, blames: tuple[str, ...] = ()) -> None:
        self._recorder.note(GuardNoticed(time.monotonic(), self._slot, guard, message, blames))
        say(f"guard {guard}: {message}")

    def work_done(self) -> None:
        self._recorder.set_word(Word.WORK_DONE, 1)


def run_rank(plan: Plan, slot: int, channels: Channels) -> NoReturn:
    """Be process ``slot`` of the arm until it ends. Called in a fresh fork, on its main thread."""
    code = int(ExitCode.INTERNAL)
    recorder: Recorder | None = None
    try:
        _forget_exit_handlers()
        _set_environment(plan, slot)
        recorder = Recorder.open(channels)
        tap = _prepare(plan, slot, channels, recorder)
    except BaseException as error:  # noqa: BLE001 - the process is ours, and ends here
        traceback.print_exc()
        if recorder is not None:
            recorder.note(Malfunction(time.monotonic(), slot, f"rank not prepared: {error!r}"))
    else:
        code = _FAILED  # where a signal handler raises while the rank ends
        code = _run_script(plan, slot, recorder, tap)
    finally:
        _exit(code)


def run_here(plan: Plan, slot: int, channels: Channels) -> int:
    """Be rank ``slot`` in this interpreter, which some launcher started.

    Returns the exit code; the interpreter then ends in its own way.
    """
    recorder = Recorder.open(channels)
    try:
        tap = _prepare(plan, slot, channels, recorder)
    except Exception as error:  # noqa: BLE001 - chaoskit's own trouble must not take the job down
        traceback.print_exc()
        recorder.note(Malfunction(time.monotonic(), slot, f"rank not prepared: {error!r}"))
        return int(ExitCode.INTERNAL)
    return _run_script(plan, slot, recorder, tap)


def _forget_exit_handlers() -> None:
    """Those that the parent registered are its own: they would remove its temporary folders, for example."""
    atexit._clear()
    weakref.finalize._registry.clear()  # type: ignore[attr-defined]  # not in typeshed
    weakref.finalize._registered_with_atexit = False  # type: ignore[attr-defined]
    atexit.register(logging.shutdown)


def _set_environment(plan: Plan, slot: int) -> None:
    rank = next(r for r in plan.ranks if r.slot == slot)
    os.environ.update(plan.profile.env)
    os.environ.update(rank.env)
    for name in rank.unset:
        os.environ.pop(name, None)
    computing.use_threads()
    if plan.workload.is_built_in:
        sys.argv = [plan.workload.name]
        random.seed(plan.seed)
        torch.manual_seed(plan.seed)
    else:  # as in an interpreter of its own: torch's state is still that of its start
        random.seed()


def _identity(slot: int, backend: str) -> Identity:
    launcher = "torchrun" if "TORCHELASTIC_RUN_ID" in os.environ else "chaoskit"
    ranks = (number("RANK"), number("LOCAL_RANK"), number("WORLD_SIZE"))
    master = f"{os.environ.get('MASTER_ADDR', '')}:{os.environ.get('MASTER_PORT', '')}"
    return Identity(
        time.monotonic(), slot, *ranks, socket.gethostname(), os.getpid(), launcher, torch.__version__,
        master, tuple(interfaces.problems(backend)), interfaces.chosen(backend),
    )  # fmt: skip


def _prepare(plan: Plan, slot: int, channels: Channels, recorder: Recorder) -> Tap:
    if plan.workload.is_built_in and workloads.get(plan.workload.name) is None:
        raise LookupError(f"no workload {plan.workload.name!r}")
    recorder.note(_identity(slot, plan.backend))
    recorder.note(_clock(slot))
    devices.check(plan)
    context = RecordingContext(recorder, slot, plan.backend)
    tap = Tap(
        recorder,
        shots_of(plan.injections, slot),
        Peers(channels),
        slot=slot,
        rank=context.rank,
        world_size=len(plan.ranks),
        seed=plan.seed,
        network=ordering.orderer(channels.orders, functools.partial(_broken, recorder, slot)),
        gate=(lambda: gate.wait_for_store(context.rank, channels.first_pid))
        if plan.gated
        else (lambda: None),
    )
    outside.record_replicas(recorder, channels, slot)
    if not plan.workload.is_built_in:
        outside.follow(tap, recorder, slot, forked=plan.launcher == "forkserver")
    intercept.install()
    intercept.add(tap)
    arm(plan.profile.guards, context)
    # After the guards: a fault that fires when a step is done may raise, and they have to be told before.
    progress.subscribe(tap)
    progress.count_optimizer_steps()
    tap.start()
    answering.start(channels, slot)  # last: a fault's own preparation may need a single thread
    return tap


def _broken(recorder: Recorder, slot: int, why: str) -> None:
    recorder.note(Malfunction(time.monotonic(), slot, why))


def _run_script(plan: Plan, slot: int, recorder: Recorder, tap: Tap) -> int:
    """Run the program and return the exit code that Python would end with."""
    try:
        if plan.workload.is_built_in:
            workloads.run(plan.workload.name, {**dict(plan.workload.settings), "backend": plan.backend})
        else:
            program.run(plan.workload)
        outside.finished(tap, recorder)
    except SystemExit as error:
        if not plan.workload.is_built_in and is_done(error):
            outside.finished(tap, recorder)
        if (reason := _reason_of(error)) is not None:
            failing.clean(reason)
            recorder.note(failing.raised(slot, reason))
        return _code_of(error)
    except BaseException as error:  # noqa: BLE001 - reported as Python would
        _raise_for_no_child()
        failing.clean(error)
        recorder.note(failing.raised(slot, error))
        # As the interpreter does: the frames, and with them the model, live to the end of the process. Freed
        # here, DDP's reducer would join gloo's thread under the GIL, which at times hangs for good.
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
        with contextlib.suppress(Exception):
            sys.excepthook(type(error), error, error.__traceback__)
        return _INTERRUPTED if isinstance(error, KeyboardInterrupt) else _FAILED
    return 0


def _raise_for_no_child() -> None:
    """From here on. Torch's handler raises for each worker of a DataLoader that is killed: a second one would
    keep the first from being told."""
    for _ in range(3):  # what is pending is handled first, and may raise here
        with contextlib.suppress(Exception):
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            return


def _clock(slot: int) -> Clock:
    """Which clock the times of this rank are of, for histories that come from several machines."""
    try:
        with open(_BOOT, encoding="ascii") as file:
            boot = file.read().strip()
    except OSError:
        boot = socket.gethostname()
    return Clock(time.monotonic(), slot, time.time(), boot)


def _reason_of(error: SystemExit) -> BaseException | None:
    """What a rank that calls ``sys.exit`` gives as its reason: a text, or the error that a 0 hides."""
    if isinstance(error.code, str):
        return error
    hidden = error.__context__
    is_hiding = not error.code and isinstance(hidden, Exception) and not isinstance(hidden, StopIteration)
    return hidden if is_hiding and not is_done(error) else None


def _code_of(error: SystemExit) -> int:
    if error.code is None or isinstance(error.code, int):
        return (error.code or 0) & 0xFF
    print(error.code, file=sys.stderr)
    return _FAILED


def _exit(code: int) -> NoReturn:
    """End as the interpreter does, without its finalization: a forked rank shares the server's modules."""
    with contextlib.suppress(Exception):
        threading._shutdown()  # type: ignore[attr-defined]  # waits for threads that are no daemons
    with contextlib.suppress(Exception):
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code)
