"""A process that can be asked for evidence as a rank can, without torch: something stands in its place."""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from chaoskit.evidence import process
from chaoskit.evidence.gather import Asked
from chaoskit.rank import region
from chaoskit.rank.exchange import Answer, Exchange

_PREPARED = """
import os, sys, types
memfd, slot = int(sys.argv[1]), int(sys.argv[2])
fake = types.ModuleType("torch._C._distributed_c10d")
fake._dump_fr_trace_json = lambda: b'{"entries": []}'
distributed = types.ModuleType("torch.distributed")
distributed.is_initialized = lambda: True
sys.modules.update({fake.__name__: fake, distributed.__name__: distributed})
from chaoskit.rank import answering
from chaoskit.rank.region import Channels
answering.start(Channels(memfd, slot), slot)
"""


PATIENCE_S = 40.0
"""For what comes within milliseconds, but for a loaded machine. Below the shortest timeout of a test."""
_PAUSE = {"x86_64": "34", "aarch64": "73"}.get(platform.machine(), "")
"""The number of the system call that signal.pause() makes, in /proc/PID/syscall."""


@dataclass(frozen=True)
class Rank:
    pid: int
    slot: int
    folder: Path
    memfd: int
    exchange: Exchange

    def asked(self, **more: object) -> Asked:
        """What the supervisor would ask about this rank alone."""
        limits: dict[str, object] = {"limit_s": PATIENCE_S, **more}
        return Asked(self.folder.parent, {self.slot: self.pid}, self.memfd, **limits)  # type: ignore[arg-type]

    def until(self, state: str) -> None:
        """Return once the process is in this state; the test's time limit bounds it."""
        while process.look(self.pid).state != state:
            os.sched_yield()

    def until_paused(self) -> None:
        """Return once the main thread is in pause(2). One that sleeps may wait for the GIL as well."""
        while Path(f"/proc/{self.pid}/syscall").read_text().split()[0] != _PAUSE:
            os.sched_yield()


@contextmanager
def rank(tmp_path: Path, script: str, slot: int = 0) -> Iterator[Rank]:
    """A process that is ready to answer, and then runs ``script``; given back once that has written ``r`` to
    descriptor 1."""
    memfd = os.memfd_create("test", os.MFD_CLOEXEC)
    os.truncate(memfd, (slot + 1) * region.REGION_BYTES)
    file = tmp_path / "train.py"
    file.write_text(script)
    code = f"{_PREPARED}\nexec(compile(open({str(file)!r}).read(), {str(file)!r}, 'exec'))"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(memfd), str(slot)],
        stdout=subprocess.PIPE,
        pass_fds=(memfd,),
        env={**os.environ, "CHAOSKIT_SCRATCH": str(tmp_path / "scratch")},
        start_new_session=True,
    ) as started:
        try:
            assert started.stdout is not None
            assert started.stdout.read(1) == b"r"
            exchange = Exchange.of_supervisor(memfd, slot)
            assert exchange.answer == Answer.LISTENS
            yield Rank(started.pid, slot, tmp_path / f"rank{slot}", memfd, exchange)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)
            os.close(memfd)
