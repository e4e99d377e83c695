"""Starts real ranks for guard tests: forked from this process, which has torch loaded, each with its own
output."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch._dynamo  # the first optimizer step imports it: seconds in every rank
import torch.distributed
import torch.nn.parallel
from free_ports import free_port as free_port

from chaoskit import guards
from chaoskit.model import Guard

torch.set_num_threads(1)
_PR_SET_PDEATHSIG = 1


@dataclass
class Ended:
    """How one rank ended: exit code as in subprocess, seconds since the start of the job, and what it
    said."""

    code: int
    after_s: float
    err: str
    out: str


@dataclass
class Job:
    """Ranks that run now. ``wait`` returns how each ended, in order; none survives ``limit_s``."""

    pids: list[int]
    folder: Path
    started: float
    ended: dict[int, tuple[int, float]] = field(default_factory=dict)

    def wait(self, limit_s: float = 45.0, *, kill: Sequence[int] = ()) -> list[Ended]:
        """Wait for all ranks but those in ``kill``, which are killed once the others have ended."""
        until = time.monotonic() + limit_s
        try:
            while len(self.ended) < len(self.pids) - len(kill) and time.monotonic() < until:
                self._reap()
                time.sleep(0.005)
        finally:
            for slot, pid in enumerate(self.pids):
                if slot not in self.ended:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                    _, status = os.waitpid(pid, 0)
                    self.ended[slot] = (os.waitstatus_to_exitcode(status), time.monotonic() - self.started)
        slots = range(len(self.pids))
        ended = [Ended(*self.ended[slot], self._read(slot, "err"), self._read(slot, "out")) for slot in slots]
        shutil.rmtree(self.folder)
        return ended

    def wait_for(self, text: str, slot: int, limit_s: float = 45.0) -> None:
        """Wait until rank ``slot`` has printed ``text``."""
        until = time.monotonic() + limit_s
        while text not in self._read(slot, "out"):
            assert time.monotonic() < until, f"rank {slot} never said {text!r}: {self._read(slot, 'err')}"
            time.sleep(0.005)

    def _reap(self) -> None:
        for slot, pid in enumerate(self.pids):
            if slot not in self.ended:
                gone, status = os.waitpid(pid, os.WNOHANG)
                if gone:
                    self.ended[slot] = (os.waitstatus_to_exitcode(status), time.monotonic() - self.started)

    def _read(self, slot: int, name: str) -> str:
        return (self.folder / f"{slot}.{name}").read_text(errors="replace")


class Gate:
    """Where processes wait until another opens it; for those that are forked after it was made."""

    def __init__(self) -> None:
        self._fd = os.eventfd(0, os.EFD_SEMAPHORE)
        weakref.finalize(self, os.close, self._fd).atexit = False

    def open(self, passes: int = 1) -> None:
        """Let so many pass, those included that come later."""
        os.eventfd_write(self._fd, passes)

    def wait(self) -> None:
        os.eventfd_read(self._fd)


def start(
    main: Callable[[], object],
    *arm: Guard,
    ranks: int = 2,
    env: Mapping[int, Mapping[str, str | None]] | None = None,
    profile: str = "",
) -> Job:
    """Start ``ranks`` processes that arm the guards and then run ``main``; ``env`` changes variables by
    slot."""
    folder = Path(tempfile.mkdtemp(prefix="chaoskit-guards-"))
    port = free_port()
    job = Job([], folder, time.monotonic())
    for slot in range(ranks):
        for name in ("err", "out"):
            (folder / f"{slot}.{name}").touch()
        pid = os.fork()
        if pid == 0:
            _child(
                main,
                arm,
                profile,
                folder,
                slot,
                {
                    "RANK": str(slot),
                    "LOCAL_RANK": str(slot),
                    "WORLD_SIZE": str(ranks),
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(port),
                    **(env or {}).get(slot, {}),
                },
            )
        job.pids.append(pid)
    return job


def _child(
    main: Callable[[], object],
    arm: Sequence[Guard],
    profile: str,
    folder: Path,
    slot: int,
    env: Mapping[str, str | None],
) -> None:
    code = 1
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        for fd, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(folder / f"{slot}.{name}", os.O_WRONLY | os.O_APPEND), fd)
        sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
        sys.excepthook, threading.excepthook = sys.__excepthook__, threading.__excepthook__
        for name, value in env.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        if arm or profile:
            guards.install(profile, guards=arm)
        try:
            main()
        except Exception:
            sys.excepthook(*sys.exc_info())  # as the interpreter does for __main__
        else:
            code = 0
        atexit._run_exitfuncs()
        sys.stdout.flush()
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)
