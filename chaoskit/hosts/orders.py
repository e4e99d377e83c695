"""Carries out what faults order of the network, and undoes it when its time is over."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import math
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from chaoskit.hosts import namespaces
from chaoskit.hosts.fabric import Fabric, Port
from chaoskit.hosts.layers import Layers, Undo
from chaoskit.network import HostPlan, Order


class Refused(Exception):
    """An order that makes no sense in this network; the text says why."""


class Orders:
    """``files`` are the hosts files by host; ``lost`` is told of a host that will not answer any more,
    ``back`` of one that does again: nothing stands any more that crashed or froze it.

    Several orders may stand at a time, for the same link too: the latest is in effect, and when it is
    undone, the one before it.
    """

    def __init__(
        self,
        fabric: Fabric,
        files: dict[str, Path],
        lost: Callable[[str], None],
        back: Callable[[str], None],
    ) -> None:
        self._fabric = fabric
        self._files = files
        self._rows = {host: path.read_text(encoding="utf-8") for host, path in files.items()}
        self._lost = lost
        self._back = back
        self._silenced: Counter[str] = Counter()  # by how many crashes and freezes, by host
        self._due: list[tuple[float, int, Order, Undo]] = []
        self._numbers = itertools.count(1)
        self._hidden: Counter[tuple[str, str]] = Counter()
        self._up = Layers[Port, bool](fabric.set_port, self._declared_up)
        self._rates = Layers[Port, float | None](fabric.set_rate, fabric.declared_rate)
        self._parts = Layers[Port, str](fabric.move, lambda _: "")
        self._deaf = Layers[tuple[str, str], bool](self._set_deaf, lambda _: False)
        self._open = Layers[tuple[str, int], bool](self._set_open, lambda _: False)
        self._closed = Layers[str, bool](fabric.only_let_through, lambda _: False)
        self._kinds: dict[str, Callable[[Order], Iterable[Undo]]] = {
            "port": self._port,
            "rate": self._rate,
            "partition": self._partition,
            "one-way": self._one_way,
            "only-port": self._only_port,
            "crash": self._crash,
            "freeze": self._freeze,
            "name": self._name,
        }

    def carry_out(self, order: Order) -> None:
        """Do it now. Raises Refused, or what the kernel refuses; then nothing of it stands."""
        with contextlib.ExitStack() as done:
            for undo in self._kinds[order.kind](order):
                done.callback(undo)
            undo_all = done.pop_all().close
        if math.isfinite(order.for_s):
            heapq.heappush(self._due, (time.monotonic() + order.for_s, next(self._numbers), order, undo_all))

    def next_due(self) -> float | None:
        """Return when the next order has to be undone (CLOCK_MONOTONIC)."""
        return self._due[0][0] if self._due else None

    def undo_due(self) -> list[str]:
        """Undo the orders whose time is over. Return what went wrong with it."""
        failed = []
        while self._due and self._due[0][0] <= time.monotonic():
            _, _, order, undo = heapq.heappop(self._due)
            try:
                undo()
            except Exception as error:  # noqa: BLE001 - pyroute2 raises many kinds, and the others wait
                failed.append(
                    f"the order {order.kind!r} of {order.host or 'hosts'} was not undone: {error!r}"
                )
        return failed

    # ------------------------------------------------------------ whom it means

    def _host(self, name: str) -> HostPlan:
        host = self._fabric.network.host(name)
        if host is None:
            have = ", ".join(h.name for h in self._fabric.network.hosts)
            raise Refused(f"there is no host {name!r}; there are {have}")
        return host

    def _ports(self, order: Order) -> list[Port]:
        host = self._host(order.host)
        ports = self._fabric.ports_of(host.name, order.nic)
        if not ports:
            raise Refused(f"{host.name} has no interface {order.nic or 'in a switch'}")
        return ports

    def _names(self) -> list[str]:
        return [h.name for h in self._fabric.network.hosts]

    def _declared_up(self, port: Port) -> bool:
        nic = self._fabric.plan_of(port)
        return nic is None or nic.port == "up"

    # ------------------------------------------------------------ kinds: each yields how it is undone

    def _port(self, order: Order) -> Iterator[Undo]:
        for port in self._ports(order):
            yield self._up.lay(port, False)

    def _rate(self, order: Order) -> Iterator[Undo]:
        if not order.rate_bps > 0:
            raise Refused(f"no link carries {order.rate_bps:g} bits per second")
        for port in self._ports(order):
            yield self._rates.lay(port, order.rate_bps)

    def _partition(self, order: Order) -> Iterator[Undo]:
        apart = list(dict.fromkeys(self._host(name).name for name in order.hosts))
        if not apart or len(apart) == len(self._names()):
            raise Refused("a partition needs hosts on both sides")
        part = str(next(self._numbers))
        for port in [port for host in apart for port in self._fabric.ports_of(host)]:
            yield self._parts.lay(port, part)

    def _one_way(self, order: Order) -> Iterator[Undo]:
        sender = self._host(order.host).name
        for other in self._names():
            if other != sender:
                yield self._deaf.lay((other, sender), True)

    def _set_deaf(self, pair: tuple[str, str], on: bool) -> None:
        self._fabric.drop_from(*pair, on=on)

    def _only_port(self, order: Order) -> Iterator[Undo]:
        if not 0 < order.port < 65536:
            raise Refused(f"there is no port {order.port}")
        for name in self._names():
            yield self._open.lay((name, order.port), True)
            yield self._closed.lay(name, True)

    def _set_open(self, place: tuple[str, int], on: bool) -> None:
        self._fabric.let_through(*place, on=on)

    def _crash(self, order: Order) -> Iterator[Undo]:
        host = self._host(order.host)
        yield self._silence(host.name)  # undone last
        for port in self._fabric.ports_of(host.name):  # first, so that the kernel's farewells reach nobody
            yield self._up.lay(port, False)
        self._signal(host.name, signal.SIGKILL)

    def _freeze(self, order: Order) -> Iterator[Undo]:
        host = self._host(order.host).name
        yield lambda: None if self._silenced[host] else self._signal(host, signal.SIGCONT)
        yield self._silence(host)  # told of before anybody can see its processes go on
        self._signal(host, signal.SIGSTOP)

    def _silence(self, host: str) -> Undo:
        """Count one order more that makes the host silent; return what counts it no more."""
        self._silenced[host] += 1

        def undo() -> None:
            self._silenced[host] -= 1
            if not self._silenced[host]:
                self._back(host)

        return undo

    def _signal(self, host: str, number: signal.Signals) -> None:
        """Send it to all processes on the host, again until no new one is found."""
        if number != signal.SIGCONT:
            self._lost(host)  # before anybody can see what becomes of its processes
        network = os.fstat(self._fabric.networks[host]).st_ino
        done = {os.getpid()}
        while new := [pid for pid in _processes_in(network) if pid not in done]:
            for pid in new:
                done.add(pid)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)

    def _name(self, order: Order) -> Iterator[Undo]:
        host = self._host(order.host).name
        if order.name not in _names_in(self._rows[host]):
            raise Refused(f"{host} does not know the name {order.name!r}")
        self._hide(host, order.name, 1)
        yield lambda: self._hide(host, order.name, -1)

    def _hide(self, host: str, name: str, more: int) -> None:
        self._hidden[host, name] += more
        before = self._rows[host]
        rows = before.splitlines(keepends=True)
        shown = "".join(row for row in rows if not any(self._hidden[host, n] for n in _names_in(row)))
        _rewrite(self._files[host], shown, len(before.encode()))


def _names_in(text: str) -> list[str]:
    return [name for row in text.splitlines() for name in row.split()[1:]]


def _processes_in(network: int) -> Iterator[int]:
    return (
        pid
        for pid in map(int, filter(str.isdecimal, os.listdir("/proc")))
        if namespaces.network_of(pid) == network
    )


def _rewrite(path: Path, text: str, size: int) -> None:
    """Change the file in place: a new file would not be the one that the hosts have mounted. By one write of
    the same size, so that nobody reads half of it."""
    data = text.encode()
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(fd, data + b"\n" * (size - len(data)), 0)
    finally:
        os.close(fd)
