"""Measures what the links between hosts carry, in both directions, and says whose interface is too slow.

One rank of each host sends to one of the next host, all hosts at once; then the other way round. Short on
purpose, so it is rough: what it calls slow was slow three times, and this machine can do more.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Final

from chaoskit.guards.nic_card import Card, Device
from chaoskit.guards.nic_gathering import Gathering
from chaoskit.guards.nic_probe import Responder, Target, open_for_sending
from chaoskit.model import Culprit
from chaoskit.rates import measured_text

MOST_S: Final = 12.0
_SEND_S, _SEND_BYTES = 0.3, 32 << 20
_SKIP_S, _SKIP_BYTES = 0.1, 1 << 20
"""Not counted: slow start, and what a rate limiter lets pass at once."""
_RECEIVE_S = 0.4
_TRIES = 3
_CHUNK_BYTES = 1 << 18
_ENOUGH = 0.9
"""Headers take 6 %, and a short measurement is rough."""
_ABLE = 4
"""By how much this machine must be able to surpass what a link carried, for the link to be the limit."""
_MEETS_S = 3.0

Rates = Mapping[tuple[int, int], float]
"""Bits per second by the places of sender and receiver among the hosts; -1 is not known."""


def slow(
    mine: Card, cards: Sequence[Card], min_bps: float, responder: Responder, gathering: Gathering
) -> tuple[str, tuple[str, ...]] | None:
    """Measure, where this rank is the first of its host, and return what is wrong with its interface.

    The others wait: a group that forms meanwhile would disturb it, and time out on those who measure."""
    firsts: dict[str, Card] = {}
    for card in cards:
        firsts.setdefault(card.machine, card)
    hosts = list(firsts.values())
    if len(hosts) < 2 or not all(card.ends for card in hosts):
        return None
    until = time.monotonic() + MOST_S
    if mine not in hosts:
        gathering.wait_measured(until)
        return None
    here = hosts.index(mine)
    measured = {}
    for step in (1, -1) if len(hosts) > 2 else (1,):
        to, of = hosts[(here + step) % len(hosts)], hosts[(here - step) % len(hosts)]
        measured[hosts.index(of)] = _exchange(mine, to, of, min_bps, responder)
    told = gathering.rates(here, measured, len(hosts), until)
    if told is None:
        return None
    rates = {(of, to): bps for to, row in enumerate(told) for of, bps in row.items()}
    return _told(here, hosts, rates, min_bps) if here in guilty(rates, min_bps) else None


def _told(here: int, hosts: Sequence[Card], rates: Rates, min_bps: float) -> tuple[str, tuple[str, ...]]:
    """Say what is slow on the interface of ``here``: what it sends, else what it receives."""
    found = [(of != here, bps, of, to) for (of, to), bps in rates.items() if here in (of, to)]
    _, bps, of, to = min(row for row in found if _is_slow(row[1], min_bps))
    way, peer = ("to", hosts[to]) if of == here else ("from", hosts[of])
    nic = f"{hosts[here].host} {hosts[here].ends[0].interface}"
    line = f"{nic} carries {measured_text(bps)} {way} {peer.host}, below min_rate {measured_text(min_bps)}"
    return line, (str(Culprit("nic", nic)),)


def _is_slow(bps: float, min_bps: float) -> bool:
    return 0 <= bps < min_bps * _ENOUGH


def guilty(rates: Rates, min_bps: float) -> set[int]:
    """Return the hosts whose interface explains the slow links: those slow in all that was measured of them,
    and else the sender."""
    links = {pair for pair, bps in rates.items() if _is_slow(bps, min_bps)}
    known = {pair for pair, bps in rates.items() if bps >= 0}
    always = {host for pair in links for host in pair if all(p in links for p in known if host in p)}
    return always | {of for of, to in links if not always & {of, to}}


def _exchange(mine: Card, to: Card, of: Card, min_bps: float, responder: Responder) -> float:
    """Send to one host while receiving from another; return the rate at which it came, -1 where unknown."""
    sending = threading.Thread(target=_send, args=(mine.rank, to, mine.ends[0].device), daemon=True)
    sending.start()
    best = -1.0
    for _ in range(_TRIES):
        bps = _receive(of.rank, responder, min_bps)
        if bps < 0:
            break
        best = max(best, bps)
        if not _is_slow(best, min_bps):
            break
    sending.join(_MEETS_S)
    if _is_slow(best, min_bps) and _own_rate(mine, responder) < best * _ABLE:
        return -1.0  # this machine is no faster, whatever the link can do
    return best


def _own_rate(mine: Card, responder: Responder) -> float:
    sending = threading.Thread(target=_send, args=(mine.rank, mine, mine.ends[0].device), daemon=True)
    sending.start()
    bps = _receive(mine.rank, responder, 0.0)
    sending.join(_MEETS_S)
    return bps


def _send(rank: int, to: Card, device: Device) -> None:
    """Send until the receiver has enough, at most three times."""
    end = to.end(device)
    if end is None:
        return
    target = Target(end.family, end.ip, end.port, end.scope, bytes.fromhex(to.token))
    data = memoryview(bytes(_CHUNK_BYTES))
    with contextlib.suppress(OSError):  # the receiver says what it has got
        for _ in range(_TRIES):
            with contextlib.closing(open_for_sending(rank, target, _MEETS_S)) as connection:
                connection.settimeout(_SEND_S)
                _pour(connection, data)
                connection.settimeout(_MEETS_S)
                again = connection.recv(1) == b"+"
            if not again:
                return


def _pour(connection: socket.socket, data: memoryview) -> None:
    sent, until = 0, time.monotonic() + _SEND_S
    with contextlib.suppress(TimeoutError):
        while sent < _SEND_BYTES and time.monotonic() < until:
            sent += connection.send(data)
        connection.shutdown(socket.SHUT_WR)


def _receive(of: int, responder: Responder, min_bps: float) -> float:
    """Return at what rate rank ``of`` sends; -1 where it does not come."""
    until = time.monotonic() + _MEETS_S
    others = []
    try:
        while True:
            rank, connection = responder.senders.get(timeout=max(0.001, until - time.monotonic()))
            if rank == of:
                break
            others.append((rank, connection))
    except queue.Empty:
        return -1.0
    finally:
        for other in others:
            responder.senders.put(other)
    with contextlib.closing(connection):
        try:
            bps = _measure(connection)
            connection.send(b"+" if _is_slow(bps, min_bps) else b".")
        except OSError:
            return -1.0
        connection.settimeout(1.0)
        with contextlib.suppress(OSError):
            while connection.recv(_CHUNK_BYTES):  # until the sender has read that, and closes
                pass
    return bps


def _measure(connection: socket.socket) -> float:
    buffer = bytearray(_CHUNK_BYTES)
    connection.settimeout(_RECEIVE_S)
    total = connection.recv_into(buffer)
    begun = now = time.monotonic()
    counted_from: tuple[float, int] | None = None
    with contextlib.suppress(TimeoutError):
        while now - begun < _RECEIVE_S:
            got = connection.recv_into(buffer)
            now = time.monotonic()
            if not got:
                break
            total += got
            if counted_from is None and (total >= _SKIP_BYTES or now - begun >= _SKIP_S):
                counted_from = now, total
    since, skipped = counted_from or (begun, 0)
    took_s = max(time.monotonic(), now) - since if counted_from is None else now - since
    return (total - skipped) * 8 / max(took_s, 1e-6)
