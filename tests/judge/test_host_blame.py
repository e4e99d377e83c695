"""Blame of hosts, and of what guards name, from hand-made histories."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from histories import Story
from networks import (
    FOUR,
    TWO,
    A,
    B,
    C,
    D,
    crash,
    found,
    in_all_reduce,
    named,
    on,
    silent,
)

from chaoskit.model import Kind

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
