"""The process called ``switch``: builds the network of an arm, carries out orders, sees links, tests paths.

A child of the warden, which holds the networks of the hosts. It talks with it, and with each rank that may
order something, over a socket that keeps messages apart. It ends with the warden.
"""

from __future__ import annotations

import contextlib
import json
import math
import selectors
import socket
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyroute2.netlink.rtnl.marshal import MarshalRtnl

from chaoskit import codec, history
from chaoskit.events import LinkChanged, Malfunction, PathTested
from chaoskit.hosts import paths
from chaoskit.hosts.fabric import RUNNING, Fabric, Port
from chaoskit.hosts.messages import BACK, FAILED, LOST, MESSAGE_BYTES, READY, TEST, TESTED
from chaoskit.hosts.orders import Orders, Refused
from chaoskit.network import Network, Order

_LINK_GROUP: Final = 1
_TO_READ_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Wiring:
    """What the switch is given: the networks and hosts files by host, its end of the socket to the warden,
    and of those to the ranks."""

    networks: Mapping[str, int]
    files: Mapping[str, Path]
    warden: socket.socket
    ranks: tuple[socket.socket, ...]


def run(network: Network, wiring: Wiring) -> None:
    """Build, say so, and serve until the warden is gone."""
    try:
        switch = _Switch(network, wiring)
    except Exception as error:  # noqa: BLE001 - the warden gives up the arm and tells
        traceback.print_exc()  # into its log
        wiring.warden.send(FAILED + repr(error).encode()[:4000])
        return
    with contextlib.suppress(BrokenPipeError):  # the warden is gone, and nobody is left to tell anything
        wiring.warden.send(READY)
        switch.serve()


class _Switch:
    def __init__(self, network: Network, wiring: Wiring) -> None:
        self._warden = wiring.warden
        self._fabric = Fabric(network, wiring.networks)
        self._links = _Links(self._fabric)
        self._fabric.build()
        self._links.begin()
        self._orders = Orders(self._fabric, dict(wiring.files), self._say_lost, self._say_back)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._warden, selectors.EVENT_READ)
        self._selector.register(self._links.socket, selectors.EVENT_READ)
        for rank in wiring.ranks:
            self._selector.register(rank, selectors.EVENT_READ)

    def serve(self) -> None:
        while True:
            due = self._do_what_is_due()
            timeout = None if math.isinf(due) else max(0.0, due - time.monotonic())
            for key, _ in self._selector.select(timeout):
                if key.fileobj is self._warden:
                    if not self._hear_warden():
                        return
                elif isinstance(key.fileobj, socket.socket) and key.fileobj is not self._links.socket:
                    self._hear_rank(key.fileobj)

    def _do_what_is_due(self) -> float:
        """Undo orders whose time is over and tell what changed; return when the next one is due."""
        for failure in self._orders.undo_due():
            self._say(Malfunction(time.monotonic(), -1, failure))
        self._tell(self._links.changed())
        due = self._orders.next_due()
        return math.inf if due is None else due

    def _tell(self, events: list[LinkChanged]) -> None:
        for event in events:
            self._say(event)

    def _say(self, event: LinkChanged | PathTested | Malfunction) -> None:
        self._warden.send(history.to_line(event).encode())

    def _say_lost(self, host: str) -> None:
        self._tell(self._links.changed())  # that its links went down came first, and may not be told later
        self._warden.send(LOST + host.encode())

    def _say_back(self, host: str) -> None:
        self._tell(self._links.changed())  # and that they are up again
        self._warden.send(BACK + host.encode())

    def _hear_warden(self) -> bool:
        said = self._warden.recv(MESSAGE_BYTES)
        if said == TEST:
            for event in paths.test(self._fabric, self._do_what_is_due):
                self._say(event)
            self._warden.send(TESTED)
        return bool(said)

    def _hear_rank(self, rank: socket.socket) -> None:
        said = rank.recv(MESSAGE_BYTES)
        if not said:
            self._selector.unregister(rank)
            return
        error = ""
        try:
            self._orders.carry_out(codec.decode(Order, json.loads(said)))
        except (Refused, ValueError, OSError) as refusal:
            error = str(refusal) or repr(refusal)
        except Exception as fault:  # noqa: BLE001 - pyroute2 raises many kinds; the rank is told
            error = repr(fault)
        try:
            rank.send(json.dumps({"error": error}).encode())
        except OSError:  # the order was to end that very rank
            self._selector.unregister(rank)


class _Links:
    """Sees the ports of the switches change, by the kernel's own messages."""

    def __init__(self, fabric: Fabric) -> None:
        """Made before the ports are, so that none of their changes is missed."""
        self._fabric = fabric
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _TO_READ_BYTES)
        self.socket.bind((0, _LINK_GROUP))
        self._marshal = MarshalRtnl()
        self._up: dict[Port, bool] = {}
        self._untold: list[LinkChanged] = []

    def begin(self) -> None:
        """All has been built: what came before that is no change, except that ports are down."""
        self._read()
        self._untold.clear()
        for port, up in self._up.items():
            if not up:
                self._note(port, up)

    def changed(self) -> list[LinkChanged]:
        """Return the changes that were not told yet, each of them, however short one lasted."""
        self._read()
        told, self._untold = self._untold, []
        return told

    def _read(self) -> None:
        by_index = {index: port for port, index in self._fabric.ports.items()}
        while True:
            try:
                data = self.socket.recv(MESSAGE_BYTES)
            except BlockingIOError:
                return
            except OSError:  # it had more to say than we had room for: ask for what has become of it
                self._see(self._fabric.running())
                continue
            for message in self._marshal.parse(data):
                port = by_index.get(message.get("index", -1))
                if port is not None and message.get("event") == "RTM_NEWLINK":
                    self._see({port: bool(message["flags"] & RUNNING)})

    def _see(self, states: dict[Port, bool]) -> None:
        for port, up in states.items():
            if self._up.get(port, True) != up:
                self._note(port, up)
            self._up[port] = up

    def _note(self, port: Port, up: bool) -> None:
        self._untold.append(LinkChanged(time.monotonic(), -1, *port, up))
