"""A set of ranks that are timed: started by a fork server as any arm's, told what to do over sockets.

At most one set of a comparison runs at a time; the others rest in a read.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import signal
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from chaoskit import codec, history, private
from chaoskit.events import ArmEnded, Ended, Event, Malfunction
from chaoskit.launchers import temporary
from chaoskit.launchers.forkserver import Server
from chaoskit.launchers.launch import ArmLaunch
from chaoskit.model import Plan
from chaoskit.timing import messages
from chaoskit.timing.messages import Block, Failed, Hello, Message, Prepare, Prepared, Timed, Wire

if TYPE_CHECKING:
    from chaoskit.launchers.running import RunningArm

TARGET = "chaoskit.timing.rank_main:run"
START_LIMIT_S = 120.0
"""A rank that is forked is there in tenths of a second; a user's program first loads what it needs."""
ANSWER_LIMIT_S = 60.0
SLOWER_MAX = 50.0
"""A block may take so many times what it is thought to take before it is called stuck."""
_TAIL_LINES = 3
_NOT_QUOTED = ("chaoskit: guard", "[W", "[I")  # what guards announce, and torch's warnings
M = TypeVar("M", Prepared, Timed)


class SetFailed(Exception):
    """A set of ranks cannot be timed (any more); the text says why."""


class ProgramEnded(SetFailed):
    """The user's program is through."""


class RankSet:
    """The ranks of one side. Use :func:`started`."""

    def __init__(self, plan: Plan, arm: RunningArm, folder: Path) -> None:
        self._plan = plan
        self._arm = arm
        self._folder = folder
        self._wires: dict[int, Wire] = {}

    def add(self, wire: Wire) -> None:
        """A rank has called."""
        said = wire.receive()
        if not isinstance(said, Hello):
            raise SetFailed(self._why("a rank did not say which it is"))
        self._wires[said.slot] = wire

    def prepare(self, asked: Prepare) -> Prepared:
        """Have all ranks prepare; return what rank 0 answered. Raises SetFailed."""
        answers = self._all(asked, Prepared, START_LIMIT_S)
        missing = tuple(dict.fromkeys(said for answer in answers for said in answer.missing))
        return dataclasses.replace(answers[0], missing=missing)

    def time(self, block: Block, expected_s: float) -> float:
        """Have all ranks time a block; return the seconds a call took, of the rank that took longest."""
        limit_s = ANSWER_LIMIT_S + SLOWER_MAX * expected_s
        answers = self._all(block, Timed, limit_s)
        taken_s = max(answer.wall_s for answer in answers) / block.calls
        if not 0 < taken_s < math.inf:
            raise SetFailed(f"the ranks say that a step took {taken_s} s: does the program change the clock?")
        return taken_s

    def close(self) -> None:
        """End all ranks and wait until they are gone."""
        for wire in self._wires.values():
            wire.close()
        self._arm.end()
        self._arm.close()

    def _all(self, told: Message, wanted: type[M], limit_s: float) -> list[M]:
        try:
            for wire in self._wires.values():
                wire.send(told)
        except OSError:
            raise SetFailed(self._why("a rank is gone")) from None
        deadline = time.monotonic() + limit_s
        answers: dict[int, M] = {}
        while len(answers) < len(self._wires):
            open_ones = [wire for slot, wire in self._wires.items() if slot not in answers]
            ready = _wait(open_ones, self._arm, deadline)
            if not ready:
                raise SetFailed(self._why(f"no answer within {limit_s:.0f} s"))
            for slot, wire in self._wires.items():
                if wire in ready:
                    answers[slot] = self._answer(slot, wire, wanted)
            if self._arm.connection in ready:
                self.hear()
        return [answers[slot] for slot in sorted(answers)]

    def _answer(self, slot: int, wire: Wire, wanted: type[M]) -> M:
        try:
            said = wire.receive()
        except ValueError as error:
            raise SetFailed(str(error)) from None
        if isinstance(said, wanted):
            return said
        if isinstance(said, Failed):
            raise (ProgramEnded if said.finished else SetFailed)(said.reason)
        raise SetFailed(self._why(f"rank {slot} is gone"))

    def hear(self) -> None:
        """Whatever the warden tells of the ranks while they are timed: none may end."""
        try:
            event = history.from_line(self._arm.connection.recv_bytes().decode())
        except (EOFError, OSError):
            raise SetFailed(self._why("the warden of the ranks is gone")) from None
        self._check(event)

    def _check(self, event: Event) -> None:
        match event:
            case Ended():
                raise SetFailed(self._why(_ended(event), event.slot))
            case Malfunction():
                raise SetFailed(event.message)
            case ArmEnded():
                raise SetFailed(self._why("all ranks have ended"))

    def _why(self, what: str, slot: int | None = None) -> str:
        """``what``, with the end of what the ranks (or the rank in ``slot``) said."""
        for event in self._told():
            if isinstance(event, Ended):
                what, slot = _ended(event), event.slot
                break
        slots = range(len(self._plan.ranks)) if slot is None else (slot,)
        for one in slots:
            tail = _tail(self._folder / f"rank{one}" / "stderr.log")
            if tail:
                return f"{what}; rank {one} said: {tail}"
        return what

    def _told(self) -> Iterator[Event]:
        """What the warden has said already, or says at once when a connection has just ended."""
        with contextlib.suppress(EOFError, OSError, ValueError):
            while self._arm.connection.poll(0.5):
                event = history.from_line(self._arm.connection.recv_bytes().decode())
                yield event
                if isinstance(event, ArmEnded):
                    return


def _ended(event: Ended) -> str:
    code = event.exit_code
    if code >= 0:
        return f"rank {event.slot} ended with exit code {code}"
    with contextlib.suppress(ValueError):
        return f"rank {event.slot} was ended by {signal.Signals(-code).name}"
    return f"rank {event.slot} was ended by signal {-code}"


def _tail(path: Path) -> str:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        return ""
    own = [line for line in lines if line.strip() and not line.startswith(_NOT_QUOTED)]
    return " / ".join(line.strip() for line in own[-_TAIL_LINES:])


@contextmanager
def started(plan: Plan, server: Server, folder: Path) -> Iterator[RankSet]:
    """Start the ranks of ``plan`` and wait until each has called; nothing of them stays at the end.

    Raises SetFailed, or LaunchFailed where the fork server does not come up.
    """
    private.folder(folder)
    home = Path(temporary.name(server.pid))  # whoever kills us: the server removes what has this name
    home.mkdir(mode=0o700)
    launch = _launch(plan, server, folder)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(str(home / "s"))
            listener.listen(len(plan.ranks))
            plan = _with_socket(plan, str(home / "s"))
            arm = server.start_arm(dataclasses.replace(launch, plan_text=codec.dump_plan(plan)))
            ranks = RankSet(plan, arm, folder)
            try:
                _wait_for_all(ranks, arm, listener, len(plan.ranks))
                yield ranks
            finally:
                ranks.close()
    finally:
        temporary.remove(str(home))
        temporary.remove(launch.temporary)  # a warden that was killed has not


def _launch(plan: Plan, server: Server, folder: Path) -> ArmLaunch:
    return ArmLaunch(
        arm_dir=str(folder), ranks=len(plan.ranks), target=TARGET, temporary=temporary.name(server.pid),
    )  # fmt: skip


def _with_socket(plan: Plan, path: str) -> Plan:
    added = (messages.SOCKET_VARIABLE, path)
    ranks = tuple(dataclasses.replace(rank, env=(*rank.env, added)) for rank in plan.ranks)
    return dataclasses.replace(plan, ranks=ranks)


def _wait(those: Sequence[Wire | socket.socket], arm: RunningArm, deadline: float) -> Sequence[object]:
    """Return those that can be read, the arm's connection among them; none: it is too late."""
    everything: Any = [*those, arm.connection]  # whatever has a fileno
    return wait(everything, max(0.0, deadline - time.monotonic()))


def _wait_for_all(ranks: RankSet, arm: RunningArm, listener: socket.socket, count: int) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    missing = count
    while missing:
        ready = _wait([listener], arm, deadline)
        if listener in ready:
            ranks.add(Wire(listener.accept()[0]))
            missing -= 1
        elif arm.connection in ready:
            ranks.hear()
        else:
            raise SetFailed(f"{missing} of {count} ranks did not start within {START_LIMIT_S:.0f} s")
