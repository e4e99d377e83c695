"""What the kernel's table says, and who is at the other side: plain values."""

from __future__ import annotations

import socket

from hypothesis import given
from hypothesis import strategies as st

from chaoskit.evidence import sockets
from chaoskit.evidence.sockets import Entry

TABLE = b"""\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1 0000000000000000 100 0
   1: 0100007F:1F90 0100007F:C350 01 0000000A:00000190 01:00000019 00000000     0        0 12 1 0 20 4 30 10 -1
   2: bad line
   3: 0100007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 13 1 0 20 4 30 10 -1
"""  # noqa: E501
TABLE6 = b"""\
  sl  local_address                         remote_address                        st tx_queue rx_queue
   0: 0000000000000000FFFF00000100007F:1F90 0000000000000000FFFF00000100007F:C350 01 00000000:00000000 0:0 0 0 0 21 1
   1: 00000000000000000000000001000000:0016 00000000000000000000000000000000:0000 0A 00000000:00000000 0:0 0 0 0 22 1
"""  # noqa: E501


def entry(local: tuple[str, int], remote: tuple[str, int], inode: int = 1) -> Entry:
    return Entry(local, remote, "ESTABLISHED", 0, 0, inode)


def test_a_table_of_ipv4() -> None:
    listening, connected, other = sockets.parse(TABLE)
    assert listening == Entry(("127.0.0.1", 8080), ("0.0.0.0", 0), "LISTEN", 0, 0, 11)
    assert connected == Entry(("127.0.0.1", 8080), ("127.0.0.1", 50000), "ESTABLISHED", 10, 400, 12)
    assert other.inode == 13


def test_a_table_of_ipv6_in_which_ipv4_looks_as_usual() -> None:
    mapped, listening = sockets.parse(TABLE6)
    assert (mapped.local, mapped.remote) == (("127.0.0.1", 8080), ("127.0.0.1", 50000))
    assert listening.local == ("::1", 22)


def test_the_kernels_own_table_is_read() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        with open("/proc/self/net/tcp", "rb") as file:
            found = sockets.parse(file.read())
        assert any(e.local == server.getsockname() and e.state == "LISTEN" for e in found)


def test_loopback_of_another_host_is_another_place() -> None:
    here, there = ("127.0.0.1", 1), ("127.0.0.1", 2)
    owned = {0: [entry(here, there)], 1: [entry(there, here)]}
    assert sockets.with_peers(owned, {0: "net:1", 1: "net:1"}, 0)[0][0].peer == 1
    assert sockets.with_peers(owned, {0: "net:1", 1: "net:2"}, 0)[0][0].peer is None


def test_other_addresses_are_the_same_on_all_hosts() -> None:
    here, there = ("10.0.0.1", 1), ("10.0.0.2", 2)
    owned = {0: [entry(here, there)], 1: [entry(there, here)]}
    found = sockets.with_peers(owned, {0: "net:1", 1: "net:2"}, 2)
    assert [s.peer for s in found[0] + found[1]] == [1, 0]
    assert {s.what for s in found[0] + found[1]} == {"store"}


def test_a_rank_owns_what_it_has_open() -> None:
    tables = {"net:1": sockets.parse(TABLE), "net:2": sockets.parse(TABLE6)}
    owned = sockets.own({0: {11, 12, 99}, 1: {13}, 2: {11, 21}}, {0: "net:1", 1: "net:1", 2: "net:2"}, tables)
    assert {slot: [e.inode for e in entries] for slot, entries in owned.items()} == {
        0: [11, 12],
        1: [13],
        2: [21],
    }


lines = st.sampled_from((TABLE + TABLE6).splitlines(keepends=True))


@given(st.lists(lines | st.binary(max_size=80)).map(b"".join))
def test_anything_parses_to_entries(table: bytes) -> None:
    for found in sockets.parse(table):
        assert 0 <= found.local[1] < 1 << 64
