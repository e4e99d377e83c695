"""Processes of an arm that are no ranks: the switch of its virtual hosts, and a store on no rank's host.

Started by the warden before the ranks, and ended when nothing but them is left. Says what they see as events;
decides nothing.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from chaoskit import history, private
from chaoskit.guards.group_kill import ended_how
from chaoskit.history import Event, Malfunction
from chaoskit.hosts import namespaces
from chaoskit.hosts.messages import BACK, FAILED, LOST, MESSAGE_BYTES, READY, TEST, TESTED
from chaoskit.hosts.namespaces import Doorway
from chaoskit.launchers import kernel, rank_process, sweep
from chaoskit.model import Plan
from chaoskit.network import HostPlan, Network

SWITCH, STORE = "switch", "store"
_READY_LIMIT_S: Final = 30.0
_TEST_LIMIT_S: Final = 3.0
TESTS_MAX: Final = 2
"""At the first failure, and before everything is ended."""


class NotStarted(Exception):
    """What serves the hosts did not come up; the text says why, in one line."""


class Services:
    """Those of one arm. ``send`` takes the events; ``let_go`` makes a forked child forget what is the
    warden's. ``host_lost`` is told of a host that does not answer any more, with the slots of its ranks,
    ``host_back`` of one that does again.

    Nothing is started without virtual hosts: then this knows no process and no doorway.
    """

    def __init__(
        self,
        arm_dir: Path,
        send: Callable[[Event], None],
        let_go: Callable[[], None],
        host_lost: Callable[[str, tuple[int, ...]], None],
        host_back: Callable[[str, tuple[int, ...]], None],
    ) -> None:
        self._arm_dir = arm_dir
        self._send = send
        self._let_go = let_go
        self._host_lost = host_lost
        self._host_back = host_back
        self._lost: set[str] = set()
        self._pids: dict[int, str] = {}
        self._doorways: dict[str, Doorway] = {}
        self._host_of: dict[int, str] = {}
        self._orders: dict[int, socket.socket] = {}  # the ranks' ends, by slot
        self._tests = 0
        self._tested_until = 0.0  # a test is under way that is given up then; 0: none
        self.is_ending = False
        """True once an end of a service is no surprise any more."""
        self.switch: socket.socket | None = None
        """Readable when the switch has something to say; see :meth:`hear`."""

    # ------------------------------------------------------------ start

    def start(self, plan: Plan) -> None:
        """Make the hosts and start what serves them. Raises NotStarted."""
        network = plan.network
        if network is None:
            return
        self._host_of = {rank.slot: rank.host for rank in plan.ranks}
        try:
            self._make_hosts(network)
            self._start_switch(network, [rank.slot for rank in plan.ranks])
            if plan.serves_store:
                self._start_store(network, plan.master_port)
        except (OSError, RuntimeError) as error:
            raise NotStarted(f"the virtual hosts could not be made: {error}") from error

    def _make_hosts(self, network: Network) -> None:
        here = namespaces.current_network()
        folder = self._arm_dir / "hosts"
        folder.mkdir(exist_ok=True, mode=0o700)
        for host in network.hosts:
            path = folder / host.name
            private.write(path, _hosts_file(host))
            self._doorways[host.name] = Doorway(namespaces.new_network(), host.name, str(path))
        namespaces.enter_network(here)
        os.close(here)

    def _start_switch(self, network: Network, slots: list[int]) -> None:
        from chaoskit.hosts import switch  # it loads pyroute2, which arms without virtual hosts do not need

        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pairs = {slot: socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for slot in slots}
        self._orders = {slot: pair[0] for slot, pair in pairs.items()}
        ends = tuple(pair[1] for pair in pairs.values())
        wiring = switch.Wiring(
            {name: door.network for name, door in self._doorways.items()},
            {name: Path(door.hosts_file) for name, door in self._doorways.items()},
            theirs,
            ends,
        )
        kept = {theirs.fileno(), *(e.fileno() for e in ends), *wiring.networks.values()}
        self._fork(SWITCH, kept, lambda: switch.run(network, wiring))
        for end in (theirs, *ends):
            end.close()
        said = _first_word(ours)
        if said != READY:
            why = said.removeprefix(FAILED).decode(errors="replace") or "its switch gave no sign of life"
            line = " ".join(why.split())
            raise NotStarted(f"the network of the virtual hosts could not be built: {line}; see {SWITCH}.log")
        self.switch = ours

    def _start_store(self, network: Network, port: int) -> None:
        from chaoskit.guards import store_outside

        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        door = self._doorways[network.store]

        def serve() -> None:
            door.enter()
            kernel.resolve_from_hosts_file_only()  # c10d's log lines ask for the names of clients
            store_outside.serve(port, lambda _: theirs.send(READY))

        self._fork(STORE, {theirs.fileno(), door.network}, serve)
        theirs.close()
        said = _first_word(ours)
        ours.close()
        if not said:
            raise NotStarted("the store outside of the ranks did not come up; see store.log")

    def _fork(self, name: str, kept: set[int], main: Callable[[], object]) -> None:
        warden = os.getpid()
        pid = os.fork()
        if pid:
            self._pids[pid] = name
            return
        try:
            kernel.signal_at_parents_end(signal.SIGKILL)
            if os.getppid() == warden:
                os.setsid()
                kernel.set_name(f"chaoskit-{name}")
                rank_process.reset_signals()
                self._let_go()
                self._redirect(name)
                rank_process.close_all_but({0, 1, 2, *kept})
                main()
        except BaseException:  # noqa: BLE001 - the warden's code must never go on here
            traceback.print_exc()
        finally:
            os._exit(0)

    def _redirect(self, name: str) -> None:
        null = os.open(os.devnull, os.O_RDONLY)
        log = os.open(self._arm_dir / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for source, target in ((null, 0), (log, 1), (log, 2)):
            os.dup2(source, target)

    # ------------------------------------------------------------ for the ranks

    def doorway(self, slot: int) -> Doorway | None:
        """Return how the rank in ``slot`` gets onto its host; None where it stays on this machine."""
        return self._doorways.get(self._host_of.get(slot, ""))

    def host_of(self, slot: int) -> str:
        """Return the virtual host of that rank; '' where it stays on this machine."""
        return self._host_of.get(slot, "")

    def is_lost(self, slot: int) -> bool:
        """Return whether the host of that rank does not answer, so that no launcher learns of it or reaches
        it."""
        return self.host_of(slot) in self._lost

    @contextlib.contextmanager
    def network_of(self, slot: int) -> Iterator[None]:
        """Be in the network of that rank's host for a while: sockets made meanwhile stay there."""
        door = self.doorway(slot)
        if door is None:
            yield
            return
        here = namespaces.current_network()
        namespaces.enter_network(door.network)
        try:
            yield
        finally:
            namespaces.enter_network(here)
            os.close(here)

    def orders(self, slot: int) -> int:
        """Return the descriptor over which that rank's faults order changes of the network; -1: none."""
        end = self._orders.get(slot)
        return -1 if end is None else end.fileno()

    # ------------------------------------------------------------ while the arm runs

    def name_of(self, pid: int) -> str:
        """Return which service ``pid`` is; '' if it is none."""
        return self._pids.get(pid, "")

    def ended(self, pid: int, exit_code: int) -> None:
        """A service has ended. Before its time that is a malfunction of the switch's; a store's end may be
        what is tested, and is told to the guards of the launcher by the warden."""
        name = self._pids.pop(pid, "")
        if name == SWITCH and not self.is_ending:
            self._tested_until = 0.0
            message = f"the switch of the virtual hosts {ended_how(exit_code)}; see switch.log"
            self._send(Malfunction(time.monotonic(), -1, message))

    def test_paths(self) -> None:
        """Have the paths between the hosts tested, unless that is under way or was done often enough."""
        if self.switch is None or self._tested_until or self._tests >= TESTS_MAX:
            return
        self._tests += 1
        try:
            self.switch.send(TEST)
        except OSError:
            return
        self._tested_until = time.monotonic() + _TEST_LIMIT_S

    @property
    def testing_until(self) -> float | None:
        """When the test that is under way is given up; None without one."""
        if self._tested_until and time.monotonic() >= self._tested_until:
            self._tested_until = 0.0
        return self._tested_until or None

    def hear(self) -> None:
        """Take in all that the switch has said: what it tells comes before what it does to processes."""
        while self.switch is not None and kernel.readable_within(self.switch.fileno(), 0.0):
            try:
                said = self.switch.recv(MESSAGE_BYTES)
            except ConnectionResetError:  # it was ended with a request unread
                said = b""
            if said == TESTED:
                self._tested_until = 0.0
            elif said.startswith(LOST):
                self._lose(said.removeprefix(LOST).decode())
            elif said.startswith(BACK):
                self._find(said.removeprefix(BACK).decode())
            elif said:
                self._send(history.from_line(said.decode()))
            else:
                self.switch = None

    def _lose(self, host: str) -> None:
        if host in self._lost:
            return
        self._lost.add(host)
        self._host_lost(host, self._slots_on(host))

    def _find(self, host: str) -> None:
        if host in self._lost:
            self._lost.discard(host)
            self._host_back(host, self._slots_on(host))

    def _slots_on(self, host: str) -> tuple[int, ...]:
        return tuple(slot for slot, name in self._host_of.items() if name == host)

    # ------------------------------------------------------------ end

    @property
    def idle(self) -> bool:
        """True when nothing is under way here, and the warden has no other child any more than these."""
        if not self._pids or self.testing_until:
            return False
        return set(kernel.children(os.getpid())) <= set(self._pids)

    def expect_the_end(self) -> None:
        """From here on an end of one of them is no surprise."""
        self.is_ending = True

    def end(self) -> None:
        """End them all."""
        self.is_ending = True
        for pid in self._pids:
            sweep.kill(pid)

    def clean_up(self) -> None:
        """Remove logs in which nothing stands."""
        for name in (SWITCH, STORE):
            log = self._arm_dir / f"{name}.log"
            if log.exists() and log.stat().st_size == 0:
                log.unlink()


def _hosts_file(host: HostPlan) -> str:
    return "".join(f"{address}\t{name}\n" for address, name in host.names)


def _first_word(end: socket.socket) -> bytes:
    if not kernel.readable_within(end.fileno(), _READY_LIMIT_S):
        return b""
    try:
        return end.recv(MESSAGE_BYTES)
    except OSError:
        return b""
