"""Blame of ranks and hosts beside a network that did something too, or that merely looks bad."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from dataclasses import dataclass
from typing import ClassVar

import pytest
from histories import Story
from networks import TWO, A, B, C, D, flap, in_all_reduce, named, on
from plans import plan_of

from chaoskit.history import PathState, PathTested, Stopped
from chaoskit.judge.contract import judge
from chaoskit.model import Fault, Kind, RankPlan, RankSet
from chaoskit.network import Network

BAD: dict[tuple[str, str], PathState] = {(A, B): "silent"}


@dataclass(frozen=True, slots=True)
class Crash(Fault):
    name: ClassVar[str] = "crash"
    triggers: ClassVar[frozenset[str]] = frozenset({"collective"})
    ends_by_signal: ClassVar[bool] = True
    rank: RankSet = (1,)
    host: str = ""


def waiting(*hosts: str) -> Story:
    story = on(*hosts)
    in_all_reduce(story)
    return story


def test_of_many_hosts_the_pairs_that_were_not_tested_say_nothing() -> None:
    story = Story(4, hosts=(A, B, C, D), uses=("eth0",))
    for slot in (0, 1, 2):
        story.enter(slot, "init")
    story.tick(3.0)
    story.timed_out(0, 1, 2)
    for host, to in ((A, B), (B, C), (C, D), (D, A)):
        story.add(PathTested(story.tick(), -1, host, to, "eth0", "open", 0.001))
    story.end(3, -9, "supervisor")
    assert named(story) == (["rank 3"], Kind.NEVER_ENTERED)


def test_a_rank_killed_while_a_link_is_down_for_a_moment_is_the_culprit() -> None:
    story = waiting(*TWO)
    story.link(B, up=False)
    story.tick(0.1)
    story.victim(1)
    story.end(0, -9)
    story.tick(0.3)
    story.link(B, up=True)
    story.paths((A, B), BAD)
    assert named(story) == (["rank 0"], Kind.KILLED)


def test_a_rank_that_leaves_in_a_flap_is_the_culprit_and_with_the_link_still_down_the_link_is() -> None:
    def left(back: bool) -> Story:
        story = waiting(*TWO)
        story.link(B, up=False)
        story.tick(0.1)
        story.end(0, 3)
        story.victim(1)
        if back:
            story.link(B, up=True)
        story.paths((A, B), BAD)
        return story

    assert named(left(back=True)) == (["rank 0"], Kind.EXITED)
    assert named(left(back=False)) == (["nic hostB eth0"], Kind.UNREACHABLE)


def test_a_link_of_a_host_whose_ranks_had_finished_hurts_nobody() -> None:
    story = on(*TWO)
    story.finish(2, 3)
    story.link(B, up=False)
    story.tick(2.0)
    story.enter(1, "all_reduce")
    story.raised(0, "own", "ValueError", "bad batch")
    story.end(0, 1)
    story.victim(1)
    story.paths((A, B), BAD)
    assert named(story) == (["rank 0"], Kind.EXCEPTION)


def test_a_rank_that_did_not_come_to_init_is_missing_though_a_link_flapped() -> None:
    story = Story(4, hosts=TWO, uses=("eth0",))
    for slot in (0, 1, 2):
        story.enter(slot, "init")
    story.link(B, up=False)
    story.tick(0.5)
    story.link(B, up=True)
    story.tick(3.0)
    story.timed_out(0, 1, 2)
    story.end(3, -9, "launcher")
    story.paths((A, B))
    assert named(story) == (["rank 3"], Kind.NEVER_ENTERED)


def test_a_rank_held_up_alone_on_its_host_with_all_paths_open_is_not_held_up_by_the_network() -> None:
    story = waiting(*TWO)
    for slot in (0, 3):
        story.complete(slot)
        story.enter(slot, "broadcast")
    story.complete(2)
    story.enter(2, "broadcast")
    story.tick(3.0)
    story.fired(0, "fail_fast", 82)
    for slot in (1, 2, 3):
        story.signalled(slot)
        story.end(slot, -15, "launcher")
    story.paths((A, B))
    assert named(story) == (["rank 1"], Kind.NEVER_ENTERED)


def test_an_exit_of_its_own_counts_more_than_silence_measured_afterwards() -> None:
    story = waiting(*TWO)
    story.victim(0)
    story.end(1, 3)
    for slot in (2, 3):
        story.victim(slot)
    story.paths((A, B), BAD)
    assert named(story) == (["rank 1"], Kind.EXITED)


def test_a_link_that_is_not_used_takes_no_host_down() -> None:
    story = waiting(A, B, C)
    story.link(B, up=False, nic="eth1")
    story.end(1, -9)
    story.victim(0)
    story.victim(2)
    story.paths((A, B, C))
    assert named(story) == (["rank 1"], Kind.KILLED)


def test_ranks_killed_together_on_a_host_that_is_reached_afterwards_are_the_ranks() -> None:
    story = waiting(*TWO)
    story.end(2, -9)
    story.end(3, -9)
    story.victim(0)
    story.victim(1)
    story.paths((A, B))
    assert named(story) == (["rank 2", "rank 3"], Kind.KILLED)


def test_a_host_that_crashed_with_its_link_is_first_though_its_deaths_were_reported_after_another() -> None:
    story = waiting(*TWO)
    story.link(B, up=False)
    story.tick(0.1)
    story.end(0, -9)
    story.tick(0.1)
    story.end(2, -9)
    story.end(3, -9)
    story.end(1, -15, "launcher")
    story.paths((A, B), BAD)
    assert named(story) == (["host hostB"], Kind.KILLED)


def test_a_host_that_was_frozen_until_others_had_lost_patience_is_the_culprit() -> None:
    story = on(*TWO)
    for slot in (0, 1):
        story.enter(slot, "all_reduce")
    story.stop(2)
    story.stop(3)
    story.tick(3.0)
    story.timed_out(0, 1)
    for slot in (2, 3):
        story.add(Stopped(story.tick(), slot, stopped=False))
        story.enter(slot, "all_reduce")
        story.victim(slot)
    story.paths((A, B))
    assert named(story) == (["host hostB"], Kind.FROZEN)


@pytest.mark.parametrize("hosts", [(A, B, C), (A, B, B)])
def test_a_link_that_is_back_at_once_did_not_go_down_with_its_host(hosts: tuple[str, ...]) -> None:
    story = waiting(*hosts)
    killed = [slot for slot, host in enumerate(hosts) if host == B]
    story.link(B, up=False)
    for slot in killed:
        story.end(slot, -9)
    story.victim(0)
    story.tick(0.3)
    story.link(B, up=True)
    story.paths(tuple(dict.fromkeys(hosts)), BAD)
    assert named(story) == ([f"rank {slot}" for slot in killed], Kind.KILLED)


def test_a_host_that_was_frozen_only_when_others_lost_patience_is_not_why() -> None:
    story = waiting(*TWO)
    story.tick(2.9)
    story.stop(2)
    story.stop(3)
    story.timed_out(0, 1)
    for slot in (2, 3):
        story.add(Stopped(story.tick(), slot, stopped=False))
        story.victim(slot)
    story.paths((A, B), BAD)
    assert named(story) == (["link hostA–hostB"], Kind.UNREACHABLE)


def test_a_path_that_was_open_before_ranks_suffered_may_be_silent_now() -> None:
    story = waiting(*TWO)
    story.paths((A, B))
    story.tick(3.0)
    story.timed_out(0, 1, 2, 3)
    story.paths((A, B), BAD)
    assert named(story) == (["link hostA–hostB"], Kind.UNREACHABLE)


@pytest.mark.parametrize(("host", "ordered"), [("", False), ("hostB", False), ("store", True)])
def test_a_store_that_ended_though_no_fault_meant_its_host_is_inconclusive(host: str, ordered: bool) -> None:
    story = waiting(*TWO)
    story.inject(0, fault="crash")
    for slot in range(4):
        story.signalled(slot, "store_outside", "the store on host store was ended by SIGKILL")
        story.end(slot, -15, "launcher")
    fault = Crash((0,), host)
    ranks = tuple(RankPlan(slot, (), host=on) for slot, on in enumerate(TWO))
    found = judge(plan_of(fault, ranks=ranks, network=Network((), "store")), story.history)
    assert ("which nothing in this arm ordered" in found.reason) is not ordered


def test_a_flap_that_tcp_had_long_repaired_is_not_why_ranks_wait() -> None:
    """Nothing else is known of such a job: that is better than a wrong name."""
    story = waiting(*TWO)
    flap(story, B, 0.3)
    story.tick(2.7)
    story.timed_out(0, 1, 2, 3)
    story.paths((A, B))
    assert named(story)[0] == []
