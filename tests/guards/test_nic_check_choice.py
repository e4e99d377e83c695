"""Which interface a backend is going to use: held against what gloo says, and NCCL's documented rules."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from guards.job import start

from chaoskit.guards import nic_choice
from chaoskit.guards.interfaces import Address, addresses
from chaoskit.guards.nic_choice import Unknown, choices, matches, others

HERE = [
    Address("lo", socket.AF_INET, "127.0.0.1"),
    Address("docker0", socket.AF_INET, "172.17.0.1"),
    Address("eth0", socket.AF_INET, "10.0.0.1"),
    Address("eth1", socket.AF_INET, "10.1.0.1"),
    Address("lo", socket.AF_INET6, "::1"),
    Address("eth0", socket.AF_INET6, "fe80::1", scope=2),
    Address("eth2", socket.AF_INET6, "fd00::1"),
]


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("NCCL_", "GLOO_")):
            monkeypatch.delenv(name)
    monkeypatch.setattr(nic_choice, "_has_infiniband", lambda: False)
    monkeypatch.setattr(nic_choice, "_NCCL_FILES", ())


def test_gloo_takes_the_first_address_of_each_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth2,eth0")
    found = choices({"backend": "gloo"}, HERE)
    assert [(c.number, c.address.ip) for c in found] == [(0, "fd00::1"), (1, "10.0.0.1")]
    assert [a.interface for a in others(found, HERE)] == ["docker0", "eth1"]


def test_gloo_without_a_name_takes_that_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    row = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
    rows = [(*row, ("198.51.100.1", 0)), (*row, ("127.0.1.1", 0))]  # the first cannot be bound here
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: rows)
    (found,) = choices({}, HERE)
    assert (found.address.interface, found.address.ip, found.by) == ("lo", "127.0.1.1", "name")
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: rows[:1])
    (found,) = choices({}, HERE)
    assert (found.address.ip, found.by) == ("127.0.0.1", "loopback")


@pytest.mark.parametrize("name", [*sorted({a.interface for a in addresses()}), ""])
def test_gloo_listens_on_just_that(name: str) -> None:
    def ask() -> None:
        from torch._C._distributed_c10d import ProcessGroupGloo

        make = ProcessGroupGloo
        device = make.create_device(interface=name) if name else make.create_default_device()
        (mine,) = choices({"backend": "gloo"}, addresses())
        print(listening() == {socket.inet_pton(mine.address.family, mine.address.ip)}, mine, device)

    (ended,) = start(ask, ranks=1, env={0: {"GLOO_SOCKET_IFNAME": name or None}}).wait(30.0)
    assert ended.code == 0, ended.err
    assert ended.out.startswith("True"), ended.out


def listening() -> set[bytes]:
    """The addresses on which this process listens, from the kernel."""
    mine = {os.readlink(fd.path) for fd in os.scandir("/proc/self/fd") if os.path.lexists(fd.path)}
    found = set()
    for table in ("tcp", "tcp6"):
        for row in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_ = columns = row.split()
            if state == "0A" and f"socket:[{columns[9]}]" in mine:
                words = bytes.fromhex(local.partition(":")[0])
                found.add(b"".join(words[n : n + 4][::-1] for n in range(0, len(words), 4)))
    return found


@pytest.mark.parametrize(
    ("names", "takes"),
    [
        ("eth", "eth0"),
        ("=eth", None),
        ("=eth1", "eth1"),
        ("^docker,lo", "eth0"),
        ("^=lo", "docker0"),
        ("lo,docker", "lo"),
        ("eth1:8888", "eth1"),
        ("wlan", None),
    ],
)
def test_nccl_takes_prefixes(names: str, takes: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", names)
    if takes is None:
        with pytest.raises(Unknown):
            choices({"backend": "nccl"}, HERE)
        return
    (found,) = choices({"backend": "nccl"}, HERE)
    assert found.address.interface == takes


def test_nccl_by_itself_avoids_docker_and_loopback() -> None:
    (found,) = choices({"backend": "nccl"}, HERE)
    assert (found.address.interface, found.by) == ("eth0", "automatic")
    (found,) = choices({"backend": "nccl"}, HERE[:2])
    assert found.address.interface == "docker0"
    (found,) = choices({"backend": "nccl"}, [*HERE, Address("ib0", socket.AF_INET, "10.9.0.1")])
    assert found.address.interface == "ib0"


def test_both_backends_of_one_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth1")
    found = choices({"backend": "cpu:gloo,cuda:nccl"}, HERE)
    assert [(c.backend, c.address.interface) for c in found] == [("gloo", "eth1"), ("nccl", "eth0")]


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        ({"NCCL_COMM_ID": "10.0.0.1:1"}, "NCCL_COMM_ID"),
        ({"NCCL_NET_PLUGIN": "ofi"}, "NCCL_NET_PLUGIN"),
        ({"NCCL_NET": "IB"}, "NCCL_NET"),
    ],
)
def test_what_nccl_does_then_is_not_guessed(
    variables: dict[str, str], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(Unknown, match=why):
        choices({"backend": "nccl"}, HERE)


def test_infiniband_is_not_looked_at_unless_it_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nic_choice, "_has_infiniband", lambda: True)
    with pytest.raises(Unknown, match="InfiniBand"):
        choices({"backend": "nccl"}, HERE)
    monkeypatch.setenv("NCCL_IB_DISABLE", "1")
    assert choices({"backend": "nccl"}, HERE)


def test_where_versions_of_nccl_differ_nothing_is_guessed() -> None:
    with pytest.raises(Unknown, match="virbr0"):
        choices({"backend": "nccl"}, [Address("virbr0", socket.AF_INET, "192.168.122.1"), *HERE])
    down = Address("eth00", socket.AF_INET, "10.3.0.1", runs=False)
    with pytest.raises(Unknown, match="eth00, which is down"):
        choices({"backend": "nccl"}, [down, *HERE])


def test_excluding_and_whole_names_together() -> None:
    assert matches("lo0", "^=lo") and not matches("lo", "^=lo")
