"""What the test of the paths says is what is the case."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from virtual_hosts import arm

from chaoskit.hosts import namespaces, paths
from chaoskit.hosts.fabric import Fabric
from chaoskit.network import Nic, plan_network

pytestmark = pytest.mark.timeout(300)
Inside = Callable[[Callable[[], None]], None]
ONE, OTHER = ("hostA", "hostB", "eth0"), ("hostB", "hostA", "eth0")
IPV6 = Nic("eth6", "fd00:6::/64")


def test_all_are_open_at_once_after_the_start(inside_both: Inside, tmp_path: Path) -> None:
    def body() -> None:
        nics = (Nic("eth0"), IPV6, Nic("docker0", same_address="172.17.0.1/16"))
        with arm(tmp_path, nics=nics) as made:
            found = made.test()
            assert set(found) == {(a, b, n) for a, b, _ in (ONE, OTHER) for n in ("eth0", "eth6")}
            assert {e.state for e in found.values()} == {"open"}
            made.hear_nothing()

    inside_both(body)


def test_a_link_that_is_down_is_silent(inside: Inside, tmp_path: Path) -> None:
    def body() -> None:
        with arm(tmp_path, 3) as made:
            assert made.order("port", "hostB") == ""
            begun = time.monotonic()
            found = made.test()
            took_s = time.monotonic() - begun
            for (source, to, _), event in found.items():
                assert event.state == ("silent" if "hostB" in (source, to) else "open")
                assert 0 < event.seconds <= took_s

    inside(body)


def test_one_way_is_silent_in_both_directions(inside: Inside, tmp_path: Path) -> None:
    """A connection needs both."""

    def body() -> None:
        with arm(tmp_path) as made:
            assert made.order("one-way", "hostB") == ""
            assert {e.state for e in made.test().values()} == {"silent"}

    inside(body)


def test_a_crawling_link_is_slow(inside: Inside, tmp_path: Path) -> None:
    def body() -> None:
        with arm(tmp_path) as made:
            assert made.order("rate", "hostB", rate_bps=8e3) == ""
            found = made.test()
            assert {found[ONE].state, found[OTHER].state} <= {"slow", "silent"}
            assert "slow" in {e.state for e in found.values()}

    inside(body)


def test_a_link_that_was_declared_to_crawl_is_open(inside: Inside, tmp_path: Path) -> None:
    def body() -> None:
        with arm(tmp_path, nics=(Nic(rate_bps=100e3),)) as made:
            assert {e.state for e in made.test().values()} == {"open"}

    inside(body)


def test_a_refusal_is_told_from_silence(inside: Inside) -> None:
    def body() -> None:
        network = plan_network(2, (), "", outside_store=False)
        fabric = Fabric(network, {h.name: namespaces.new_network() for h in network.hosts})
        fabric.build()
        with_reject = {"priority": 50, "dst": "10.77.0.1", "dst_len": 32, "action": "prohibit"}
        fabric._hosts["hostB"].rule("add", **with_reject)
        fabric._prepare_rules("hostB")
        found = {(e.host, e.to): e.state for e in paths.test(fabric, lambda: float("inf"))}
        assert found["hostB", "hostA"] == "refused"

    inside(body)


def test_eight_hosts_are_tested_in_all_pairs(inside: Inside, tmp_path: Path) -> None:
    def body() -> None:
        with arm(tmp_path, 8) as made:
            assert made.order("port", "hostH") == ""
            begun = time.monotonic()
            found = made.test()
            assert time.monotonic() - begun < 10.0  # 0.8 s on an idle machine; 11 s one after the other
            assert len(found) == 56
            bad = {path for path, event in found.items() if event.state != "open"}
            assert bad == {path for path in found if "hostH" in path}

    inside(body)


@pytest.mark.slow
@pytest.mark.parametrize("hosts", [32, pytest.param(100, marks=pytest.mark.nightly)])
def test_many_hosts_reach_one_another(inside: Inside, tmp_path: Path, hosts: int) -> None:
    """100 of them have more neighbours than the kernel's table takes of those that are asked for."""

    def body() -> None:
        with arm(tmp_path, hosts) as made:
            assert {e.state for e in made.test().values()} == {"open"}
            assert made.order("partition", hosts=("hostB",)) == ""
            found = made.test()
            assert {path for path, e in found.items() if e.state != "open"} == {
                path for path in found if "hostB" in path
            }

    inside(body)


@pytest.mark.parametrize("count", [2, 3, 17, 32, 33, 200])
def test_partners_are_all_or_enough_to_tell_parts_from_one_another(count: int) -> None:
    network = plan_network(count, (), "", outside_store=False)
    pairs = {(a.name, b.name) for a, b in paths.partners(network)}
    assert all(a != b and (b, a) in pairs for a, b in pairs)
    assert len(pairs) == count * (count - 1) or len(pairs) <= count * 2 * count.bit_length()
    names = [h.name for h in network.hosts]
    for cut in range(1, count):
        assert any(a in names[:cut] and b in names[cut:] for a, b in pairs)
