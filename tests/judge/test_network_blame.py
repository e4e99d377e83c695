"""Blame of interfaces and links from hand-made histories."""

from __future__ import annotations

import sys
from itertools import combinations
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from histories import Story
from networks import (
    FOUR,
    THREE,
    TWO,
    A,
    B,
    C,
    D,
    flap,
    found,
    in_all_reduce,
    named,
    on,
    silent,
)

from chaoskit.model import Kind

# ---------------------------------------------------------------- links and interfaces


def test_a_link_that_went_down_with_its_ranks_alive_is_the_interface() -> None:
    story = on(*TWO)
    in_all_reduce(story)
    story.link(B, up=False)
    story.tick(3.0)
    story.timed_out(0, 1, 2, 3)
    story.paths((A, B), silent((A, B)))
    assert named(story) == (["nic hostB eth0"], Kind.UNREACHABLE)
    assert "went down" in found(story).reason and found(story).where == "train.py:20"


def test_a_job_that_hangs_on_it_is_told_alike() -> None:
    story = on(*TWO)
    in_all_reduce(story)
    story.link(B, up=False)
    story.still(0, 1, 2, 3)
    story.paths((A, B), silent((A, B)))
    story.deadline(0, 1, 2, 3)
    assert named(story) == (["nic hostB eth0"], Kind.UNREACHABLE)


def test_two_hosts_apart_are_the_link_between_them() -> None:
    story = on(*TWO)
    in_all_reduce(story)
    story.timed_out(0, 1, 2, 3)
    story.paths((A, B), silent((A, B)))
    assert named(story) == (["link hostA–hostB"], Kind.UNREACHABLE)
    assert found(story).reason == "hostA and hostB do not reach each other over eth0 (silent)"


def test_a_host_that_nobody_reaches_is_its_interface_if_the_others_are_fine() -> None:
    story = on(*THREE)
    in_all_reduce(story)
    story.timed_out(*range(6))
    story.paths((A, B, C), silent((A, B), (B, C)))
    assert named(story) == (["nic hostB eth0"], Kind.UNREACHABLE)


def test_one_pair_of_three_is_a_link() -> None:
    story = on(*THREE)
    in_all_reduce(story)
    story.timed_out(*range(6))
    story.paths((A, B, C), {(A, C): "refused"})
    assert named(story) == (["link hostA–hostC"], Kind.UNREACHABLE)
    assert "refused" in found(story).reason


def test_a_partition_is_every_link_across_it() -> None:
    story = on(*FOUR)
    in_all_reduce(story)
    story.timed_out(*range(4))
    story.paths(FOUR, silent((A, C), (A, D), (B, C), (B, D)))
    assert named(story)[0] == [f"link {a}–{b}" for a, b in ((A, C), (A, D), (B, C), (B, D))]


def test_where_nobody_reaches_anybody_it_is_all_links() -> None:
    story = on(*FOUR)
    in_all_reduce(story)
    story.timed_out(*range(4))
    story.paths(FOUR, silent(*combinations(FOUR, 2)))
    assert len(found(story).culprits) == 6 and {c.kind for c in found(story).culprits} == {"link"}


def test_one_way_says_which_way() -> None:
    story = on(*TWO)
    in_all_reduce(story)
    story.timed_out(0, 1, 2, 3)
    story.paths((A, B), silent((B, A)), both=False)
    assert named(story) == (["link hostA–hostB"], Kind.UNREACHABLE)
    assert found(story).reason == "hostB does not reach hostA over eth0 (silent), hostA reaches hostB"


def test_a_link_that_carries_next_to_nothing_is_slow() -> None:
    story = on(*TWO)
    in_all_reduce(story)
    story.timed_out(0, 1, 2, 3)
    story.paths((A, B), {(A, B): "slow"})
    assert named(story) == (["link hostA–hostB"], Kind.UNREACHABLE)
    assert "(slow)" in found(story).reason


def test_a_path_that_was_open_in_another_test_was_only_not_heard_in_time() -> None:
    story = on(*TWO)
    in_all_reduce(story, 0, 1, 3)
    story.paths((A, B), silent((A, B)))
    story.timed_out(0, 1, 3)
    story.paths((A, B))
    story.end(2, -9, "supervisor")
    assert named(story) == (["rank 2"], Kind.NEVER_ENTERED)


def test_what_a_store_elsewhere_adds_does_not_change_the_name() -> None:
    story = on(*TWO)
    in_all_reduce(story)
    story.timed_out(0, 1, 2, 3)
    story.paths((A, B, "store"), silent((A, B), (B, "store")))
    assert named(story)[0] == ["link hostA–hostB"]
    story = on(*TWO)
    in_all_reduce(story)
    story.timed_out(0, 1, 2, 3)
    story.paths((A, B, "store"), silent((B, "store")))
    assert named(story)[0] == ["link hostB–store"]


def test_an_interface_that_the_backend_does_not_use_is_not_to_blame() -> None:
    story = on(*TWO)
    in_all_reduce(story, 0, 1, 3)
    story.still(0, 1, 2, 3)
    story.link(B, up=False, nic="eth1")
    story.paths((A, B))
    story.paths((A, B), silent((A, B)), nic="eth1")
    story.deadline(0, 1, 2, 3)
    assert named(story) == (["rank 2"], Kind.NEVER_ENTERED)


def test_an_unused_interface_is_not_to_blame_before_the_group_forms_either() -> None:
    story = Story(4, hosts=TWO, uses=("eth0",))
    story.link(B, up=False, nic="eth1")
    for slot in (0, 1, 2):
        story.enter(slot, "init")
    story.end(3, -9)
    story.timed_out(0, 1, 2)
    story.paths((A, B))
    story.paths((A, B), silent((A, B)), nic="eth1")
    assert named(story) == (["rank 3"], Kind.KILLED)


def test_an_interface_is_used_by_the_hosts_that_say_so_and_the_store_is_at_the_first() -> None:
    """Rank 0's host uses eth0, the others' eth1; the host of the store has eth1 too, and nobody uses it."""
    story = on(*TWO, uses={A: ("eth0",), B: ("eth1",)})
    story.link("store", up=False, nic="eth1")
    story.link(A, up=False, nic="eth1")
    in_all_reduce(story, 0, 1, 3)
    story.still(0, 1, 2, 3)
    story.paths((A, B, "store"))
    story.paths((A, B, "store"), silent((A, "store")), nic="eth1")
    story.deadline(0, 1, 2, 3)
    assert named(story) == (["rank 2"], Kind.NEVER_ENTERED)


def test_an_address_where_rank_0_itself_finds_nothing_is_wrong_for_all() -> None:
    story = Story(4, hosts=TWO, uses=("eth0",), master="203.0.113.7:29500")
    for slot in range(4):
        story.enter(slot, "init")
    message = "nothing answers at MASTER_ADDR:MASTER_PORT 203.0.113.7:29500 (Network is unreachable)"
    story.fired(0, "census", 80, message)
    story.end(0, 80)
    for slot in (1, 2, 3):
        story.end(slot, -15, "launcher")
    story.paths((A, B))
    one = found(story)
    assert (len(one.culprits), one.kind) == (4, Kind.CONFIGURATION)


def test_a_port_that_was_down_all_the_time_while_operations_crossed_is_not_to_blame() -> None:
    """Which interfaces the backend uses is not known here."""
    story = Story(4, hosts=TWO)
    story.link(B, up=False, nic="eth1")
    story.everyone("init", "all_reduce")
    in_all_reduce(story, 0, 1, 3)
    story.deadline(0, 1, 2, 3)
    assert named(story)[0] == ["rank 2"]


def test_interfaces_in_no_switch_are_the_wrong_ones() -> None:
    story = Story(4, hosts=TWO, uses=("docker0",))
    for slot in range(4):
        story.enter(slot, "init")
    story.paths((A, B))
    story.timed_out(0, 1, 2, 3)
    assert named(story) == (["nic hostA docker0", "nic hostB docker0"], Kind.CONFIGURATION)
    assert "reach each other over eth0" in found(story).reason


def test_one_host_with_an_interface_that_the_other_does_not_have() -> None:
    story = Story(4, hosts=TWO, uses={A: ("eth0",), B: ("eth1",)})
    for slot in range(4):
        story.enter(slot, "init")
    story.paths((A, B))
    story.timed_out(0, 1, 2, 3)
    assert named(story) == (["nic hostB eth1"], Kind.CONFIGURATION)


def test_a_master_address_that_is_every_host_itself_is_configuration() -> None:
    story = Story(4, hosts=TWO, uses=("eth0",), master="127.0.0.1:29500")
    for slot in range(4):
        story.enter(slot, "init")
    story.timed_out(0, 1, 2, 3)
    one = found(story)
    assert (one.kind, len(one.culprits)) == (Kind.CONFIGURATION, 4) and "127.0.0.1" in one.reason
    alone = Story(2, master="127.0.0.1:29500")
    alone.enter(0, "init")
    alone.timed_out(0)
    assert found(alone).kind is not Kind.CONFIGURATION


# ---------------------------------------------------------------- flaps


def test_a_flap_in_the_middle_of_the_operation_that_fails_is_the_interface() -> None:
    story = on(*TWO)
    in_all_reduce(story)
    flap(story, B)
    story.tick(1.0)
    story.timed_out(0, 1, 2, 3)
    story.paths((A, B))
    assert named(story) == (["nic hostB eth0"], Kind.UNREACHABLE)
    assert "was down from" in found(story).reason


def test_a_flap_that_operations_survived_is_not() -> None:
    story = on(*TWO)
    in_all_reduce(story)
    flap(story, B)
    for slot in range(4):
        story.complete(slot)
    story.everyone("all_reduce")
    in_all_reduce(story, 0, 1, 3)
    story.tick(3.0)
    story.timed_out(0, 1, 3)
    story.end(2, -9, "launcher")
    story.paths((A, B))
    assert named(story) == (["rank 2"], Kind.NEVER_ENTERED)


def test_a_rank_outside_of_the_operation_is_rather_the_cause_than_a_flap() -> None:
    story = on(*TWO)
    in_all_reduce(story, 0, 1, 3)
    flap(story, B, 0.1)
    story.tick(3.0)
    story.timed_out(0, 1, 3)
    story.end(2, -9, "launcher")
    assert named(story) == (["rank 2"], Kind.NEVER_ENTERED)


def test_a_flap_before_the_operation_began_is_not() -> None:
    story = on(*TWO)
    flap(story, B)
    in_all_reduce(story)
    story.tick(3.0)
    story.timed_out(0, 1, 2, 3)
    assert found(story).culprits == ()
