"""Every order does to real links and processes what it says, and is undone."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import virtual_hosts
from virtual_hosts import LIMIT_S, SILENT_S, arm, connection, connects, gone, hears, state_of

from chaoskit.launchers import kernel
from chaoskit.network import Nic

pytestmark = pytest.mark.timeout(300)
Inside = Callable[[Callable[[], None]], None]
IPV6 = (Nic("eth0", "fd00:77::/64"),)


Where = tuple[Inside, tuple[Nic, ...]]
BOTH = [
    pytest.param((False, ()), id="as we are, IPv4"),
    pytest.param((True, IPV6), id="user namespace, IPv6"),
    pytest.param((False, IPV6), id="as we are, IPv6", marks=pytest.mark.nightly),
    pytest.param((True, ()), id="user namespace, IPv4", marks=pytest.mark.nightly),
]


@pytest.fixture(params=BOTH)
def where(need_hosts: None, request: pytest.FixtureRequest) -> Where:
    """What runs a body in a child, with which rights, and the interfaces for it."""
    user_namespace, nics = request.param
    return (lambda body: virtual_hosts.in_child(body, user_namespace=user_namespace)), nics


def until(wanted: Callable[[], bool]) -> bool:
    """Has that become true within the time of a loaded machine?"""
    end = time.monotonic() + LIMIT_S
    while not wanted():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


# ---------------------------------------------------------------- links


def test_a_port_goes_down_and_comes_back_and_connections_live_on(inside_both: Inside, tmp_path: Path) -> None:
    def body() -> None:
        with arm(tmp_path) as made, connection(made, "hostA", "hostB") as (sender, receiver):
            sender.sendall(b"1")
            assert receiver.recv(1) == b"1"
            begun = time.monotonic()
            assert made.order("port", "hostB", for_s=0.3) == ""
            made.hear(lambda: len(made.links()) == 1)
            assert made.links() == [("hostB", "eth0", False)]
            sender.sendall(b"2")
            made.hear(lambda: len(made.links()) == 2)
            assert made.links()[1] == ("hostB", "eth0", True)
            assert time.monotonic() - begun >= 0.3
            assert receiver.recv(1) == b"2"

    inside_both(body)


def test_only_the_interface_that_is_named_goes_down(inside: Inside, tmp_path: Path) -> None:
    def body() -> None:
        with arm(tmp_path, nics=(Nic("eth0"), Nic("eth1"))) as made:
            assert made.order("port", "hostB", nic="eth1") == ""
            states = {(a, nic): e.state for (a, _, nic), e in made.test().items()}
            assert states == {
                ("hostA", "eth0"): "open", ("hostB", "eth0"): "open",
                ("hostA", "eth1"): "silent", ("hostB", "eth1"): "silent",
            }  # fmt: skip

    inside(body)


def test_a_port_that_was_declared_down_stays_so_when_an_order_is_undone(
    inside: Inside, tmp_path: Path
) -> None:
    def body() -> None:
        with arm(tmp_path, nics=(Nic("eth0"), Nic("eth1", port="down"))) as made:
            made.hear(lambda: len(made.links()) == 2)
            assert sorted(made.links()) == [("hostA", "eth1", False), ("hostB", "eth1", False)]
            assert made.order("port", "hostB", for_s=0.05) == ""
            made.hear(lambda: len(made.links()) == 4)
            assert made.links()[2:] == [("hostB", "eth0", False), ("hostB", "eth0", True)]
            made.hear_nothing()

    inside(body)


def measured_bps(sender: socket.socket, receiver: socket.socket, size: int) -> float:
    """Send ``size`` bytes in steps. Measured from the first on: what arrives while nobody looks makes no link
    look faster than it is; slower it may look, on a machine that has other things to do."""
    sender.setblocking(False)
    left, arrived, begun = size, 0, time.monotonic()
    while arrived < size:
        if left:
            with contextlib.suppress(BlockingIOError):
                left -= sender.send(b"\0" * min(left, 1 << 16))
        arrived += len(receiver.recv(1 << 16))
    return size * 8 / (time.monotonic() - begun)


def test_a_rate_is_what_passes_in_both_directions(inside_both: Inside, tmp_path: Path) -> None:
    def body() -> None:
        with arm(tmp_path) as made, connection(made, "hostA", "hostB") as (one, other):
            assert made.order("rate", "hostB", rate_bps=10e6) == ""
            for sender, receiver in ((one, other), (other, one)):
                receiver.settimeout(LIMIT_S)
                rate = measured_bps(sender, receiver, 1_500_000)
                assert 1.5e6 < rate < 11e6, rate  # 1.25e6: if bits were bytes

    inside_both(body)


def test_a_rate_is_undone_and_the_declared_one_is_back(inside: Inside, tmp_path: Path) -> None:
    def body() -> None:
        with arm(tmp_path, nics=(Nic(rate_bps=20e6),)) as made:
            assert made.order("rate", "hostB", rate_bps=8e3, for_s=0.2) == ""
            assert until(lambda: made.test()["hostA", "hostB", "eth0"].state == "open")
            with connection(made, "hostA", "hostB") as (sender, receiver):
                rate = measured_bps(sender, receiver, 2_000_000)
                assert 3e6 < rate < 22e6, rate

    inside(body)


def test_a_partition_is_silent_and_every_link_stays_up(where: Where, tmp_path: Path) -> None:
    inside, nics = where

    def body() -> None:
        with arm(tmp_path, 4, nics) as made:
            begun = time.monotonic()
            assert made.order("partition", hosts=("hostC", "hostD"), for_s=3.5) == ""
            states = {(a, b): e.state for (a, b, _), e in made.test().items()}
            if time.monotonic() - begun < 3.5:
                sides = ({"hostA", "hostB"}, {"hostC", "hostD"})
                for path, state in states.items():
                    within = any(set(path) <= side for side in sides)
                    assert state == ("open" if within else "silent"), (path, state)
            assert until(lambda: all(e.state == "open" for e in made.test().values()))
            assert made.links() == []

    inside(body)


def test_two_partitions_at_a_time(inside: Inside, tmp_path: Path) -> None:
    def body() -> None:
        with arm(tmp_path, 3) as made:
            assert made.order("partition", hosts=("hostA", "hostB"), for_s=0.01) == ""
            assert made.order("partition", hosts=("hostB",)) == ""
            assert until(lambda: hears(made, "hostA", "hostC", expected=False))  # the first is undone
            assert not hears(made, "hostA", "hostB", expected=False)
            assert not hears(made, "hostB", "hostC", expected=False)

    inside(body)


def test_one_way_is_one_way(where: Where, tmp_path: Path) -> None:
    inside, nics = where

    def body() -> None:
        with arm(tmp_path, 3, nics) as made, connection(made, "hostB", "hostC") as (sender, receiver):
            for one, other in (("hostB", "hostC"), ("hostC", "hostB")):
                assert hears(made, one, other, expected=True)
            assert made.order("one-way", "hostB", for_s=0.5) == ""
            sender.sendall(b"x")
            assert receiver.recv(1) == b"x"  # now or once it is undone
            assert until(lambda: hears(made, "hostB", "hostC", expected=False))
            assert made.order("one-way", "hostB") == ""
            ways = (("hostB", "hostA"), ("hostB", "hostC"), ("hostA", "hostC"), ("hostC", "hostB"))
            heard = {way: hears(made, *way, expected=way[0] != "hostB") for way in ways}
            assert heard == {
                ("hostB", "hostA"): False, ("hostB", "hostC"): False,
                ("hostA", "hostC"): True, ("hostC", "hostB"): True,
            }  # fmt: skip
            sender.sendall(b"x")
            receiver.settimeout(SILENT_S)
            with pytest.raises(TimeoutError):
                receiver.recv(1)
            assert made.links() == []

    inside(body)


def test_only_a_port_is_let_through(where: Where, tmp_path: Path) -> None:
    inside, nics = where

    def body() -> None:
        with arm(tmp_path, 2, nics) as made, connection(made, "hostA", "hostB") as (sender, receiver):
            assert made.order("only-port", port=6000, for_s=0.5) == ""
            sender.sendall(b"x")
            assert receiver.recv(1) == b"x"  # now or once it is undone
            assert connects(made, "hostA", "hostB", 6001)
            assert made.order("only-port", port=6000) == ""
            assert connects(made, "hostA", "hostB", 6000)
            assert connects(made, "hostB", "hostA", 6000)
            found = [
                connects(made, "hostA", "hostB", 6001, SILENT_S),
                connects(made, "hostB", "hostA", 6001, SILENT_S),
                connects(made, "hostA", "hostA", 6001),  # nothing changes within a host
            ]
            sender.sendall(b"x")
            receiver.settimeout(SILENT_S)
            with pytest.raises(TimeoutError):
                receiver.recv(1)
            assert found == [False, False, True]

    inside(body)


def test_two_ports_may_be_let_through(inside: Inside, tmp_path: Path) -> None:
    def body() -> None:
        with arm(tmp_path) as made:
            assert made.order("only-port", port=6000) == ""
            assert made.order("only-port", port=6001) == ""
            assert connects(made, "hostA", "hostB", 6000)
            assert connects(made, "hostA", "hostB", 6001)
            assert not connects(made, "hostA", "hostB", 6002, SILENT_S)

    inside(body)


# ---------------------------------------------------------------- hosts


def linger() -> None:
    signal.pause()


def with_daemon(said: int) -> Callable[[], None]:
    """A process with a child, and a daemon that has left its session; tells their pids."""

    def body() -> None:
        child = os.fork()
        if child == 0:
            linger()
        if os.fork() == 0:
            os.setsid()
            daemon = os.fork()
            if daemon:
                os.write(said, f"{os.getppid()} {child} {daemon}\n".encode())
                os._exit(0)
            linger()
        os.wait()
        linger()

    return body


def test_a_crash_ends_all_that_is_on_the_host_and_nothing_else(inside_both: Inside, tmp_path: Path) -> None:
    def body() -> None:
        kernel.adopt_orphans()
        with arm(tmp_path) as made:
            reader, writer = os.pipe()
            outsider = made.start("hostA", linger)
            insider = made.start("hostB", with_daemon(writer))
            pids = [insider, *map(int, os.read(reader, 100).split())]
            with connection(made, "hostB", "hostA") as (_, receiver):
                assert made.order("crash", "hostB") == ""
                made.hear(lambda: len(made.heard) >= 2)
                assert made.links() == [("hostB", "eth0", False)]
                assert made.heard[1] == "lost hostB"  # by then its links were down
                assert all(map(gone, pids))
                assert state_of(outsider) not in ("", "Z", "X", "T")
                receiver.settimeout(SILENT_S)
                with pytest.raises(TimeoutError):  # no FIN, no RST
                    receiver.recv(1)
            os.kill(outsider, signal.SIGKILL)

    inside_both(body)


def test_no_fin_gets_out_of_a_host_that_crashes(inside: Inside, tmp_path: Path) -> None:
    """The process that held the connection is among those that are killed."""

    def body() -> None:
        with arm(tmp_path, 3) as made:
            address = made.address("hostA")
            with made.on("hostA"), socket.create_server((address, 7000)) as listener:

                def connect() -> None:
                    with socket.create_connection((address, 7000), LIMIT_S):
                        linger()

                pid = made.start("hostB", connect)
                listener.settimeout(LIMIT_S)
                with listener.accept()[0] as receiver:
                    assert made.order("crash", "hostB") == ""
                    assert gone(pid)
                    receiver.settimeout(SILENT_S)
                    with pytest.raises(TimeoutError):
                        receiver.recv(1)
            assert made.order("crash", "hostC", for_s=0.05) == ""
            made.hear(lambda: "back hostC" in made.heard)  # rebooted
            assert made.links() == [
                ("hostB", "eth0", False),
                ("hostC", "eth0", False),
                ("hostC", "eth0", True),
            ]
            assert "back hostB" not in made.heard

    inside(body)


def test_a_frozen_host_stands_still_and_goes_on(inside_both: Inside, tmp_path: Path) -> None:
    """One stays frozen; of the other it is seen that its processes were told to go on."""

    def body() -> None:
        with arm(tmp_path, 3) as made:
            reader, writer = os.pipe()

            def go_on() -> None:
                signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCONT})
                os.write(writer, b"r")
                signal.sigwait({signal.SIGCONT})
                os.write(writer, b"c")
                linger()

            frozen, other = made.start("hostB", linger), made.start("hostA", linger)
            thawed = made.start("hostC", go_on)
            assert os.read(reader, 1) == b"r"
            assert made.order("freeze", "hostB") == ""
            assert until(lambda: state_of(frozen) == "T")
            assert state_of(other) != "T"
            made.hear(lambda: "lost hostB" in made.heard)
            assert made.test()["hostA", "hostB", "eth0"].state == "open"  # its kernel answers
            assert made.order("freeze", "hostC", for_s=0.05) == ""
            made.hear(lambda: "back hostC" in made.heard)
            assert os.read(reader, 1) == b"c"
            assert "lost hostC" in made.heard
            assert "back hostB" not in made.heard
            assert state_of(frozen) == "T"
            for pid in (frozen, other, thawed):
                os.kill(pid, signal.SIGKILL)

    inside_both(body)


def test_a_host_is_back_when_nothing_stands_any_more_that_froze_it(inside: Inside, tmp_path: Path) -> None:
    def body() -> None:
        with arm(tmp_path) as made:
            frozen = made.start("hostB", linger)
            made.order("freeze", "hostB")
            made.order("freeze", "hostB", for_s=0.05)
            made.order("port", "hostA", for_s=0.2)
            made.hear(lambda: len(made.links()) == 2)  # later than the end of the second freeze
            assert "back hostB" not in made.heard
            assert until(lambda: state_of(frozen) == "T")
            os.kill(frozen, signal.SIGKILL)

    inside(body)


def test_a_name_is_known_late(inside_both: Inside, tmp_path: Path) -> None:
    def body() -> None:
        with arm(tmp_path, own_name="127.0.1.1") as made:
            reader, writer = os.pipe()
            go_reader, go_writer = os.pipe()

            def ask() -> None:
                kernel.resolve_from_hosts_file_only()
                while os.read(go_reader, 1):
                    try:
                        found = socket.gethostbyname("hostA")
                    except OSError:
                        found = "unknown"
                    os.write(
                        writer, f"{socket.gethostname()} {found} {socket.gethostbyname('hostB')}".encode()
                    )

            def answer() -> str:
                os.write(go_writer, b"?")
                return os.read(reader, 100).decode()

            pid = made.start("hostB", ask)
            assert answer() == "hostB 10.77.0.1 127.0.1.1"
            assert made.order("name", "hostB", name="hostA", for_s=0.2) == ""
            assert until(lambda: answer() == "hostB 10.77.0.1 127.0.1.1")
            begun = time.monotonic()
            assert made.order("name", "hostB", name="hostA", for_s=2.0) == ""
            said = answer()
            assert said == "hostB unknown 127.0.1.1" or time.monotonic() - begun >= 2.0
            assert until(lambda: answer() == "hostB 10.77.0.1 127.0.1.1")
            os.kill(pid, signal.SIGKILL)

    inside_both(body)


# ---------------------------------------------------------------- what cannot be


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ({"kind": "port", "host": "hostX"}, "no host 'hostX'; there are hostA, hostB"),
        ({"kind": "port", "host": "hostA", "nic": "eth9"}, "hostA has no interface eth9"),
        ({"kind": "port", "host": "hostA", "nic": "docker0"}, "hostA has no interface docker0"),
        ({"kind": "rate", "host": "hostA"}, "no link carries 0"),
        ({"kind": "partition"}, "both sides"),
        ({"kind": "partition", "hosts": ("hostA", "hostB")}, "both sides"),
        ({"kind": "partition", "hosts": ("hostA", "hostQ")}, "no host 'hostQ'"),
        ({"kind": "only-port"}, "no port 0"),
        ({"kind": "name", "host": "hostA", "name": "nobody"}, "does not know the name 'nobody'"),
        ({"kind": "crash", "host": ""}, "no host ''"),
        ({"kind": "rate", "host": "hostA", "rate_bps": float("nan")}, "no link carries nan"),
    ],
)
def test_an_order_that_makes_no_sense_is_refused_with_the_reason(
    inside: Inside, tmp_path: Path, order: dict[str, object], said: str
) -> None:
    def body() -> None:
        with arm(tmp_path, nics=(Nic("eth0"), Nic("docker0", same_address="172.17.0.1/16"))) as made:
            assert said in made.order(**order)  # type: ignore[arg-type]
            assert all(e.state == "open" for e in made.test().values())
            assert made.links() == []

    inside(body)


def test_the_host_of_the_store_is_called_store(inside: Inside, tmp_path: Path) -> None:
    def body() -> None:
        with arm(tmp_path) as made:
            assert made.order("port", "store") == ""
            made.hear(lambda: made.links() == [("hostA", "eth0", False)])

    inside(body)


def test_an_order_that_stands_when_the_arm_ends_is_no_matter(inside: Inside, tmp_path: Path) -> None:
    def body() -> None:
        with arm(tmp_path) as made:
            for kind in ("port", "one-way", "rate"):
                assert made.order(kind, "hostB", rate_bps=8e3, for_s=60.0) == ""
        assert not Path(f"/proc/{made.pid}").exists()

    inside(body)


def test_a_rank_that_ends_while_it_orders_is_no_matter(inside: Inside, tmp_path: Path) -> None:
    def body() -> None:
        with arm(tmp_path) as made:
            made.rank.close()
            assert all(e.state == "open" for e in made.test().values())

    inside(body)
