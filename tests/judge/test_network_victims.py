"""Who looks guilty beside a broken network and is not; and what holds for every such history."""

from __future__ import annotations

import sys
from itertools import combinations
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from histories import Story
from hypothesis import given
from hypothesis import strategies as st
from networks import (
    TWO,
    A,
    B,
    C,
    D,
    flap,
    found,
    in_all_reduce,
    named,
    nic,
    on,
    silent,
)

from chaoskit.model import Blame, Culprit, Kind, link

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
