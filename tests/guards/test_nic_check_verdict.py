"""Whom and what pairs of ranks that cannot connect blame, and how it is said. Pure."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from chaoskit.guards.nic_card import (
    Attempt,
    Card,
    End,
    Failure,
    Other,
    attempts,
    from_rows,
    impossible,
    to_rows,
)
from chaoskit.guards.nic_choice import BackendName
from chaoskit.guards.nic_rate import guilty
from chaoskit.guards.nic_verdict import believed, verdict

GLOO: tuple[BackendName, int] = ("gloo", 0)
HOSTS = "ABCDEFGH"


def card(
    rank: int, interface: str, ip: str, others: Sequence[str] = (), backend: BackendName = "gloo"
) -> Card:
    """Rank n is on its own host, with the other interfaces eth9, eth10, …"""
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    end = End(backend, 0, interface, family, ip, 0, 1000 + rank, "GLOO_SOCKET_IFNAME")
    besides = tuple(Other(f"eth{9 + n}", socket.AF_INET, other, 1) for n, other in enumerate(others))
    host = f"host{HOSTS[rank]}"
    return Card(rank, host, f"{host}/1", f"{rank:032x}", False, (end,), besides)


def eth0(count: int) -> list[Card]:
    return [card(rank, "eth0", f"10.0.0.{rank + 1}") for rank in range(count)]


def fails(*pairs: tuple[int, int], why: str = "no answer", detail: str = "") -> list[Failure]:
    return [Failure(Attempt(source, target, GLOO), why, detail) for source, target in pairs]  # type: ignore[arg-type]


def test_the_larger_address_connects_as_in_gloo() -> None:
    cards = [card(0, "eth0", "10.0.0.9"), card(1, "eth0", "10.0.0.10"), card(2, "eth0", "9.255.0.1")]
    tried = [(a.source, a.target) for c in cards for a in attempts(c, cards)]
    assert sorted(tried) == [(0, 2), (1, 0), (1, 2)]


def test_nccl_connects_both_ways() -> None:
    cards = [card(rank, "eth0", f"10.0.0.{rank}", backend="nccl") for rank in range(3)]
    assert sum(len(attempts(c, cards)) for c in cards) == 6


@given(st.lists(st.integers(0, 3), min_size=2, max_size=8))
def test_gloo_connects_every_pair_once(numbers: list[int]) -> None:
    cards = [card(rank, "eth0", f"10.0.0.{number}") for rank, number in enumerate(numbers)]
    tried = [frozenset((a.source, a.target)) for c in cards for a in attempts(c, cards)]
    assert len(tried) == len(set(tried)) == len(cards) * (len(cards) - 1) // 2


def test_other_families_and_other_numbers_of_devices_fail_at_once() -> None:
    cards = [card(0, "eth0", "10.0.0.1"), card(1, "eth0", "fd00::1")]
    assert [(f.why, attempts(c, cards)) for c in cards for f in impossible(c, cards)] == [("family", [])]
    two = Card(
        0,
        "hostA",
        "m",
        "00",
        False,
        (*cards[0].ends, End("gloo", 1, "eth1", 2, "10.1.0.1", 0, 1, "name")),
        (),
    )
    (missing,) = impossible(two, [two, card(1, "eth0", "10.0.0.2")])
    assert missing == Failure(Attempt(0, 1, ("gloo", 1)), "missing")


def test_what_ranks_tell_one_another_comes_back_as_it_was() -> None:
    one = card(3, "eth0", "fd00::1", ["10.0.0.1"])
    assert Card.from_json(one.to_json()) == one
    told = [Failure(Attempt(0, 1, GLOO), "other", "ab", (("eth1", "10.0.0.2"),))]
    assert from_rows(to_rows(told)) == told


def test_silence_is_not_believed_where_the_other_side_heard() -> None:
    silent = fails((0, 1), (0, 2), why="silent")
    assert believed(silent, [set(), {0}, set()]) == silent[1:]


def test_a_link_of_two_hosts_is_the_link() -> None:
    assert verdict(fails((1, 0)), eth0(2)).blames == ("link hostA–hostB",)


def test_one_host_of_three_that_nobody_reaches_is_its_interface() -> None:
    assert verdict(fails((1, 0), (2, 1)), eth0(3)).blames == ("nic hostB eth0",)


def test_one_link_of_three_is_the_link() -> None:
    assert verdict(fails((2, 1)), eth0(3)).blames == ("link hostB–hostC",)


def test_two_halves_are_their_links() -> None:
    found = verdict(fails((2, 0), (2, 1), (3, 0), (3, 1)), eth0(4))
    assert found.blames == ("link hostA–hostC", "link hostA–hostD", "link hostB–hostC", "link hostB–hostD")


def test_the_odd_interface_is_to_blame() -> None:
    cards = [*eth0(3), card(3, "eth1", "10.1.0.4")]
    assert verdict(fails((3, 0), (3, 1), (3, 2)), cards).blames == ("nic hostD eth1",)
    assert verdict(fails((1, 0)), [card(0, "eth0", "10.0.0.1"), card(1, "eth1", "10.1.0.2")]).blames == (
        "nic hostA eth0",
        "nic hostB eth1",
    )


def test_an_address_that_the_other_host_has_too_is_to_blame() -> None:
    here = card(0, "eth0", "192.168.0.1", ["172.17.0.1"])
    assert verdict(fails((0, 1)), [here, card(1, "docker0", "172.17.0.1")]).blames == ("nic hostB docker0",)


def test_the_odd_family_is_to_blame() -> None:
    cards = [*eth0(2), card(2, "eth0", "fd00::3")]
    found = verdict([f for c in cards for f in impossible(c, cards)], cards)
    assert found.blames == ("nic hostC eth0",)


def test_who_answers_instead_is_named() -> None:
    cards = [card(0, "docker0", "172.17.0.1"), card(1, "docker0", "172.17.0.1")]
    both = "as both hosts have that address; there is no other interface to try"
    for detail, words in ((cards[1].token, "it reaches itself"), ("ff", "another program answers there")):
        assert f"{words}, {both}" in verdict(fails((1, 0), why="other", detail=detail), cards).message
    third = [*cards, card(2, "eth0", "10.0.0.3")]
    said = verdict(fails((1, 0), why="other", detail=third[2].token), third).message
    assert "rank 2 (hostC) answers there" in said


def test_at_most_three_pairs_are_named_of_different_hosts_first() -> None:
    cards = eth0(5)
    every = [(source, target) for source in range(5) for target in range(source)]
    said = verdict(fails(*every), cards).message
    assert said.count("cannot be reached") == 3
    assert "; and 7 more pairs; there is no other interface to try: check links" in said


def test_the_interface_that_answers_most_is_advised() -> None:
    cards = [card(rank, "docker0", "172.17.0.1", [f"10.0.0.{rank + 1}"]) for rank in range(2)]
    (failure,) = fails((1, 0), why="refused")
    answered = Failure(failure.attempt, "refused", "", (("eth9", "10.0.0.1"),))
    assert verdict([answered], cards).message.endswith(
        "eth9 works (10.0.0.1 answers): set GLOO_SOCKET_IFNAME=eth9"
    )
    assert "nothing answers on eth9 either: check links" in verdict([failure], cards).message


def test_of_nccl_only_the_connections_that_it_surely_makes_are_fatal() -> None:
    cards = [card(rank, "eth0", f"10.0.0.{rank + 1}", backend="nccl") for rank in range(5)]

    def certain(source: int, target: int) -> bool:
        return verdict([Failure(Attempt(source, target, ("nccl", 0)), "refused")], cards).certain

    assert certain(3, 0) and certain(0, 3) and certain(2, 3)
    assert not certain(3, 1) and not certain(3, 2)


def test_slow_links_blame_the_interface_that_they_share() -> None:
    fast, low = 1e10, 1e8
    ring = {(0, 1): low, (1, 0): low, (1, 2): low, (2, 1): low, (2, 0): fast, (0, 2): fast}
    assert guilty(ring, 1e9) == {1}
    assert guilty({(0, 1): low, (1, 0): low}, 1e9) == {0, 1}
    assert guilty({(0, 1): low, (1, 0): fast}, 1e9) == {0}
    assert guilty({(0, 1): -1.0, (1, 0): fast, (1, 2): 0.95e9}, 1e9) == set()


def on(*names: str) -> list[Card]:
    return [card(rank, name, f"10.0.0.{rank + 1}") for rank, name in enumerate(names)]


def every_pair(cards: Sequence[Card], *dead: int) -> list[tuple[int, int]]:
    """All pairs that one of ``dead`` is in."""
    return [(a, b) for a in range(len(cards)) for b in range(a) if a in dead or b in dead]


def test_an_interface_of_another_name_that_works_is_not_to_blame() -> None:
    for names in (
        ("eth0", "eth0", "ens3"),
        ("eth0", "eth0", "ens3", "ens3"),
        ("eth0", "eth0", "ens3", "ib0"),
    ):
        cards = on(*names)
        assert verdict(fails(*every_pair(cards, 0)), cards).blames == ("nic hostA eth0",)
        last = len(cards) - 1
        found = verdict(fails(*every_pair(cards, last)), cards).blames
        assert found == (f"nic host{HOSTS[last]} {names[last]}",)
        assert verdict(fails((last, 0)), cards).blames == (f"link hostA–host{HOSTS[last]}",)


def test_odd_interfaces_that_reach_only_one_another_are_to_blame() -> None:
    cards = on("eth0", "eth0", "eth0", "eth1", "eth1")
    failing = [(source, target) for source in (3, 4) for target in range(3)]
    assert verdict(fails(*failing), cards).blames == ("nic hostD eth1", "nic hostE eth1")


def test_a_dead_port_is_seen_beside_an_odd_interface() -> None:
    cards = on("eth0", "eth0", "eth0", "ib0", "ens3")  # ens3 works
    found = verdict(fails(*every_pair(cards, 0, 3)), cards).blames
    assert found == ("nic hostD ib0", "nic hostA eth0")


@given(st.lists(st.sampled_from(["eth0", "ens3", "ib0"]), min_size=2, max_size=6), st.data())
def test_no_interface_is_blamed_all_of_whose_pairs_work(names: list[str], data: st.DataObject) -> None:
    """Nor one that reaches an interface of another name: that it differs is then not what is wrong."""
    cards = on(*names)
    pairs = every_pair(cards, *range(len(cards)))
    failing = data.draw(st.lists(st.sampled_from(pairs), min_size=1, unique=True))
    blames = verdict(fails(*failing), cards).blames
    assert blames
    for rank, name in enumerate(names):
        if f"nic host{HOSTS[rank]} {name}" in blames:
            assert any(rank in pair for pair in failing)
            works = [p for p in pairs if rank in p and p not in failing]
            assert {names[other] for pair in works for other in pair} <= {name}


@given(st.lists(st.sampled_from(["eth0", "ens3"]), min_size=3, max_size=6), st.data())
def test_dead_ports_are_named_exactly_whatever_the_interfaces_are_called(
    names: list[str], data: st.DataObject
) -> None:
    ranks = st.integers(0, len(names) - 1)
    dead = data.draw(st.sets(ranks, min_size=1, max_size=len(names) - 2), label="dead")
    blames = verdict(fails(*every_pair(on(*names), *dead)), on(*names)).blames
    assert set(blames) == {f"nic host{HOSTS[rank]} {names[rank]}" for rank in dead}
