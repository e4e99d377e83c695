"""Faults of virtual hosts: they bite without hardening and are held with it, and do what they say they do.

One run for all; the tests look at what came of it. The scenarios of the library have more kinds of them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from real_runs import Finished, Heard, Run, last

from chaoskit import capabilities, engine, history
from chaoskit.history import Ended, History, Identity, Injected, LinkChanged, PathTested, Stopped
from chaoskit.model import Culprit, Outcome, Result, Status, Topology
from chaoskit.network import Nic
from chaoskit.request import RunRequest
from chaoskit.scenario import select

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        not all(capabilities.find(n).available for n in ("virtual-hosts", "link-rate", "packet-rules")),
        reason="no virtual hosts here; see chaoskit doctor",
    ),
]

BITING = ("host-crashed", "host-frozen", "link-crawls", "network-partitioned")
HEALTHY = ("link-flaps-briefly",)
"""The others run in every check of a change too, with the whole library."""


@pytest.fixture(scope="module")
def ended(shared_servers: None, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """One run of all."""
    heard = Heard()
    folder = tmp_path_factory.mktemp("hosts")
    request = RunRequest(tuple(select([*BITING, *HEALTHY])), seed=5, runs_dir=folder, command="a test")
    result = engine.run(request, heard)
    return Finished(result, heard)


def _history(ended: Finished, scenario: str, arm: str) -> History:
    found, problems = history.read(Path(ended.arms[scenario, arm], "history.jsonl"))
    assert not problems
    return found


@pytest.mark.nightly  # the library, which every change runs, has all of these
@pytest.mark.parametrize("name", BITING)
def test_it_bites_and_is_held(ended: Finished, name: str) -> None:
    control, hardened = ended.verdict(name, "control"), ended.verdict(name, "hardened")
    assert (control.outcome, control.bites) == (Outcome.HUNG, True), control.reason
    assert (hardened.status, hardened.outcome) == (Status.PASS, Outcome.FAILED), hardened.reason
    assert control.culprits == hardened.culprits


@pytest.mark.nightly  # the library, which every change runs, has all of these
@pytest.mark.parametrize("name", HEALTHY)
def test_what_recovers_in_time_completes(ended: Finished, name: str) -> None:
    (scenario,) = [s for s in ended.result.scenarios if s.name == name]
    assert scenario.result is Result.HELD, scenario.reason


@pytest.mark.nightly  # the library, which every change runs, has all of these
def test_each_rank_is_on_its_host(ended: Finished) -> None:
    identities = _history(ended, "host-crashed", "hardened").all(Identity)
    assert {i.slot: (i.host, i.local_rank) for i in identities} == {
        0: ("hostA", 0), 1: ("hostA", 1), 2: ("hostB", 0), 3: ("hostB", 1)
    }  # fmt: skip


@pytest.mark.nightly  # the library, which every change runs, has all of these
@pytest.mark.parametrize("arm", ["control", "hardened"])
def test_a_crash_takes_the_link_first_and_then_every_process_of_the_host(ended: Finished, arm: str) -> None:
    found = _history(ended, "host-crashed", arm)
    (down,) = [e for e in found.all(LinkChanged) if not e.up]
    gone = [e for e in found.all(Ended) if e.slot in (2, 3)]
    assert (down.host, down.nic) == ("hostB", "eth0")
    assert all(e.exit_code == -9 and e.by == "" and e.t_s > found.all(Injected)[0].t_s for e in gone)
    survivors = [e for e in found.all(Ended) if e.slot in (0, 1)]
    assert min(e.t_s for e in survivors) - max(e.t_s for e in gone) > 1.0, "no FIN reached them"


@pytest.mark.nightly  # the library, which every change runs, has all of these
def test_a_frozen_host_lives_until_it_is_taken_away(ended: Finished) -> None:
    found = _history(ended, "host-frozen", "hardened")
    assert {e.slot for e in found.all(Stopped)} == {2, 3}
    assert not [e for e in found.all(LinkChanged) if not e.up]
    assert {e.state for e in found.all(PathTested)} == {"open"}, "its kernel still takes connections"


@pytest.mark.nightly  # the library, which every change runs, has all of these
def test_a_partition_takes_no_link_down(ended: Finished) -> None:
    found = _history(ended, "network-partitioned", "hardened")
    assert not [e for e in found.all(LinkChanged) if not e.up]
    apart = {"hostC", "hostD"}
    for path in found.all(PathTested):
        crosses = (path.host in apart) != (path.to in apart) and "store" not in (path.host, path.to)
        if crosses:
            assert path.state == "silent", path
        elif {path.host, path.to} <= apart or {path.host, path.to} <= {"hostA", "hostB"}:
            assert path.state == "open", path


@pytest.mark.nightly  # the library, which every change runs, has all of these
def test_a_link_that_comes_back_is_seen_to(ended: Finished) -> None:
    changes = _history(ended, "link-flaps-briefly", "control").all(LinkChanged)
    assert [(c.host, c.nic, c.up) for c in changes] == [("hostB", "eth0", False), ("hostB", "eth0", True)]
    assert 0.4 < changes[1].t_s - changes[0].t_s < 1.5


@pytest.mark.nightly  # the library, which every change runs, has all of these
def test_a_link_that_crawls_is_seen_to_carry_too_little(ended: Finished) -> None:
    states = {e.state for e in _history(ended, "link-crawls", "control").all(PathTested)}
    assert states <= {"slow", "silent"}, "silent where an answer is behind what waits in the queue"
    assert ended.verdict("link-crawls", "hardened").culprits == (Culprit("link", "hostA–hostB"),)


def test_one_host_is_a_host_too(run: Run) -> None:
    """Interfaces without a second host: a network of its own, and the same result."""
    (scenario,) = select(["rank-killed-mid-all-reduce"])
    alone = replace(scenario, topology=Topology(ranks=2, nics=(Nic("eth0"), Nic("eth1"))))
    result = run(alone)
    assert [v.status for v in last(result.verdicts)] == [Status.PASS, Status.PASS], result.verdicts
