"""Starts the ranks of an arm, or the user's launcher, and captures what they print. A warden's: it forks.

What becomes of them afterwards is not its business.
"""

from __future__ import annotations

import functools
import os
import resource
import selectors
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from chaoskit import private
from chaoskit.launchers import rank_process, temporary
from chaoskit.launchers.launch import ArmLaunch
from chaoskit.launchers.output import Capture
from chaoskit.launchers.services import Services
from chaoskit.model import Plan
from chaoskit.rank.program import SCRATCH_VARIABLE
from chaoskit.rank.region import Channels
from chaoskit.redacting import Redactor

LAUNCHER: Final = -1
"""Stands for the slot of the user's launcher, which is no rank."""
_NOT_FOUND: Final = 127
_SAID_BYTES: Final = 2000


class _Streams(NamedTuple):
    stdout: Capture
    stderr: Capture


class Spawner:
    """Those of one arm. ``let_go`` makes a forked child forget what is the warden's; ``selector`` tells the
    warden when there is output (:meth:`pump`)."""

    def __init__(
        self,
        launch: ArmLaunch,
        services: Services,
        selector: selectors.BaseSelector,
        let_go: Callable[[], None],
    ) -> None:
        self._launch = launch
        self._redactor = Redactor(launch.secrets)
        self._services = services
        self._selector = selector
        self._let_go = let_go
        self._streams: dict[int, _Streams] = {}  # by slot
        self._first_pid = 0
        self._files_only = False
        self._main: Callable[..., object] | None = None
        self._open_files = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (self._open_files[1], self._open_files[1]))

    def prepare(self, plan: Plan | None, files_only: bool) -> None:
        """Do what all ranks inherit. With ``files_only`` they look up names in /etc/hosts alone. Raises
        ImportError or AttributeError where what they are to run is not there."""
        self._files_only = files_only
        os.environ[SCRATCH_VARIABLE] = os.path.join(self._launch.arm_dir, "scratch")
        if self._launch.temporary:
            temporary.use(self._launch.temporary)
        self._main = functools.partial(rank_process.resolve(self._launch.target), plan)

    def rank(self, slot: int) -> int:
        """Start the rank in ``slot`` and return its pid."""
        channels = Channels(
            self._launch.memfd,
            slot,
            self._launch.doorbell,
            self._launch.release,
            orders=self._services.orders(slot),
            first_pid=self._first_pid,
        )
        main = self._main
        assert main is not None, "prepare() comes first"
        pid = self._fork(slot, f"rank{slot}", channels, lambda: main(slot, channels))
        self._first_pid = self._first_pid or pid
        return pid

    def launcher(self) -> int:
        """Start the user's launcher and return its pid."""
        program, environment = self._launch.command[0], temporary.environment_of(self._launch)

        def become_launcher() -> None:
            try:
                os.execvpe(program, list(self._launch.command), environment)  # noqa: S606 - the user's own
            except OSError as error:
                print(f"chaoskit: {program} cannot be started: {error.strerror}", file=sys.stderr, flush=True)
                os._exit(_NOT_FOUND)

        return self._fork(LAUNCHER, "launcher", Channels(-1, 0), become_launcher)

    def _fork(self, slot: int, folder_name: str, channels: Channels, main: Callable[[], object]) -> int:
        folder = Path(self._launch.arm_dir, folder_name)
        private.folder(folder)
        (out, kept_out), (err, kept_err) = (
            self._capture(folder / f"{name}.log") for name in ("stdout", "stderr")
        )
        self._streams[slot] = _Streams(kept_out, kept_err)
        door = self._services.doorway(slot)
        files_only = self._files_only or door is not None
        child = rank_process.Child(slot, channels, out, err, self._open_files, files_only, self._let_go, door)
        try:
            return child.fork(main)
        finally:
            os.close(out)
            os.close(err)

    def _capture(self, path: Path) -> tuple[int, Capture]:
        """Begin to capture into ``path``; return the descriptor to write to, and what captures."""
        reader, writer = os.pipe2(os.O_CLOEXEC)
        capture = Capture(reader, path, self._redactor)
        self._selector.register(reader, selectors.EVENT_READ, capture)
        return writer, capture

    def pump(self, key: selectors.SelectorKey) -> None:
        """Take in output where ``key`` stands for some."""
        if isinstance(key.data, Capture) and not key.data.pump():
            self._selector.unregister(key.fd)

    def launcher_said(self) -> str:
        """Return what the launcher last wrote to stderr."""
        return self._streams[LAUNCHER].stderr.last(_SAID_BYTES)

    def finish(self) -> None:
        """Write what is left of the output. Bounded, whoever still writes."""
        for streams in self._streams.values():
            for capture in streams:
                capture.finish()
