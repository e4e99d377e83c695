"""A small arm without ranks for tests: networks, their switch, and processes of the test on the hosts.

The test's own process only forks: what enters a namespace is a child, which ends with the test. ``in_child``
runs a test's body in such a child and brings back what went wrong.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaoskit import codec, history
from chaoskit.events import Event, LinkChanged, PathTested
from chaoskit.hosts import namespaces
from chaoskit.hosts.namespaces import Doorway
from chaoskit.network import Network, Nic, Order, plan_network

LIMIT_S = 30.0
"""A loaded machine stalls for seconds."""
SILENT_S = 0.4
"""So long nothing arrives that would have come within a millisecond."""


def in_child(body: Callable[[], None], *, user_namespace: bool = False) -> None:
    """Run ``body`` in a forked child; raise AssertionError with the child's traceback."""
    reader, writer = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        said = ""
        try:
            ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
            if os.getppid() == parent:
                if user_namespace:
                    namespaces.own_user_namespace()
                body()
        except BaseException:
            said = traceback.format_exc()
        finally:
            with open(writer, "w") as out:
                out.write(said)
            os._exit(0)
    os.close(writer)
    with open(reader) as wanted:
        said = wanted.read()
    os.waitpid(pid, 0)
    assert not said, said


@dataclass
class Arm:
    """``order`` is carried out by the real switch; what it says comes to ``heard``."""

    network: Network
    folder: Path
    networks: dict[str, int] = field(default_factory=dict)
    heard: list[Event | str] = field(default_factory=list)

    def __post_init__(self) -> None:
        from chaoskit.hosts import switch

        self.files = {host.name: self.folder / host.name for host in self.network.hosts}
        for host in self.network.hosts:
            rows = "".join(f"{address}\t{name}\n" for address, name in host.names)
            self.files[host.name].write_text(rows)
        self.networks = {host.name: namespaces.new_network() for host in self.network.hosts}
        self.here = namespaces.new_network()
        self.warden, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.rank, switchs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        wiring = switch.Wiring(self.networks, self.files, theirs, (switchs,))
        self.pid = os.fork()
        if self.pid == 0:
            self.warden.close()
            self.rank.close()
            try:
                switch.run(self.network, wiring)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)
        theirs.close()
        switchs.close()
        self.first = self._receive(self.warden)

    def order(self, kind: Any, host: str = "", **settings: Any) -> str:
        """Return the error's text, '' where all went well."""
        self.rank.send(json.dumps(codec.encode(Order(kind, host, **settings))).encode())
        error: str = json.loads(self._receive(self.rank))["error"]
        return error

    def test(self) -> dict[tuple[str, str, str], PathTested]:
        """Return the paths by (from, to, interface)."""
        self.warden.send(b"test")
        self.hear(lambda: "tested" in self.heard)
        self.heard.remove("tested")
        found = [e for e in self.heard if isinstance(e, PathTested)]
        self.heard = [e for e in self.heard if not isinstance(e, PathTested)]
        return {(e.host, e.to, e.nic): e for e in found}

    def links(self) -> list[tuple[str, str, bool]]:
        return [(e.host, e.nic, e.up) for e in self.heard if isinstance(e, LinkChanged)]

    def hear(self, enough: Callable[[], bool]) -> None:
        """Take in what the switch says until that is enough."""
        while not enough():
            said = self._receive(self.warden)
            assert said, "the switch has ended"
            is_event = said.startswith((b"{", b"["))
            self.heard.append(history.from_line(said.decode()) if is_event else said.decode())

    def hear_nothing(self) -> None:
        assert not select.select([self.warden], [], [], SILENT_S)[0], self.warden.recv(65536)

    def _receive(self, end: socket.socket) -> bytes:
        assert select.select([end], [], [], LIMIT_S)[0], "the switch says nothing"
        return end.recv(65536)

    @contextlib.contextmanager
    def on(self, host: str) -> Iterator[None]:
        """Be in the network of ``host``, to make sockets there."""
        namespaces.enter_network(self.networks[host])
        try:
            yield
        finally:
            namespaces.enter_network(self.here)

    def address(self, host: str, nic: str = "eth0") -> str:
        plan = self.network.host(host)
        found = plan.nic(nic) if plan is not None else None
        assert found is not None
        return found.ip

    def start(self, host: str, body: Callable[[], None]) -> int:
        """Fork a process that runs ``body`` on ``host``, as a rank would be there; return its pid once it is
        on the host."""
        door = Doorway(self.networks[host], host, str(self.files[host]))
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.close(reader)
                door.enter()
                os.close(writer)
                body()
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)
        os.close(writer)
        os.read(reader, 1)  # the end of the pipe: it is there, or has ended
        os.close(reader)
        return pid

    def close(self) -> None:
        """End the switch as the warden's end does, and see it go."""
        self.warden.close()
        self.rank.close()
        assert os.waitpid(self.pid, 0)[0] == self.pid


@contextlib.contextmanager
def arm(
    folder: Path, hosts: int = 2, nics: tuple[Nic, ...] = (), own_name: str = "", outside_store: bool = False
) -> Iterator[Arm]:
    """An arm with its network built. To be called in a child."""
    made = Arm(plan_network(hosts, nics, own_name, outside_store), folder)
    try:
        assert made.first == b"ready", made.first.decode()
        yield made
    finally:
        made.close()


# ---------------------------------------------------------------- what passes


def family_of(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


@contextlib.contextmanager
def connection(
    made: Arm, source: str, target: str, port: int = 0, nic: str = "eth0"
) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A TCP connection: the end on ``source``, and that on ``target``."""
    address = made.address(target, nic)
    with made.on(target), socket.create_server((address, port), family=family_of(address)) as listener:
        listener.settimeout(LIMIT_S)
        with made.on(source):
            sender = socket.create_connection(listener.getsockname()[:2], LIMIT_S)
        with sender, listener.accept()[0] as receiver:
            receiver.settimeout(LIMIT_S)
            yield sender, receiver


def connects(made: Arm, source: str, target: str, port: int = 0, limit_s: float = LIMIT_S) -> bool:
    """Does a new TCP connection come about within ``limit_s``?"""
    address = made.address(target)
    with made.on(target):
        listener = socket.create_server((address, port), family=family_of(address))
    with made.on(source):
        sender = socket.socket(family_of(address))
    with listener, sender:
        sender.settimeout(limit_s)
        try:
            sender.connect(listener.getsockname()[:2])
        except TimeoutError:
            return False
        return True


def hears(made: Arm, source: str, target: str, expected: bool) -> bool:
    """Does a datagram of ``source`` arrive at ``target``? Waits long for one that is ``expected``."""
    address = made.address(target)
    with made.on(target):
        receiver = socket.socket(family_of(address), socket.SOCK_DGRAM)
    with made.on(source):
        sender = socket.socket(family_of(address), socket.SOCK_DGRAM)
    with receiver, sender:
        receiver.bind((address, 0))
        sender.sendto(b"?", receiver.getsockname()[:2])
        return bool(select.select([receiver], [], [], LIMIT_S if expected else SILENT_S)[0])


def gone(pid: int, limit_s: float = LIMIT_S) -> bool:
    """Has the process ended (or is only a zombie) within the time?"""
    until = time.monotonic() + limit_s
    while state_of(pid) not in ("", "Z", "X"):
        if time.monotonic() > until:
            return False
        time.sleep(0.005)
    return True


def state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
