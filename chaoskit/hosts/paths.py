"""Tests whether hosts reach one another: TCP connections between them all at once, with some data.

Runs in the switch's process, with sockets made in the networks of the hosts. Says what it saw; blames nobody.
"""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from chaoskit.events import PathState, PathTested
from chaoskit.hosts.fabric import Fabric, Port
from chaoskit.network import HostPlan, Network
from chaoskit.sidecar.processes import run_delay_s

LIMIT_S: Final = 0.8
"""An answer over a link of this machine takes less than a millisecond; TCP asks again after 1 s."""
PAYLOAD_BYTES: Final = 1 << 16
"""What has to arrive within LIMIT_S; a link that carries less than that (0.6 Mbit/s) is called slow."""
PATHS_MAX: Final = 300
"""Where there are more paths than that, each host is tested with some others only: see :func:`partners`."""
_WAITED_MAX_S: Final = 0.6
_CATCHING_UP_S: Final = 1.0
_SHARE: Final = 0.5


def partners(network: Network) -> Iterator[tuple[HostPlan, HostPlan]]:
    """Yield pairs of hosts (from, to): all, or of many hosts those that are 1, 2, 4, 8, … places apart.

    Then too every host is tested in both directions with several others, and no part of the hosts is tested
    within itself only.
    """
    hosts, count = network.hosts, len(network.hosts)
    nics = max((sum(bool(nic.switch) for nic in host.nics) for host in hosts), default=0)
    places = set(range(1, count))
    if count * (count - 1) * nics > PATHS_MAX:
        apart = {1 << power for power in range(count.bit_length()) if 1 << power < count}
        places = apart | {count - place for place in apart}
    for number, host in enumerate(hosts):
        for place in sorted(places):
            yield host, hosts[(number + place) % count]


@dataclass(slots=True)
class _Path:
    host: str
    to: str
    nic: str
    sender: socket.socket
    begun: float = 0.0
    left: int = PAYLOAD_BYTES
    state: PathState = "silent"
    took_s: float = LIMIT_S
    receiver: socket.socket | None = None
    arrived: int = 0


_Ends = tuple[str, int, str, int]
"""Address and port of the one who connects and of the one who listens."""


@dataclass(slots=True)
class _Round:
    """All paths of one test."""

    fabric: Fabric
    selector: selectors.BaseSelector
    stack: contextlib.ExitStack
    paths: list[_Path] = field(default_factory=list)
    open: int = 0
    _by_ends: dict[_Ends, _Path] = field(default_factory=dict)

    def begin(self) -> None:
        """Let all hosts listen, then let them connect."""
        listeners = self._listeners()
        host = ""
        for source, target in partners(self.fabric.network):
            if source.name != host:
                host = source.name
                self.fabric.enter(host)
            for nic in target.nics:
                listener = listeners.get((target.name, nic.name))
                if listener is not None and source.nic(nic.name) is not None:
                    sender = socket.socket(listener.family)
                    self._connect(_Path(source.name, target.name, nic.name, sender), listener)

    def _listeners(self) -> dict[Port, socket.socket]:
        found = {}
        for host in self.fabric.network.hosts:
            self.fabric.enter(host.name)
            for nic in host.nics:
                if nic.switch:
                    family = socket.AF_INET6 if ":" in nic.ip else socket.AF_INET
                    listener = socket.create_server((nic.ip, 0), family=family, backlog=1024)
                    listener.setblocking(False)
                    self.stack.callback(listener.close)
                    self.selector.register(listener, selectors.EVENT_READ, None)
                    found[host.name, nic.name] = listener
        return found

    def _connect(self, path: _Path, listener: socket.socket) -> None:
        sender = path.sender
        self.stack.callback(sender.close)
        self.paths.append(path)
        sender.setblocking(False)
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * PAYLOAD_BYTES)
        address = listener.getsockname()[:2]
        path.begun = time.monotonic()
        code = sender.connect_ex(address)
        if code not in (0, errno.EINPROGRESS):
            path.state, path.took_s = _meaning(code), 0.0
            return
        self._by_ends[(*sender.getsockname()[:2], *address)] = path
        self.open += 1
        self.selector.register(sender, selectors.EVENT_WRITE, path)

    def turn(self, timeout: float) -> bool:
        """Take in what has happened within ``timeout``. Return whether anything has."""
        ready = self.selector.select(timeout)
        for key, _ in ready:
            path = key.data
            if path is None:
                assert isinstance(key.fileobj, socket.socket)
                self._accept(key.fileobj)
            elif key.fileobj is path.sender:
                self._send(path)
            else:
                self._receive(path)
        return bool(ready)

    def _accept(self, listener: socket.socket) -> None:
        """Take all who have come. Who connects from where is known: addresses alone may be equal on several
        hosts."""
        ours = listener.getsockname()[:2]
        with contextlib.suppress(OSError):
            while True:
                receiver, peer = listener.accept()
                self.stack.callback(receiver.close)
                receiver.setblocking(False)
                path = self._by_ends.get((*peer[:2], *ours))
                if path is not None:
                    path.receiver = receiver
                    self.selector.register(receiver, selectors.EVENT_READ, path)

    def _send(self, path: _Path) -> None:
        error = path.sender.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            self._settle(path, _meaning(error))
            return
        path.state = "slow"  # it is connected
        try:
            path.left -= path.sender.send(b"\0" * path.left)
        except BlockingIOError:
            return
        except OSError as failure:
            self._settle(path, _meaning(failure.errno or 0))
            return
        if path.left == 0:
            self.selector.unregister(path.sender)

    def _receive(self, path: _Path) -> None:
        assert path.receiver is not None
        with contextlib.suppress(OSError):
            path.arrived += len(path.receiver.recv(PAYLOAD_BYTES))
            if path.arrived >= PAYLOAD_BYTES:
                self._settle(path, "open")

    def _settle(self, path: _Path, state: PathState) -> None:
        path.state, path.took_s = state, time.monotonic() - path.begun
        self.open -= 1
        for end in (path.sender, path.receiver):
            if end is not None and end in self.selector.get_map():
                self.selector.unregister(end)


def _meaning(error: int) -> PathState:
    return "silent" if error in (errno.ETIMEDOUT, errno.EHOSTUNREACH) else "refused"


def test(fabric: Fabric, meanwhile: Callable[[], float]) -> list[PathTested]:
    """Return what became of a connection over each path that there should be; takes LIMIT_S, unless this
    process itself was kept from running.

    ``meanwhile`` does what else is due and says when to call it again (CLOCK_MONOTONIC).
    """
    with contextlib.ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        round_ = _Round(fabric, selector, stack)
        try:
            round_.begin()
        finally:
            fabric.enter("")
        begun, delay_s = time.monotonic(), _waited_s()
        until = begun + LIMIT_S
        while round_.open:
            now = time.monotonic()
            if now >= until:  # but time in which there was no core for us counts for nothing
                until = begun + LIMIT_S + min(_waited_s() - delay_s, _WAITED_MAX_S)
                if now >= until:
                    break
            round_.turn(max(0.0, min(until, meanwhile()) - now))
        # What has arrived by now has, though on a loaded machine we have not come to look at it.
        late = time.monotonic() + _CATCHING_UP_S
        while round_.open and time.monotonic() < late and round_.turn(0.0):
            pass
        now = time.monotonic()
        load = Counter((host, p.nic) for p in round_.paths for host in (p.host, p.to))
        return [
            PathTested(now, -1, p.host, p.to, p.nic, _state(fabric, p, load), p.took_s) for p in round_.paths
        ]


def _waited_s() -> float:
    """How long this process has been ready to run, and did not."""
    return run_delay_s(os.getpid()) or 0.0


def _state(fabric: Fabric, path: _Path, load: Counter[Port]) -> PathState:
    """A link that was declared to be slow is open when it is."""
    if path.state != "slow":
        return path.state
    for port in ((path.host, path.nic), (path.to, path.nic)):
        rate = fabric.declared_rate(port)
        if rate is not None and load[port] / 2 * PAYLOAD_BYTES * 8 / rate > _SHARE * LIMIT_S:
            return "open"
    return "slow"
