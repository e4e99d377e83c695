"""One check of the interfaces in one rank, from the first word in the store to what was found.

Runs on a thread of its own. Never raises and ends nothing: what it found is for the guard to act on.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaoskit.guards import interfaces, nic_choice, nic_rate, nic_verdict
from chaoskit.guards.early_store import Place, open_store
from chaoskit.guards.nic_card import Card, End, Failure, Other, attempts, impossible
from chaoskit.guards.nic_gathering import LEAVE_S, Gathering
from chaoskit.guards.nic_probe import TOKEN_BYTES, Reply, Responder, Target, knock, listen_on

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

_LOOK_S = 3.0
_GRACE_S = 2.0
"""How long after the last possible moment of an attempt a busy rank may still report it."""
_LOOKED_AT_MAX = 8
"""Pairs for which other interfaces are tried: one line names no more of them anyway."""

Said = tuple[str, tuple[str, ...]]
"""A message, and what it blames."""


@dataclass(frozen=True, slots=True)
class Terms:
    """``rate_bps`` is the least that a link has to carry; 0: not measured."""

    connect_s: float
    wait_s: float
    rate_bps: float = 0.0

    @property
    def look_s(self) -> float:
        return min(self.connect_s, _LOOK_S)

    @property
    def grace_s(self) -> float:
        return max(_GRACE_S, self.connect_s / 2)

    @property
    def most_s(self) -> float:
        """How long it can take, with a store that keeps its timeouts."""
        rate_s = nic_rate.MOST_S if self.rate_bps else 0.0
        return self.wait_s + self.connect_s + self.look_s + 2 * self.grace_s + rate_s


@dataclass(frozen=True, slots=True)
class Finding:
    """What came out. All empty: nothing to say, as all is well or it is not this guard's business."""

    fatal: Said | None = None
    noticed: Said | None = None
    unknown: str = ""


class Checking:
    """``finding`` is None until it is over."""

    def __init__(
        self, terms: Terms, place: Place, taken: int, rank: int, world_size: int, given: Mapping[str, Any]
    ) -> None:
        self.finding: Finding | None = None
        self._terms = terms
        self._place = place
        self._taken = taken
        self._rank = rank
        self._world_size = world_size
        self._given = given
        self._store: Store | None = None
        self._gathering: Gathering | None = None

    def run(self) -> None:
        """Check, and set ``finding``."""
        finding = Finding()
        try:
            finding = self._check()
        except RuntimeError:  # of the store: whoever needs it next says so better
            self._give_up()
        except Exception as error:  # noqa: BLE001 - a check that breaks must not end a healthy job
            self._give_up()
            finding = Finding(noticed=(f"the check of the interfaces broke ({error!r})", ()))
        self.finding = finding

    def leave_together(self) -> None:
        """After a fatal finding: wait, but not for long, until all ranks have said it. A launcher ends the
        others when it sees the first one go."""
        if self._gathering is not None:
            leaving = threading.Thread(target=self._gathering.leave_together, daemon=True)
            leaving.start()
            leaving.join(LEAVE_S + 0.5)

    def _give_up(self) -> None:
        if self._gathering is not None:
            self._gathering.give_up()

    def _check(self) -> Finding:
        until = time.monotonic() + self._terms.wait_s
        store = self._store = self._place.store or _open(self._place, until)
        self._gathering = gathering = Gathering(store, self._taken, self._rank, self._world_size)
        token = secrets.token_bytes(TOKEN_BYTES)
        with _answering(token) as (responder, begin):
            mine, unknown = _card(self._given, self._rank, token, responder)
            begin()
            cards = gathering.cards(mine, until)
            found = Finding() if cards is None else self._try(mine, cards, responder, gathering)
            return replace(found, unknown=unknown)

    def _try(self, mine: Card, cards: list[Card], responder: Responder, gathering: Gathering) -> Finding:
        terms, begun = self._terms, time.monotonic()
        wanted = attempts(mine, cards)
        targets = [_target(cards[a.target], cards[a.target].end(a.device)) for a in wanted]
        replies = knock(self._rank, targets, terms.connect_s)
        failing = [Failure(a, r.why, r.detail) for a, r in zip(wanted, replies, strict=True) if r.why]
        failing += impossible(mine, cards)
        _still_whole(responder)
        everywhere = gathering.report(failing, begun + terms.connect_s + terms.grace_s)
        if everywhere is None:
            return Finding()
        if everywhere:
            return self._look_again(failing, cards, responder, gathering)
        if terms.rate_bps:
            slow = nic_rate.slow(mine, cards, terms.rate_bps, responder, gathering)
            return Finding(noticed=slow)
        return Finding()

    def _look_again(
        self, failing: Sequence[Failure], cards: list[Card], responder: Responder, gathering: Gathering
    ) -> Finding:
        """Believe nothing that happened once, and find out what would work."""
        until = time.monotonic() + self._terms.look_s + self._terms.grace_s
        still = _second_look(self._rank, failing, cards, self._terms.look_s)
        _still_whole(responder)
        told = gathering.report_again(still, responder.heard(), until)
        if told is None:
            return Finding()
        failures = nic_verdict.believed(*told)
        if not failures:
            return Finding()
        found = nic_verdict.verdict(failures, cards)
        if not found.certain:
            return Finding(noticed=(found.message, found.blames) if self._rank == 0 else None)
        return Finding(fatal=(found.message, found.blames))


def _second_look(
    rank: int, failing: Sequence[Failure], cards: Sequence[Card], within_s: float
) -> list[Failure]:
    """Knock at the same doors again, and at those of the other interfaces; return what fails still."""
    knocks: list[tuple[int, str, str, Target]] = []  # which failure, interface and address of another one
    for at, failure in enumerate(failing):
        theirs = cards[failure.attempt.target]
        if failure.why not in ("family", "missing"):
            knocks.append((at, "", "", _target(theirs, theirs.end(failure.attempt.device))))
        if at < _LOOKED_AT_MAX and failure.why != "missing":
            knocks += [(at, other.interface, other.ip, _target(theirs, other)) for other in theirs.others]
    replies = knock(rank, [target for *_, target in knocks], within_s)
    again: dict[int, Reply] = {}
    answers: dict[int, list[tuple[str, str]]] = {}
    for (at, name, ip, _), reply in zip(knocks, replies, strict=True):
        if not name:
            again[at] = reply
        elif reply.why is None:
            answers.setdefault(at, []).append((name, ip))
    still = []
    for at, failure in enumerate(failing):
        reply = again.get(at, Reply(failure.why, failure.detail))
        if reply.why is not None:
            seen = tuple(answers.get(at, ()))
            still.append(replace(failure, why=reply.why, detail=reply.detail, answers=seen))
    return still


def _target(card: Card, end: End | Other | None) -> Target:
    assert end is not None
    scope = end.scope if isinstance(end, End) else 0
    return Target(end.family, end.ip, end.port, scope, bytes.fromhex(card.token))


def _still_whole(responder: Responder) -> None:
    """A rank that cannot answer must not look unreachable. Raises what broke it."""
    if responder.broken is not None:
        raise responder.broken


@contextlib.contextmanager
def _answering(token: bytes) -> Iterator[tuple[Responder, Callable[[], None]]]:
    """Yield a responder, and what starts it once it listens."""
    responder = Responder(token)
    try:
        yield responder, responder.start
    finally:
        responder.close()


def _card(given: Mapping[str, Any], rank: int, token: bytes, responder: Responder) -> tuple[Card, str]:
    """Listen in the place of the backends; return this rank's card, and what cannot be known here."""
    addresses = interfaces.addresses()
    unknown = ""
    try:
        chosen = nic_choice.choices(given, addresses)
    except nic_choice.Unknown as reason:
        chosen, unknown = [], str(reason)
    ends = []
    for choice in chosen:
        a = choice.address
        port = responder.listen(a.family, a.ip, a.scope)
        ends.append(End(choice.backend, choice.number, a.interface, a.family, a.ip, a.scope, port, choice.by))
    besides = nic_choice.others(chosen, addresses) if chosen else []
    ports = listen_on(responder, [(a.family, a.ip, 0) for a in besides])
    others = [Other(a.interface, a.family, a.ip, p) for a, p in zip(besides, ports, strict=True) if p]
    lazy = os.environ.get("TORCH_GLOO_LAZY_INIT", "0").lower() not in ("", "0", "false", "off", "no", "n")
    host = socket.gethostname()
    return Card(rank, host, _machine(host), token.hex(), lazy, tuple(ends), tuple(others)), unknown


def _machine(host: str) -> str:
    """Return what no other host, and no container with a network of its own, is called."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{host}/{boot}/{os.stat('/proc/self/ns/net').st_ino}"
    except OSError:
        return host


def _open(place: Place, until: float) -> Store:
    """Open the store as soon as it listens. Raises RuntimeError."""
    pause_s = 0.02
    while not place.hosted_here:
        left_s = until - time.monotonic()
        with contextlib.suppress(OSError):  # not yet
            socket.create_connection((place.host, place.port), timeout=max(0.05, min(5.0, left_s))).close()
            break
        if left_s <= pause_s:
            raise RuntimeError("the store does not listen")
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.3, 0.25)
    return open_store(place.host, place.port, until - time.monotonic(), serve=place.hosted_here)
