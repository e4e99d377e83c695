"""Which interfaces the backend will use, as far as this host's own files tell."""

from __future__ import annotations

import socket

import pytest

from chaoskit.guards import interfaces
from chaoskit.guards.interfaces import Address


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A host with lo, eth0 and eth1; returns what its hosts file says."""
    rows: dict[str, str] = {}
    nics = [Address("lo", socket.AF_INET, "127.0.0.1"), Address("eth0", socket.AF_INET, "10.77.0.2")]
    nics += [Address("eth1", socket.AF_INET6, "fd00:77::2")]
    monkeypatch.setattr(interfaces, "addresses", lambda: nics)
    monkeypatch.setattr(interfaces, "_existing", lambda: ["lo", "eth0", "eth1"])
    monkeypatch.setattr(interfaces, "_address_of", lambda name: rows.get(name, ""))
    monkeypatch.setattr(socket, "gethostname", lambda: "hostB")
    for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        monkeypatch.delenv(variable, raising=False)
    return rows


@pytest.mark.parametrize(
    ("address", "chosen"),
    [("10.77.0.2", ("eth0",)), ("fd00:77::2", ("eth1",)), ("127.0.1.1", ("lo",)), ("10.9.9.9", ()), ("", ())],
)
def test_the_one_with_the_address_of_the_hosts_own_name(
    host: dict[str, str], address: str, chosen: tuple[str, ...]
) -> None:
    host["hostB"] = address
    assert interfaces.chosen("gloo") == chosen


def test_those_that_gloo_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth1,docker0")
    assert interfaces.chosen("gloo") == ("eth1", "docker0")


@pytest.mark.parametrize(
    ("told", "chosen"), [("eth", ("eth0", "eth1")), ("=eth0", ("eth0",)), ("^lo", ("eth0", "eth1"))]
)
def test_nccl_reads_prefixes(monkeypatch: pytest.MonkeyPatch, told: str, chosen: tuple[str, ...]) -> None:
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", told)
    assert interfaces.chosen("nccl") == chosen
