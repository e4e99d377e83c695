"""Runs ranks of a guard test on virtual hosts: a child of the test makes them, starts the ranks, and tells
how each ended."""

from __future__ import annotations

import dataclasses
import os
import pickle
import signal
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from guards.job import Ended, start

from chaoskit.hosts import namespaces
from chaoskit.model import Guard
from chaoskit.network import Network, Nic, host_of_each_rank, plan_network

Change = Callable[[object], None]
"""Does something to the links (a Fabric) before the ranks start."""


def hosts_or_skip() -> None:
    """Skip where this machine lets nobody make namespaces, or pyroute2 is missing."""
    pytest.importorskip("pyroute2")
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            namespaces.Doorway(namespaces.new_network(), "trial", "/etc/hosts").enter()
            code = 0
        finally:
            os._exit(code)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0:
        pytest.skip("no network namespaces here")


def run_on_hosts(
    main: Callable[[], object],
    *arm: Guard,
    ranks: int = 2,
    hosts: int = 2,
    nics: Sequence[Nic] = (),
    own_name: str = "",
    env: Mapping[int, Mapping[str, str | None]] | None = None,
    everywhere: Mapping[str, str | None] | None = None,
    change: Change | None = None,
    limit_s: float = 60.0,
) -> list[Ended]:
    """Start ``ranks`` on so many hosts and return how each ended; the store is rank 0's, on hostA."""
    hosts_or_skip()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reader)
            network = plan_network(hosts, tuple(nics), own_name, outside_store=False)
            ended = _run(main, arm, network, ranks, everywhere or {}, env or {}, change, limit_s)
            with os.fdopen(writer, "wb") as out:
                pickle.dump([dataclasses.astuple(e) for e in ended], out)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writer)
    try:
        with os.fdopen(reader, "rb") as read:
            data = read.read()
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        raise
    finally:
        os.waitpid(pid, 0)
    assert data, "the hosts could not be made: see above"
    return [Ended(*row) for row in pickle.loads(data)]


def _run(
    main: Callable[[], object],
    arm: Sequence[Guard],
    network: Network,
    ranks: int,
    everywhere: Mapping[str, str | None],
    env: Mapping[int, Mapping[str, str | None]],
    change: Change | None,
    limit_s: float,
) -> list[Ended]:
    from chaoskit.hosts.fabric import Fabric

    networks = {host.name: namespaces.new_network() for host in network.hosts}
    fabric = Fabric(network, networks)
    fabric.build()
    if change is not None:
        change(fabric)
    of_rank = host_of_each_rank(ranks, len(network.hosts))
    with tempfile.TemporaryDirectory(prefix="chaoskit-guards-") as folder:
        for host in network.hosts:
            rows = "".join(f"{address}\t{name}\n" for address, name in host.names)
            Path(folder, host.name).write_text(rows)

        def on_host() -> None:
            name = of_rank[int(os.environ["RANK"])]
            namespaces.Doorway(networks[name], name, str(Path(folder, name))).enter()
            main()

        address = {"MASTER_ADDR": network.hosts[0].address}
        each = {slot: {**address, **everywhere, **env.get(slot, {})} for slot in range(ranks)}
        return start(on_host, *arm, ranks=ranks, env=each).wait(limit_s)
