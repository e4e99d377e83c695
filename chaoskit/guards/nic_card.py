"""What ranks tell one another before they try to connect, and who tries to connect to whom. Pure: no sockets,
no store, no clock."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from chaoskit.guards.nic_choice import BackendName, By

Why = Literal["refused", "unreachable", "no answer", "silent", "closed", "other", "family", "missing"]
"""How an attempt failed: refused; no way there (``detail`` is the system's word); nothing came back; it
connected and heard nothing; it was closed; somebody else answered (``detail`` is who); the two addresses
are of different families, which gloo refuses; the other rank has no such device at all."""
Device = tuple[BackendName, int]


@dataclass(frozen=True, slots=True)
class End:
    """One device of a backend on one rank, and where it listens now in its place."""

    backend: BackendName
    number: int
    interface: str
    family: int
    ip: str
    scope: int
    port: int
    by: By

    @property
    def device(self) -> Device:
        return self.backend, self.number

    @property
    def order(self) -> bytes:
        """gloo compares addresses as bytes."""
        return socket.inet_pton(self.family, self.ip)

    @property
    def place(self) -> str:
        return f"{self.interface} {self.ip}"


@dataclass(frozen=True, slots=True)
class Other:
    """Another interface, where the rank listens too."""

    interface: str
    family: int
    ip: str
    port: int


@dataclass(frozen=True, slots=True)
class Card:
    """One rank. ``machine`` tells hosts of one name apart; ``token`` is what it answers with, and nobody else
    can; ``lazy``: it connects when it first needs to, so that some pairs may never."""

    rank: int
    host: str
    machine: str
    token: str
    lazy: bool
    ends: tuple[End, ...]
    others: tuple[Other, ...]

    def end(self, device: Device) -> End | None:
        return next((end for end in self.ends if end.device == device), None)

    def has_address(self, ip: str) -> bool:
        return ip in {*(end.ip for end in self.ends), *(other.ip for other in self.others)}

    def to_json(self) -> str:
        ends = [[e.backend, e.number, e.interface, e.family, e.ip, e.scope, e.port, e.by] for e in self.ends]
        others = [[o.interface, o.family, o.ip, o.port] for o in self.others]
        return json.dumps([self.rank, self.host, self.machine, self.token, self.lazy, ends, others])

    @classmethod
    def from_json(cls, text: str | bytes) -> Card:
        rank, host, machine, token, lazy, ends, others = json.loads(text)
        every = tuple(End(*e) for e in ends), tuple(Other(*o) for o in others)
        return cls(rank, host, machine, token, lazy, *every)


@dataclass(frozen=True, slots=True)
class Attempt:
    """``source`` connects to a device of ``target``."""

    source: int
    target: int
    device: Device


@dataclass(frozen=True, slots=True)
class Failure:
    """An attempt that failed. ``answers``: the addresses of the target's other interfaces that did answer."""

    attempt: Attempt
    why: Why
    detail: str = ""
    answers: tuple[tuple[str, str], ...] = ()

    def row(self) -> list[object]:
        a = self.attempt
        return [a.source, a.target, *a.device, self.why, self.detail, [list(pair) for pair in self.answers]]

    @classmethod
    def from_row(cls, row: Sequence[object]) -> Failure:
        source, target, backend, number, why, detail, answers = row
        device: Device = (backend, number)  # type: ignore[assignment]  # as row() wrote it
        pairs = tuple((str(name), str(ip)) for name, ip in answers)  # type: ignore[attr-defined]
        return cls(Attempt(source, target, device), why, str(detail), pairs)  # type: ignore[arg-type]


def to_rows(failures: Iterable[Failure]) -> str:
    return json.dumps([failure.row() for failure in failures])


def from_rows(text: str | bytes) -> list[Failure]:
    return [Failure.from_row(row) for row in json.loads(text)]


def attempts(mine: Card, cards: Sequence[Card]) -> list[Attempt]:
    """Return what the rank of ``mine`` tries, beginning with its neighbour, so that not all knock at one door
    at once."""
    found = []
    for theirs in sorted(cards, key=lambda card: (card.rank - mine.rank) % len(cards)):
        for end in mine.ends if theirs.rank != mine.rank else ():
            other = theirs.end(end.device)
            if other is not None and _connects(mine.rank, end, theirs.rank, other):
                found.append(Attempt(mine.rank, theirs.rank, end.device))
    return found


def _connects(rank: int, end: End, other_rank: int, other: End) -> bool:
    """gloo has one connection for each pair: the side with the larger address makes it. NCCL has both."""
    if end.backend == "nccl":
        return True
    return end.family == other.family and (end.order, rank) > (other.order, other_rank)


def impossible(mine: Card, cards: Sequence[Card]) -> list[Failure]:
    """Return what fails without trying, with ranks after this one: gloo takes devices one by one, and refuses
    addresses of different families."""
    found = []
    for theirs in cards:
        ours, others = _gloo_devices(mine), _gloo_devices(theirs)
        if theirs.rank <= mine.rank or not ours or not others:
            continue
        for device in sorted(ours | others):
            one, other = mine.end(device), theirs.end(device)
            if one is None or other is None:
                source, target = (theirs.rank, mine.rank) if one is None else (mine.rank, theirs.rank)
                found.append(Failure(Attempt(source, target, device), "missing"))
            elif one.family != other.family:
                found.append(Failure(Attempt(mine.rank, theirs.rank, device), "family"))
    return found


def _gloo_devices(card: Card) -> set[Device]:
    return {end.device for end in card.ends if end.backend == "gloo"}
