"""Virtual hosts: set-up and tear-down of 2, 8 and 32, the test of their paths, and what a link carries.

python benchmarks/hosts.py [ROUNDS]

As it is called, and as root of a user namespace. Throughput is that of a veth pair and a switch against
loopback, in turns within one run.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from _figures import Budget, end, figure, heading, note, ratio

from chaoskit.hosts import namespaces, paths
from chaoskit.hosts.fabric import Fabric
from chaoskit.hosts.namespaces import Doorway
from chaoskit.launchers import kernel
from chaoskit.network import Network, plan_network

Figures = dict[str, float]
BUDGETS = {2: Budget(0.2, at=50), 8: None, 32: Budget(3.0, at=50)}
STREAM_BYTES = 128 << 20
TENSOR_BYTES = 16 << 20
REDUCES = 3
PORT = 29500


def in_child(work: Callable[[], Figures], user_namespace: bool) -> Figures:
    """Run ``work`` in a process of its own, with whose end all that it has made is gone."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        kernel.signal_at_parents_end(signal.SIGKILL)
        try:
            if user_namespace:
                namespaces.own_user_namespace()
            with open(writer, "w") as out:
                json.dump(work(), out)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader) as said:
        text = said.read()
    os.waitpid(pid, 0)
    if not text:
        raise SystemExit("a measuring process has failed, see above")
    found: Figures = json.loads(text)
    return found


def set_up_and_tear_down(hosts: int) -> Figures:
    network = plan_network(hosts, (), "", outside_store=False)
    start, cpu = time.perf_counter(), time.process_time()
    networks = {host.name: namespaces.new_network() for host in network.hosts}
    fabric = Fabric(network, networks)
    fabric.build()
    built, built_cpu = time.perf_counter(), time.process_time()
    tested = paths.test(fabric, lambda: float("inf"))
    over = time.perf_counter()
    if any(path.state != "open" for path in tested):
        raise SystemExit(f"{hosts} hosts do not reach one another")
    for inside in fabric._hosts.values():
        inside.close()
    for fd in networks.values():
        os.close(fd)
    while any(name.startswith("port") for _, name in socket.if_nameindex()):
        time.sleep(0.001)  # the kernel removes a network some time after the last descriptor of it
    return {
        "set-up": built - start,
        "set-up, CPU": built_cpu - cpu,
        "path test": over - built,
        "tear-down": time.perf_counter() - over,
    }


def hosts_figures(rounds: int) -> list[bool]:
    kept = []
    for user_namespace in (False, True):
        note("in a user namespace" if user_namespace else "as called")
        for hosts, budget in BUDGETS.items():
            work = functools.partial(set_up_and_tear_down, hosts)
            found = [in_child(work, user_namespace) for _ in range(rounds)]
            for name in found[0]:
                limit = budget if name in ("set-up", "tear-down") else None
                kept.append(figure(f"{hosts} hosts: {name}", [f[name] for f in found], limit))
    return kept


# ---------------------------------------------------------------- what a link carries


class Place:
    """Two ends of a connection: two hosts, or twice the same one, by its loopback."""

    def __init__(self, name: str, doors: tuple[Doorway, Doorway], address: str, nic: str) -> None:
        self.name, self.doors, self.address, self.nic = name, doors, address, nic


def places(folder: Path) -> tuple[tuple[Place, Place], Fabric, Network]:
    network = plan_network(2, (), "", outside_store=False)
    networks = {host.name: namespaces.new_network() for host in network.hosts}
    fabric = Fabric(network, networks)
    fabric.build()
    doors = []
    for host in network.hosts:
        file = folder / host.name
        file.write_text("".join(f"{address}\t{name}\n" for address, name in host.names))
        doors.append(Doorway(networks[host.name], host.name, str(file)))
    one, other = doors
    address = network.hosts[0].address
    both = (Place("loopback", (one, one), "127.0.0.1", "lo"), Place("veth", (one, other), address, "eth0"))
    return both, fabric, network


def at(door: Doorway, work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        kernel.signal_at_parents_end(signal.SIGKILL)
        try:
            door.enter()
            kernel.resolve_from_hosts_file_only()
            work()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    return pid


def stream_s(place: Place) -> float:
    """Seconds that STREAM_BYTES take from the second end to the first."""
    ready_r, ready_w = os.pipe()
    took_r, took_w = os.pipe()

    def receive() -> None:
        with socket.create_server((place.address, PORT)) as listener:
            os.write(ready_w, b"!")
            with listener.accept()[0] as end_:
                start, left, buffer = time.perf_counter(), STREAM_BYTES, bytearray(1 << 20)
                while left:
                    left -= end_.recv_into(buffer)
                os.write(took_w, f"{time.perf_counter() - start}".encode())

    def send() -> None:
        os.read(ready_r, 1)
        with socket.create_connection((place.address, PORT)) as end_:
            block = memoryview(bytes(1 << 20))
            for _ in range(STREAM_BYTES >> 20):
                end_.sendall(block)

    pids = [at(place.doors[0], receive), at(place.doors[1], send)]
    for pid in pids:
        os.waitpid(pid, 0)
    took = float(os.read(took_r, 100))
    for fd in (ready_r, ready_w, took_r, took_w):
        os.close(fd)
    return took


class Group:
    """Two ranks that reduce when they are told to."""

    def __init__(self, place: Place, port: int) -> None:
        self._go = [os.pipe() for _ in place.doors]
        self._took_r, took_w = os.pipe()
        self._pids = []
        for rank, door in enumerate(place.doors):
            env = {
                "GLOO_SOCKET_IFNAME": place.nic, "MASTER_ADDR": place.address, "MASTER_PORT": str(port),
                "RANK": str(rank), "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1",
            }  # fmt: skip
            go_r = self._go[rank][0]
            self._pids.append(at(door, functools.partial(reduce, env, go_r, took_w)))
        for _ in place.doors:  # both are there
            os.read(self._took_r, 1)

    def once_s(self) -> float:
        for _, writer in self._go:
            os.write(writer, b"!")
        return float(os.read(self._took_r, 100)) / REDUCES

    def close(self) -> None:
        for _, writer in self._go:
            os.write(writer, b".")
        for pid in self._pids:
            os.waitpid(pid, 0)


def reduce(env: dict[str, str], go: int, took: int) -> None:
    os.environ |= env
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    tensor = torch.ones(TENSOR_BYTES // 4)
    dist.all_reduce(tensor)
    os.write(took, b"!")
    while os.read(go, 1) == b"!":
        dist.barrier()
        start = time.perf_counter()
        for _ in range(REDUCES):
            dist.all_reduce(tensor)
        if env["RANK"] == "0":
            os.write(took, f"{time.perf_counter() - start}".encode())
    dist.destroy_process_group()


def link_figures(rounds: int) -> Figures:
    streams: dict[str, list[float]] = {}
    reduces: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="chaoskit-benchmark-") as folder:
        both, fabric, _ = places(Path(folder))
        for _ in range(rounds):
            for place in both:
                streams.setdefault(place.name, []).append(stream_s(place))
        groups = [(place.name, Group(place, PORT + 1 + number)) for number, place in enumerate(both)]
        for _ in range(rounds):
            for name, group in groups:
                reduces.setdefault(name, []).append(group.once_s())
        for _, group in groups:
            group.close()
        fabric.close()
    for what, found in ((f"{STREAM_BYTES >> 20} MiB by TCP", streams), ("16 MiB all_reduce, gloo", reduces)):
        for name, seconds in found.items():
            size = STREAM_BYTES if found is streams else TENSOR_BYTES
            best = size * 8 / min(seconds) / 1e9
            figure(f"{what}, {name}", seconds, beside=f"(best {best:.1f} Gbit/s)")
        ratio(f"{what}: veth against loopback", found["loopback"], found["veth"])
    return {"done": 1.0}


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    heading("virtual hosts")
    kept = hosts_figures(rounds)
    note("what a link carries")
    in_child(lambda: link_figures(rounds), user_namespace=False)
    end(kept)


if __name__ == "__main__":
    main()
