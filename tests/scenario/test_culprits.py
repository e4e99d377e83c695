"""How a file names culprits, and those that a topology cannot have."""

from __future__ import annotations

import re

import pytest

from chaoskit.model import Culprit, Topology, link
from chaoskit.network import Nic
from chaoskit.scenario import culprits
from chaoskit.scenario.values import Wrong

VIRTUAL = Topology(4, hosts=2, nics=(Nic("eth0"), Nic("eth1", on=("hostB",))))


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("rank 01", "rank 1"),
        ("host hostB", "host hostB"),
        ("nic  hostB   docker0", "nic hostB docker0"),
        ("link hostB-hostA", "link hostA–hostB"),
        ("link hostA–hostB", "link hostA–hostB"),
        ("link hostB hostA", "link hostA–hostB"),
    ],
)
def test_culprits_are_read_as_reports_write_them(text: str, read: str) -> None:
    assert culprits.read(text) == read
    assert re.search(culprits.SCHEMA["pattern"], text.replace("  ", " ").replace("  ", " "))


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (1, "rank 1"), ("", "rank 1"), ("rank", "rank 1"), ("rank -1", "rank 1"), ("rank one", "rank 1"),
        ("switch a", "rank 1"), ("host", "nic hostB eth0"), ("host a b", "host hostB"),
        ("nic hostB", "nic hostB eth0"), ("nic a b c", "nic hostB eth0"), ("link hostA", "link hostA-hostB"),
        ("link hostA-hostA", "link hostA-hostB"), ("link a-b-c", "link hostA-hostB"),
        ("host \x1b[2J", "host hostB"),
    ],
)  # fmt: skip
def test_what_names_nobody_is_wrong_and_says_how_to_write_it(text: object, hint: str) -> None:
    with pytest.raises(Wrong) as wrong:
        culprits.read(text)
    assert hint in wrong.value.hint


@pytest.mark.parametrize(
    "culprit",
    [
        Culprit("rank", "3"), Culprit("host", "hostB"), Culprit("host", "store"),
        Culprit("nic", "hostB eth1"), Culprit("nic", "hostA lo"), Culprit("nic", "store eth0"),
        link("hostA", "hostB"), link("store", "hostB"),
    ],
)  # fmt: skip
def test_culprits_that_there_may_be(culprit: Culprit) -> None:
    assert culprits.problem(culprit, VIRTUAL) is None


@pytest.mark.parametrize(
    ("culprit", "hint"),
    [
        (Culprit("rank", "4"), "ranks 0 to 3"),
        (Culprit("host", "hostC"), "the hosts are hostA, hostB, store"),
        (Culprit("nic", "hostC eth0"), "the hosts are"),
        (Culprit("nic", "hostA eth1"), "hostA has lo, eth0"),
        (link("hostA", "hostC"), "the hosts are"),
    ],
)
def test_culprits_that_do_not_exist(culprit: Culprit, hint: str) -> None:
    found = culprits.problem(culprit, VIRTUAL)
    assert found is not None
    assert found[0] == f"culprit {culprit} does not exist" and hint in found[1]


def test_on_one_machine_only_ranks_can_be_blamed() -> None:
    found = culprits.problem(Culprit("host", "hostA"), Topology(4))
    assert found is not None and "needs virtual hosts" in found[0] and "hosts: 2" in found[1]
    assert culprits.problem(Culprit("rank", "3"), Topology(4)) is None
    assert culprits.problem(Culprit("nic", "hostB eth0"), Topology(4, hosts=2)) is None
