"""Virtual hosts in words."""

from __future__ import annotations

from chaoskit.cli.show_topology import topology_in_words
from chaoskit.model import Topology
from chaoskit.network import Nic


def test_one_machine_needs_no_words() -> None:
    assert list(topology_in_words(Topology(4))) == []


def test_hosts_and_what_they_have() -> None:
    nics = (
        Nic("eth0", "10.1.0.0/24", 1e9),
        Nic("eth1", port="down", on=("hostB",)),
        Nic("docker0", same_address="172.17.0.1/16"),
    )
    assert list(topology_in_words(Topology(6, hosts=3, nics=nics, own_name="127.0.1.1"))) == [
        "3 virtual hosts, each with a network and a name of its own: hostA (ranks 0 and 1), hostB (ranks 2 "
        "and 3), hostC (ranks 4 and 5).",
        "eth0: in one switch, 10.1.0.0/24, on every host, carries 1gbit",
        "eth1: in one switch, 10.77.1.0/24, on hostB; the port of its switch is down",
        "docker0: in no switch, with the same address 172.17.0.1/16 on every host",
        "Each host takes its own name for 127.0.1.1.",
    ]


def test_a_single_host() -> None:
    first, second = topology_in_words(Topology(3, nics=(Nic("eth0"),)))
    assert first == "1 virtual host with a network and a name of its own: hostA (ranks 0 to 2)."
    assert second == "eth0: in one switch, 10.77.0.0/24, on hostA"
