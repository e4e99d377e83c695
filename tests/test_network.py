"""Virtual hosts as values."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoskit.network import Nic, host_names, host_of_each_rank, plan_network


def rows(
    hosts: int, nics: tuple[Nic, ...], host: str, own_name: str = "", store: bool = False
) -> dict[str, str]:
    found = plan_network(hosts, nics, own_name, store).host(host)
    assert found is not None
    return {name: address for address, name in found.names if name != "localhost"}


def test_hosts_have_letters_for_names() -> None:
    names = host_names(200)
    assert names[:2] == ("hostA", "hostB")
    assert names[25:28] == ("hostZ", "hostAA", "hostAB")
    assert len(set(names)) == 200


@settings(max_examples=30)
@given(st.integers(1, 40), st.integers(1, 40))
def test_ranks_are_in_blocks_of_almost_the_same_size(hosts: int, more: int) -> None:
    found = host_of_each_rank(hosts + more, hosts)
    assert len(found) == hosts + more
    assert tuple(dict.fromkeys(found)) == host_names(hosts)
    sizes = [found.count(name) for name in host_names(hosts)]
    assert max(sizes) - min(sizes) <= 1
    assert sizes == sorted(sizes, reverse=True)


def test_without_a_declaration_there_is_one_interface() -> None:
    network = plan_network(2, (), "", outside_store=False)
    assert [[(n.name, n.address, n.switch) for n in h.nics] for h in network.hosts] == [
        [("eth0", "10.77.0.1/24", "eth0")], [("eth0", "10.77.0.2/24", "eth0")],
    ]  # fmt: skip
    assert network.store == "hostA"
    assert network.host("store") is network.host("hostA")
    assert network.host("hostC") is None


def test_a_name_stands_for_an_address_that_can_be_reached() -> None:
    nics = (Nic("eth0", on=("hostA", "hostC")), Nic("eth1"))
    assert rows(3, nics, "hostB") == {"hostA": "10.77.1.1", "hostB": "10.77.1.2", "hostC": "10.77.1.3"}
    assert rows(3, nics, "hostC") == {"hostA": "10.77.0.1", "hostB": "10.77.1.2", "hostC": "10.77.0.3"}


@pytest.mark.parametrize(
    ("own", "address"), [("127.0.1.1", "127.0.1.1"), ("eth1", "10.77.1.2"), ("", "10.77.0.2")]
)
def test_what_a_host_takes_its_own_name_for(own: str, address: str) -> None:
    nics = (Nic("eth0"), Nic("eth1"))
    assert rows(2, nics, "hostB", own)["hostB"] == address
    assert rows(2, nics, "hostA", own)["hostB"] == "10.77.0.2"


@pytest.mark.parametrize(
    ("subnet", "address"),
    [("10.1.0.0/24", "10.1.0.254/24"), ("10.1.0.0/29", "10.1.0.6/29"), ("10.0.0.0/16", "10.0.0.254/16"),
     ("fd00::/64", "fd00::fe/64"), ("fd00::/125", "fd00::7/125"), ("", "10.77.1.254/24")],
)  # fmt: skip
def test_the_host_of_the_store_is_in_every_switch(subnet: str, address: str) -> None:
    nics = (Nic("docker0", same_address="172.17.0.1/16"), Nic("eth0", subnet, on=("hostA",)), Nic("eth9"))
    store = plan_network(3, nics, "docker0", outside_store=True).host("store")
    assert store is not None
    assert [(n.name, n.address) for n in store.nics] == [("eth0", address), ("eth9", "10.77.2.254/24")]
    assert rows(3, nics, "hostB", "docker0", store=True)["store"] == "10.77.2.254"
    assert rows(3, nics, "hostA", "docker0", store=True)["store"] == address.partition("/")[0]
    assert (address.partition("/")[0], "store") in store.names


@settings(deadline=None, max_examples=8)
@given(st.integers(1, 200), st.booleans())
def test_no_address_is_given_twice(hosts: int, store: bool) -> None:
    network = plan_network(hosts, (Nic("a"), Nic("b", "fd00::/120")), "", store)
    addresses = [nic.ip for host in network.hosts for nic in host.nics]
    assert len(set(addresses)) == len(addresses)
    for host in network.hosts:
        for nic in host.nics:
            inside = ipaddress.ip_interface(nic.address)
            assert (
                inside.ip not in (inside.network.network_address, inside.network.broadcast_address)
                or inside.version == 6
            )
