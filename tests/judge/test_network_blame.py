"""Blame of hosts, interfaces and links from hand-made histories: each way to be guilty, and to look it."""

from __future__ import annotations

import sys
from itertools import combinations
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from histories import Story
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.judge import blame
from chaoskit.model import Blame, Culprit, Kind, link

A, B, C, D = "hostA", "hostB", "hostC", "hostD"
TWO = (A, A, B, B)
THREE = (A, A, B, B, C, C)
FOUR = (A, B, C, D)


def on(
    *hosts: str, uses: tuple[str, ...] | dict[str, tuple[str, ...]] = ("eth0",), master: str = ""
) -> Story:
    """A job with a rank on each of ``hosts``, whose group has formed and that has done an operation."""
    story = Story(len(hosts), hosts=hosts, uses=uses, master=master)
    story.everyone("init", "all_reduce")
    return story


def silent(*pairs: tuple[str, str]) -> dict[tuple[str, str], str]:
    return dict.fromkeys(pairs, "silent")


def in_all_reduce(story: Story, *slots: int) -> None:
    for slot in slots or range(story.size):
        story.enter(slot, "all_reduce")


def found(story: Story) -> Blame:
    return blame.find(story.history)


def named(story: Story) -> tuple[list[str], Kind | None]:
    one = found(story)
    assert not one.ambiguous
    return [str(c) for c in one.culprits], one.kind


def nic(host: str, name: str = "eth0") -> Culprit:
    return Culprit("nic", f"{host} {name}")


# ---------------------------------------------------------------- a guard says so


def test_what_the_nic_check_blames_is_blamed() -> None:
    story = Story(4, hosts=TWO)
    for slot in range(4):
        story.fired(
            slot,
            "nic_check",
            91,
            "rank 2 (hostB) cannot be reached",
            "nic hostA docker0",
            "nic hostB docker0",
        )
        story.end(slot, 91)
    assert named(story) == (["nic hostA docker0", "nic hostB docker0"], Kind.CONFIGURATION)


def test_a_link_that_a_guard_names_is_unreachable_and_written_one_way() -> None:
    story = Story(4, hosts=TWO)
    for slot in range(4):
        story.fired(slot, "nic_check", 91, "said", "link hostB–hostA")
    assert named(story) == (["link hostA–hostB"], Kind.UNREACHABLE)


def test_guards_that_disagree_are_outvoted_and_of_equals_the_first_is_believed() -> None:
    story = Story(4, hosts=TWO)
    story.fired(0, "nic_check", 91, "said", "nic hostA eth0")
    story.fired(1, "nic_check", 91, "said", "nic hostB eth0")
    assert named(story)[0] == ["nic hostA eth0"]
    story.fired(2, "nic_check", 91, "said", "nic hostB eth0")
    assert named(story)[0] == ["nic hostB eth0"]


def test_a_rank_that_died_before_the_guard_spoke_is_the_culprit() -> None:
    story = Story(4, hosts=TWO)
    story.end(3, -9)
    for slot in range(3):
        story.fired(slot, "nic_check", 91, "said", "nic hostB eth0")
        story.end(slot, 91)
    assert named(story) == (["rank 3"], Kind.KILLED)


@pytest.mark.parametrize(
    "text", ["", "nic", "nic hostB", "host", "link hostA", "nobody hostA", "rank x", "nic a b c"]
)
def test_what_names_nobody_is_not_blamed(text: str) -> None:
    story = on(*TWO)
    story.fired(0, "nic_check", 91, "said", text)
    assert all(c.kind == "rank" for c in found(story).culprits)


def test_a_host_that_others_reach_is_not_lost_whatever_a_guard_says() -> None:
    """Its guard sees that it cannot reach the host of the store; rank hosts elsewhere can."""
    story = on(*TWO)
    in_all_reduce(story)
    story.fired(2, "store_outside", 92, "the store does not answer", "host store")
    story.paths((A, B, "store"), silent((A, B), (B, "store")))
    assert named(story) == (["link hostA–hostB"], Kind.UNREACHABLE)


# ---------------------------------------------------------------- hosts


def crash(story: Story, *slots: int, code: int = -9) -> None:
    for slot in slots:
        story.end(slot, code)


def test_all_ranks_of_a_host_ended_together_are_the_host() -> None:
    story = on(*TWO)
    in_all_reduce(story)
    crash(story, 2, 3)
    story.timed_out(0, 1)
    assert named(story) == (["host hostB"], Kind.KILLED)
    assert found(story).reason == (
        "every rank of hostB (ranks 2, 3) was ended by SIGKILL in all_reduce #2, and all of them together"
    )


def test_one_rank_of_two_is_the_rank() -> None:
    story = on(*TWO)
    in_all_reduce(story)
    crash(story, 2)
    for slot in (0, 1, 3):
        story.victim(slot)
    assert named(story) == (["rank 2"], Kind.KILLED)


def test_one_rank_alone_on_its_host_is_the_host_only_where_its_link_went_down_too() -> None:
    story = on(*FOUR)
    in_all_reduce(story)
    crash(story, 1)
    for slot in (0, 2, 3):
        story.victim(slot)
    assert named(story) == (["rank 1"], Kind.KILLED)
    story = on(*FOUR)
    in_all_reduce(story)
    story.link(B, up=False)
    crash(story, 1)
    story.timed_out(0, 2, 3)
    story.paths(FOUR, silent((A, B), (B, C), (B, D)))
    assert named(story) == (["host hostB"], Kind.KILLED)
    assert "eth0 went down" in found(story).reason


def test_a_host_that_came_back_after_its_crash_is_still_the_culprit() -> None:
    story = on(*FOUR)
    in_all_reduce(story)
    story.link(B, up=False)
    crash(story, 1)
    story.tick(1.0)
    story.link(B, up=True)
    story.timed_out(0, 2, 3)
    story.paths(FOUR)
    assert named(story) == (["host hostB"], Kind.KILLED)


def test_ranks_that_ended_apart_or_by_other_signals_are_ranks() -> None:
    story = on(*TWO)
    in_all_reduce(story)
    crash(story, 2)
    story.tick(5.0)
    crash(story, 3)
    assert named(story)[0] == ["rank 2"]
    story = on(*TWO)
    in_all_reduce(story)
    crash(story, 2)
    crash(story, 3, code=-11)
    assert [c.kind for c in found(story).culprits] == ["rank", "rank"]


def test_ranks_that_the_launcher_ended_are_no_lost_host() -> None:
    story = on(*TWO)
    in_all_reduce(story)
    story.raised(0, "own", "ValueError", "bad batch")
    story.end(0, 1)
    for slot in (1, 2, 3):
        story.end(slot, -9, "launcher")
    assert named(story) == (["rank 0"], Kind.EXCEPTION)


def test_a_job_that_was_killed_on_all_hosts_is_no_lost_host() -> None:
    story = on(*TWO)
    in_all_reduce(story)
    crash(story, 0, 1, 2, 3)
    assert all(c.kind == "rank" for c in found(story).culprits)


def test_a_host_with_all_ranks_stopped_is_frozen_and_one_rank_is_a_rank() -> None:
    story = on(*TWO)
    in_all_reduce(story)
    story.stop(2)
    story.stop(3)
    story.timed_out(0, 1)
    for slot in (2, 3):
        story.end(slot, -9, "launcher")
    story.paths((A, B))
    assert named(story) == (["host hostB"], Kind.FROZEN)
    story = on(*TWO)
    in_all_reduce(story)
    story.stop(2)
    story.timed_out(0, 1, 3)
    assert named(story) == (["rank 2"], Kind.FROZEN)


def test_an_error_of_its_own_before_the_host_was_lost_is_the_cause() -> None:
    story = on(*TWO)
    in_all_reduce(story)
    story.raised(0, "own", "ValueError", "bad batch")
    story.end(0, 1)
    story.tick(0.2)
    crash(story, 2, 3)
    assert named(story) == (["rank 0"], Kind.EXCEPTION)


@pytest.mark.parametrize(
    ("reason", "kind"),
    [("the store was ended (-9)", Kind.KILLED), ("the store is stopped", Kind.FROZEN)],
)
def test_the_host_of_the_store_is_blamed_for_its_loss(reason: str, kind: Kind) -> None:
    story = on(*TWO)
    in_all_reduce(story)
    story.link("store", up=False)
    for slot in range(4):
        story.signalled(slot, "store_outside", reason)
        story.end(slot, -15, "launcher")
    assert named(story) == (["host store"], kind)


def test_a_store_whose_link_went_down_lost_its_interface() -> None:
    story = on(*TWO)
    in_all_reduce(story)
    story.link("store", up=False)
    story.tick(3.0)
    for slot in range(4):
        story.signalled(slot, "store_outside", "the store is silent")
        story.end(slot, -15, "launcher")
    assert named(story) == (["nic store eth0"], Kind.UNREACHABLE)


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


def flap(story: Story, host: str, for_s: float = 2.0) -> None:
    story.link(host, up=False)
    story.tick(for_s)
    story.link(host, up=True)


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


# ---------------------------------------------------------------- who looks guilty and is not


def test_a_rank_that_was_killed_before_the_link_went_down_is_the_culprit() -> None:
    story = on(*TWO)
    in_all_reduce(story)
    story.end(1, -9)
    story.tick(0.5)
    story.link(B, up=False)
    for slot in (0, 2, 3):
        story.victim(slot)
    story.paths((A, B), silent((A, B)))
    assert named(story) == (["rank 1"], Kind.KILLED)


def test_an_own_error_before_the_link_went_down_is_the_cause() -> None:
    story = on(*TWO)
    in_all_reduce(story, 0, 2, 3)
    story.raised(1, "own", "ValueError", "bad batch")
    story.end(1, 1)
    story.link(B, up=False)
    story.timed_out(0, 2, 3)
    story.paths((A, B), silent((A, B)))
    assert named(story) == (["rank 1"], Kind.EXCEPTION)


def test_a_rank_that_died_of_a_link_that_was_down_already_is_a_victim() -> None:
    story = on(*TWO)
    in_all_reduce(story)
    story.link(B, up=False)
    story.tick(2.0)
    story.raised(0, "own", "MyNetworkError", "no answer")
    story.end(0, 1)
    story.timed_out(1, 2, 3)
    assert named(story) == (["nic hostB eth0"], Kind.UNREACHABLE)


def test_a_stopped_rank_is_not_excused_by_a_network_that_broke_afterwards() -> None:
    story = on(*TWO)
    in_all_reduce(story)
    story.stop(0)
    story.tick(1.0)
    story.link(B, up=False)
    story.timed_out(1, 2, 3)
    story.paths((A, B), silent((A, B)))
    assert named(story) == (["rank 0"], Kind.FROZEN)


def test_halves_of_a_partition_that_sit_in_different_operations_are_victims() -> None:
    story = on(*TWO)
    in_all_reduce(story)
    story.complete(0)
    story.complete(1)
    in_all_reduce(story, 0, 1)
    story.paths((A, B), silent((A, B)))
    story.fired(0, "fail_fast", 82)
    story.end(0, 82)
    for slot in (1, 2, 3):
        story.signalled(slot)
        story.end(slot, -15, "launcher")
    assert named(story) == (["link hostA–hostB"], Kind.UNREACHABLE)


def test_without_any_broken_path_such_halves_name_nobody() -> None:
    story = on(*TWO)
    in_all_reduce(story)
    story.complete(0)
    story.complete(1)
    in_all_reduce(story, 0, 1)
    story.tick(3.0)
    story.fired(0, "fail_fast", 82)
    story.end(0, 82)
    for slot in (1, 2, 3):
        story.signalled(slot)
        story.end(slot, -15, "launcher")
    story.paths((A, B))
    assert (found(story).culprits, found(story).kind) == ((), Kind.UNKNOWN)


def test_a_rank_that_its_peers_miss_behind_a_silent_path_is_a_victim() -> None:
    """The census says of it that it did not come."""
    story = Story(4, hosts=TWO, uses=("eth0",))
    for slot in range(4):
        story.enter(slot, "init")
    for slot in (0, 1):
        story.fired(slot, "census", 80, "ranks 2, 3 did not come")
        story.end(slot, 80)
    for slot in (2, 3):
        story.fired(slot, "census", 80, "MASTER_ADDR does not answer")
        story.end(slot, 80)
    story.paths((A, B), silent((A, B)))
    assert named(story) == (["link hostA–hostB"], Kind.UNREACHABLE)


@pytest.mark.parametrize("tested", [True, False])
def test_a_rank_that_left_out_a_collective_is_blamed_while_all_paths_are_open(tested: bool) -> None:
    story = on(*TWO)
    for slot in (0, 1, 3):
        story.enter(slot, "all_reduce")
    story.enter(2, "barrier")
    story.timed_out(0, 1, 2, 3)
    if tested:
        story.paths((A, B))
    assert named(story) == (["rank 2"], Kind.OTHER_COLLECTIVE)


def test_a_program_that_goes_astray_is_blamed_though_a_path_is_silent() -> None:
    story = on(*TWO)
    for slot in (0, 1, 3):
        story.enter(slot, "all_reduce")
    story.enter(2, "barrier")
    story.timed_out(0, 1, 2, 3)
    story.paths((A, B), silent((A, B)))
    assert named(story)[0] == ["rank 2"]


# ---------------------------------------------------------------- properties

hosts_of_ranks = st.lists(st.sampled_from([A, B, C, D]), min_size=2, max_size=8).map(tuple)
all_pairs = list(combinations((A, B, C, D), 2))
broken = st.sets(st.sampled_from(all_pairs))


def torn(hosts: tuple[str, ...], pairs: set[tuple[str, str]], downs: set[str]) -> Story:
    story = on(*hosts)
    in_all_reduce(story)
    for host in sorted(downs):
        story.link(host, up=False)
    story.tick(3.0)
    story.timed_out(*range(story.size))
    bad = {p for p in pairs if set(p) <= set(hosts)}
    bad |= {p for p in all_pairs if set(p) & downs and set(p) <= set(hosts)}
    story.paths(tuple(sorted(set(hosts))), silent(*bad))
    return story


def hosts_named(one: Blame) -> set[str]:
    return {h for c in one.culprits for h in c.id.split()[0].split("–")}


@given(hosts_of_ranks, broken, st.sets(st.sampled_from([A, B])))
def test_nobody_is_named_without_a_failing_path_or_an_event(
    hosts: tuple[str, ...], pairs: set[tuple[str, str]], downs: set[str]
) -> None:
    downs = downs & set(hosts)
    one = found(torn(hosts, pairs, downs))
    failing = {h for p in pairs if set(p) <= set(hosts) for h in p} | downs
    if len(set(hosts)) > 1:
        assert hosts_named(one) <= failing
        assert bool(one.culprits) == bool(failing)


@given(hosts_of_ranks, broken, st.permutations([A, B, C, D]), st.sets(st.sampled_from([A, B])))
def test_other_names_of_hosts_name_the_same_ones(
    hosts: tuple[str, ...], pairs: set[tuple[str, str]], names: list[str], downs: set[str]
) -> None:
    other = dict(zip((A, B, C, D), names, strict=True))

    def renamed(c: Culprit) -> Culprit:
        if c.kind == "link":
            return link(*(other[h] for h in c.id.split("–")))
        host, _, name = c.id.partition(" ")
        return nic(other[host], name)

    downs = downs & set(hosts)
    first = found(torn(hosts, pairs, downs))
    mapped = {(min(other[a], other[b]), max(other[a], other[b])) for a, b in pairs}
    second = found(torn(tuple(other[h] for h in hosts), mapped, {other[h] for h in downs}))
    assert {renamed(c) for c in first.culprits} == set(second.culprits)
    assert first.kind == second.kind


@given(
    st.sampled_from([A, B]),
    st.sampled_from(["partition", "killed", "raised", "stopped", "skipped", "absent", "crash", "link down"]),
    st.booleans(),
)
def test_a_flap_long_before_that_operations_survived_changes_nothing(
    host: str, how: str, quiet: bool
) -> None:
    def told(flapped: bool) -> Blame:
        story = on(*TWO)
        if flapped:
            if not quiet:
                in_all_reduce(story)
            flap(story, host)
            if not quiet:
                for slot in range(4):
                    story.complete(slot)
        elif not quiet:
            story.everyone("all_reduce")
        story.now = 200.0
        story.everyone("all_reduce")
        story.now = 300.0
        _ends(story, how)
        return found(story)

    plain, after = told(flapped=False), told(flapped=True)
    assert (plain.culprits, plain.kind, plain.ambiguous) == (after.culprits, after.kind, after.ambiguous)
    assert plain.culprits


def _ends(story: Story, how: str) -> None:
    guilty = 3
    for slot in (0, 1, 2):
        story.enter(slot, "barrier")
    if how not in ("absent", "raised"):
        story.enter(guilty, "all_reduce" if how == "skipped" else "barrier")
    bad = silent()
    match how:
        case "killed":
            story.end(guilty, -9)
        case "crash":
            story.link(B, up=False)
            story.end(2, -9)
            story.end(3, -9)
        case "raised":
            story.raised(guilty, "own")
            story.end(guilty, 1)
        case "stopped":
            story.stop(guilty)
        case "link down":
            story.link(B, up=False)
    if how in ("partition", "link down", "crash"):
        bad = silent((A, B))
    story.tick(3.0)
    story.timed_out(0, 1, *(() if how == "crash" else (2,)))
    story.paths((A, B), bad)
    if how in ("partition", "link down", "skipped"):
        story.timed_out(guilty)
    elif how in ("absent", "stopped"):
        story.end(guilty, -9, "supervisor")
