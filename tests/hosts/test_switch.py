"""The switch builds what was planned, says what it sees, and goes when its warden does."""

from __future__ import annotations

import os
import re
import select
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from virtual_hosts import Arm, arm, gone, hears

from chaoskit.events import LinkChanged
from chaoskit.hosts import namespaces
from chaoskit.hosts.namespaces import Doorway
from chaoskit.network import HostPlan, Network, Nic, NicPlan, plan_network

pytestmark = pytest.mark.timeout(300)
Inside = Callable[[Callable[[], None]], None]


def test_nothing_is_said_of_links_that_nobody_touches(inside_both: Inside, tmp_path: Path) -> None:
    def body() -> None:
        with arm(tmp_path, 4, (Nic("eth0"), Nic("eth1"))) as made:
            made.hear_nothing()

    inside_both(body)


def test_a_change_of_a_link_is_told_at_once(inside: Inside, tmp_path: Path) -> None:
    def body() -> None:
        with arm(tmp_path) as made:
            late: list[tuple[float, float]] = []
            for _ in range(4):
                made.heard.clear()
                before = time.monotonic()
                assert made.order("port", "hostB", for_s=0.2) == ""
                made.hear(lambda: len(made.links()) == 2)
                down, up = (e for e in made.heard if isinstance(e, LinkChanged))
                assert (down.up, up.up) == (False, True)
                assert before <= down.t_s
                assert before + 0.2 <= up.t_s
                late.append((down.t_s - before, up.t_s - before - 0.2))
            # 0.1 s where nothing else is going on. A machine that stands still at each of them is none.
            assert min(down for down, _ in late) < 1.0
            assert min(up for _, up in late) < 1.3

    inside(body)


def test_a_flap_is_told_as_two_changes_however_short_it_is(inside: Inside, tmp_path: Path) -> None:
    def body() -> None:
        with arm(tmp_path) as made:
            for number in range(5):
                assert made.order("port", "hostB", for_s=0.001) == ""
                made.hear(lambda wanted=2 * number + 2: len(made.links()) == wanted)
            assert made.links() == [("hostB", "eth0", False), ("hostB", "eth0", True)] * 5

    inside(body)


def test_what_each_host_has(inside_both: Inside, tmp_path: Path) -> None:
    """Names, interfaces, addresses and hosts files, as a process on the host sees them."""

    def body() -> None:
        nics = (
            Nic("eth0", "10.1.0.0/29"),
            Nic("netz-ä0", on=("hostB",)),
            Nic("docker0", same_address="172.17.0.1/16"),
            Nic("eth6", "fd00:9::/64"),
        )
        with arm(tmp_path, nics=nics, own_name="docker0", outside_store=True) as made:
            reader, writer = os.pipe()

            def look() -> None:
                names = sorted(name for _, name in socket.if_nameindex())
                hosts = Path("/etc/hosts").read_text()
                os.write(writer, f"{socket.gethostname()}|{','.join(names)}|{hosts}".encode())

            made.start("hostB", look)
            assert os.read(reader, 4096).decode() == (
                "hostB|docker0,eth0,eth6,lo,netz-ä0|127.0.0.1\tlocalhost\n::1\tlocalhost\n"
                "172.17.0.1\thostB\n10.1.0.1\thostA\n10.1.0.6\tstore\n"
            )
            made.start("store", look)
            assert os.read(reader, 4096).decode() == (
                "store|eth0,eth6,lo,netz-ä0|127.0.0.1\tlocalhost\n::1\tlocalhost\n"
                "10.1.0.1\thostA\n10.1.0.2\thostB\n10.1.0.6\tstore\n"
            )
            with made.on("hostB"), socket.create_server(("172.17.0.1", 0)):
                assert hears(made, "store", "hostB", expected=True)

    inside_both(body)


def test_names_of_this_machine_are_untouched(inside: Inside, tmp_path: Path) -> None:
    before = (socket.gethostname(), Path("/etc/hosts").read_bytes(), socket.if_nameindex())

    def body() -> None:
        with arm(tmp_path) as made:
            reader, writer = os.pipe()
            pid = made.start("hostA", lambda: os.write(writer, b"there") and None)
            assert os.read(reader, 100) == b"there"
            assert gone(pid)
            assert socket.gethostname() == before[0]

    inside(body)
    assert (socket.gethostname(), Path("/etc/hosts").read_bytes(), socket.if_nameindex()) == before


@pytest.mark.parametrize("bad", ["10.77.0.2/24", "no-address/24"])
def test_a_network_that_cannot_be_built_is_told_and_leaves_nothing(
    inside_both: Inside, tmp_path: Path, bad: str
) -> None:
    def body() -> None:
        hosts = (
            HostPlan("hostA", (NicPlan("eth0", "10.77.0.1/24", "eth0"),), ()),
            HostPlan("hostB", (NicPlan("eth0", "10.77.0.2/24", "eth0"), NicPlan("eth0", bad, "eth1")), ()),
        )
        made = Arm(Network(hosts, "hostA"), tmp_path)
        assert made.first.startswith(b"failed "), made.first
        assert re.search(rb"File exists|no-address", made.first), made.first
        assert gone(made.pid)
        made.close()

    inside_both(body)


def test_the_switch_goes_with_its_warden(inside: Inside, tmp_path: Path) -> None:
    def body() -> None:
        with arm(tmp_path) as made:
            made.order("port", "hostB", for_s=60.0)
            made.warden.close()
            assert gone(made.pid)

    inside(body)


def test_a_garbled_order_is_refused(inside: Inside, tmp_path: Path) -> None:
    def body() -> None:
        with arm(tmp_path) as made:
            for text in (b"{", b"[]", b'{"kind": "explode"}', b"\xff"):
                made.rank.send(text)
                assert select.select([made.rank], [], [], 30.0)[0]
                assert b'"error": ""' not in made.rank.recv(65536)
            assert {e.state for e in made.test().values()} == {"open"}

    inside(body)


def test_a_doorway_that_is_shut_says_so() -> None:
    network = os.open("/dev/null", os.O_RDONLY)
    try:
        with pytest.raises(OSError, match="setns"):
            Doorway(network, "x", "/etc/hosts").enter()
    finally:
        os.close(network)


def test_what_is_gone_is_in_no_network() -> None:
    assert namespaces.network_of(1 << 30) == 0


def test_a_hundred_hosts_fit_into_a_plan() -> None:
    network = plan_network(200, (), "", outside_store=True)
    addresses = [h.address for h in network.hosts]
    assert len(set(addresses)) == 201
    assert addresses[-1] == "10.77.0.254"
