"""What the one that measures and its ranks tell each other: values, a line of JSON each, over a socket.

A rank says Hello, is told to Prepare and answers Prepared, then times a Block whenever it is told to and
answers Timed; in between it rests in a read. Failed or the end of the connection may come at any time.
"""

from __future__ import annotations

import dataclasses
import json
import socket
from collections.abc import Callable
from dataclasses import dataclass

NOT_APPLICABLE = "not applicable here"
"""What a guard without effect says of itself, behind its name."""
SOCKET_VARIABLE = "CHAOSKIT_TIMING"
"""Where a rank finds the path of the socket."""


@dataclass(frozen=True, slots=True)
class Hello:
    """The rank in ``slot`` is there."""

    slot: int


@dataclass(frozen=True, slots=True)
class Prepare:
    """Form the process groups and make what is timed; the fields as in chaoskit.cost.values.

    ``toggles`` and ``variables`` have an entry per side that is timed in these ranks; ``variables`` are set
    while the group of that side forms. ``batch`` 0: find the one that gives ``compute_ratio``.
    """

    kind: str
    op: str = ""
    nbytes: int = 0
    toggles: tuple[str, ...] = ("",)
    variables: tuple[tuple[tuple[str, str], ...], ...] = ((),)
    every: int = 0
    layers: int = 0
    bucket_bytes: int = 0
    compute_ratio: float = 0.0
    batch: int = 0
    backend: str = "gloo"
    windowed: bool = False  # several operations at a time, so that there is something to serialise


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is in effect here, as it was read back, what is not; and the batch that was found.

    ``proofs`` holds on all sides that are timed here, ``sides`` of each what it has beyond that.
    """

    proofs: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    batch: int = 0
    sides: tuple[tuple[str, ...], ...] = ((),)


@dataclass(frozen=True, slots=True)
class Block:
    """Time ``calls`` calls (or steps) of ``side``, after ``lead`` that are not timed.

    The lead pays for the caches and lets the ranks begin together. It differs from block to block, by chance:
    what comes every second or every tenth step would else be timed never, or always.
    """

    side: int
    calls: int
    lead: int = 1


@dataclass(frozen=True, slots=True)
class Timed:
    """Seconds of wall time that the calls took on this rank."""

    wall_s: float


@dataclass(frozen=True, slots=True)
class Failed:
    """What was asked cannot be done on this rank, or its program has ended."""

    reason: str
    finished: bool = False  # a user's program that is through


Message = Hello | Prepare | Prepared | Block | Timed | Failed
_KINDS: dict[str, type[Message]] = {
    kind.__name__: kind for kind in (Hello, Prepare, Prepared, Block, Timed, Failed)
}


def encode(message: Message) -> bytes:
    return json.dumps({"is": type(message).__name__, **dataclasses.asdict(message)}).encode() + b"\n"


def decode(line: bytes) -> Message:
    """Raises ValueError for what is none of these."""
    try:
        found = json.loads(line)
        kind: Callable[..., Message] = _KINDS[found.pop("is")]
        message = kind(**{name: _frozen(value) for name, value in found.items()})
        if not all(_fits(getattr(message, f.name), str(f.type)) for f in dataclasses.fields(message)):
            raise TypeError("a field is of another type")
        return message
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"not a message of a timed rank: {line[:200]!r}") from error


def _fits(value: object, declared: str) -> bool:
    """Return whether a value is of the type that the field declares; of a tuple only that it is one."""
    if declared == "bool" or isinstance(value, bool):
        return declared == "bool" and isinstance(value, bool)
    return isinstance(value, _TYPES.get(declared, (tuple,)))


_TYPES: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "str": (str,)}


def _frozen(value: object) -> object:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


class Wire:
    """One end of the connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._read = b""

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, message: Message) -> None:
        """Raises OSError where the other side is gone."""
        self._socket.sendall(encode(message))

    def receive(self) -> Message | None:
        """Return the next message, waiting for it; None at the end of the connection."""
        while b"\n" not in self._read:
            try:
                part = self._socket.recv(65536)
            except ConnectionError:
                return None
            if not part:
                return None
            self._read += part
        line, _, self._read = self._read.partition(b"\n")
        return decode(line)

    def close(self) -> None:
        self._socket.close()


def connect(path: str) -> Wire:
    """Raises OSError."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(path)
    return Wire(connection)
