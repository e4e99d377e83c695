"""Run as a process of its own, it builds a small network and says which of its features can be had here.

Prints one JSON object: each feature and the error's text, "" where it went well. No other use.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable

from chaoskit.hosts import namespaces
from chaoskit.hosts.fabric import Fabric
from chaoskit.network import Nic, plan_network


def features() -> dict[str, str]:
    """Try them in this process, which is of no use afterwards."""
    network = plan_network(2, (Nic(),), "", outside_store=False)
    found: dict[str, str] = {}
    try:
        namespaces.own_network_namespace()
        networks = {host.name: namespaces.new_network() for host in network.hosts}
        fabric = Fabric(network, networks)
        fabric.build()
    except Exception as error:  # noqa: BLE001 - the text is all that matters
        return dict.fromkeys(("virtual-hosts", "link-rate", "packet-rules"), _text(error))
    name = network.hosts[0].name
    found["virtual-hosts"] = _tried(lambda: _enter(networks[name]))
    found["link-rate"] = _tried(lambda: fabric.set_rate((name, "eth0"), 1e6))
    found["packet-rules"] = _tried(lambda: _drop_packets(fabric, name))
    return found


def _drop_packets(fabric: Fabric, host: str) -> None:
    fabric.let_through(host, 80, on=True)
    fabric.only_let_through(host, on=True)
    fabric.drop_from(host, fabric.network.hosts[1].name, on=True)


def _enter(network: int) -> None:
    """In a child, as a rank does: what it mounts and the name it takes are its own."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writer, _tried(namespaces.Doorway(network, "trial", "/etc/hosts").enter).encode())
        os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8") as said:
        text = said.read()
    os.waitpid(pid, 0)
    if text:
        raise OSError(text)


def _tried(trial: Callable[[], None]) -> str:
    try:
        trial()
    except Exception as error:  # noqa: BLE001
        return _text(error)
    return ""


def _text(error: Exception) -> str:
    return str(error) or repr(error)


def main() -> None:
    """Print what came of it."""
    print(json.dumps(features()))
