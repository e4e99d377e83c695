"""An arm that runs, as the runner sees it: it hears of it, may end it, and nothing stays after ``close``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Protocol

from chaoskit.launchers import kernel, sweep
from chaoskit.launchers.outbox import END

if TYPE_CHECKING:
    from multiprocess.connection import Connection

_WARDEN_LIMIT_S: Final = 10.0
"""A warden needs 10 ms a rank; one that is later is stopped or broken and is ended from here."""
_ORPHANS_LIMIT_S: Final = 10.0
_REAP_LIMIT_S: Final = 1.0


class Adopter(Protocol):
    """The server, as far as an arm needs it."""

    def forget(self, arm: RunningArm) -> None: ...
    def end_orphans(self, limit_s: float) -> bool: ...


class RunningArm:
    """``connection`` gives the warden's events as lines (``recv_bytes``), ArmEnded last, then EOFError.

    EOFError or ConnectionResetError without ArmEnded means that the warden was killed: ``close`` then ends
    what it left. ``sentinel`` becomes readable when the warden is gone. ``pid`` is the warden's.
    """

    def __init__(self, pid: int, connection: Connection, status: int, adopter: Adopter) -> None:
        self.pid = pid
        self.connection = connection
        self._status = status
        self._adopter = adopter
        self._closed = False
        try:
            self.sentinel = os.pidfd_open(pid)
        except OSError:  # gone already, or a kernel without pidfds: the server's word must do
            self.sentinel = os.dup(status)

    def end(self) -> None:
        """Order the warden to SIGKILL everything; its events still come. Never blocks."""
        try:
            self.connection.send_bytes(END)
        except OSError:
            return  # the warden is gone

    def close(self, warden_limit_s: float = _WARDEN_LIMIT_S) -> bool:
        """End the arm and wait until nothing of it is left; return whether that is so. Idempotent.

        A warden that has not ended all after ``warden_limit_s`` is ended itself, with all that is below it.
        """
        if self._closed:
            return True
        self._closed = True
        self.connection.close()
        clean = kernel.readable_within(self.sentinel, warden_limit_s)
        if not clean:
            sweep.kill_tree(self.pid)
            kernel.readable_within(self.sentinel, _WARDEN_LIMIT_S)
        ended_by_itself = clean and self._exit_code() == 0
        self._adopter.forget(self)
        left_nothing = ended_by_itself or self._adopter.end_orphans(_ORPHANS_LIMIT_S)
        os.close(self.sentinel)
        os.close(self._status)
        return left_nothing

    def let_go(self) -> None:
        """In a forked child of the runner: do not keep the warden's lifeline open."""
        self.connection.close()

    def _exit_code(self) -> int | None:
        """What the server says of the warden, None where the server is gone."""
        from multiprocess import forkserver

        if not kernel.readable_within(self._status, _REAP_LIMIT_S):
            return None
        try:
            return int(forkserver.read_signed(self._status))
        except (OSError, EOFError):
            return None
