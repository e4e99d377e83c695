"""Jobs that do not get off the ground on several hosts: wrong interfaces, wrong addresses, what stands in the
way of a rendezvous. Each bites without hardening and is held with it, and its fault does what it says.

One run for all; the tests look at what came of it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from real_runs import Finished, Heard

from chaoskit import capabilities, engine, history
from chaoskit.faults.stale_rendezvous import StaleRendezvous
from chaoskit.history import (
    Completed,
    Entered,
    GuardFired,
    GuardNoticed,
    History,
    Injected,
    LinkChanged,
    PathTested,
    Raised,
)
from chaoskit.model import Culprit, Outcome, Result, Status
from chaoskit.request import RunRequest
from chaoskit.scenario import load_profile, select

pytestmark = [
    pytest.mark.nightly,  # the library, which every change runs, has all of these
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        not all(capabilities.find(n).available for n in ("virtual-hosts", "link-rate", "packet-rules")),
        reason="no virtual hosts here; see chaoskit doctor",
    ),
]

BY_NIC_CHECK = {
    "docker0-on-every-host": ("nic hostA docker0", "nic hostB docker0"),
    "switch-port-down": ("nic hostC eth1",),
    "only-master-port-open": ("link hostA–hostB",),
}
"""Scenarios that end by this guard, with whom it blames: the control arm has to name the same."""
BY_OTHERS = ("name-resolves-too-late", "file-rendezvous-stale")
COMPLETED = ("management-nic-chosen", "master-port-taken-on-host")
HEALTHY = ("name-resolves-late",)


@pytest.fixture(scope="module")
def ended(shared_servers: None, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """One run of all."""
    heard = Heard()
    folder = tmp_path_factory.mktemp("start")
    scenarios = tuple(select([*BY_NIC_CHECK, *BY_OTHERS, *COMPLETED, *HEALTHY]))
    return Finished(
        engine.run(RunRequest(scenarios, seed=5, runs_dir=folder, command="a test"), heard), heard
    )


def _history(ended: Finished, scenario: str, arm: str) -> History:
    found, problems = history.read(Path(ended.arms[scenario, arm], "history.jsonl"))
    assert not problems
    return found


# ---------------------------------------------------------------- held


@pytest.mark.parametrize("name", [*BY_NIC_CHECK, *BY_OTHERS])
def test_it_bites_and_is_held(ended: Finished, name: str) -> None:
    control, hardened = ended.verdict(name, "control"), ended.verdict(name, "hardened")
    assert (control.outcome, control.bites) == (Outcome.HUNG, True), control.reason
    assert (hardened.status, hardened.outcome) == (Status.PASS, Outcome.FAILED), hardened.reason


@pytest.mark.parametrize(("name", "blamed"), BY_NIC_CHECK.items())
def test_the_guard_and_the_judge_blame_the_same(ended: Finished, name: str, blamed: tuple[str, ...]) -> None:
    for arm in ("control", "hardened"):
        assert tuple(map(str, ended.verdict(name, arm).culprits)) == blamed, arm
    fired = _history(ended, name, "hardened").all(GuardFired)
    assert {(f.guard, f.exit_code) for f in fired} == {("nic_check", 91)}
    assert "nic_check" in ended.verdict(name, "hardened").ended_by


@pytest.mark.parametrize("name", COMPLETED)
def test_what_completes_with_hardening_does_not_pass_without(ended: Finished, name: str) -> None:
    control, hardened = ended.verdict(name, "control"), ended.verdict(name, "hardened")
    assert (hardened.status, hardened.outcome) == (Status.PASS, Outcome.COMPLETED), hardened.reason
    assert control.bites is True


@pytest.mark.parametrize("name", HEALTHY)
def test_what_only_looks_dangerous_completes(ended: Finished, name: str) -> None:
    (scenario,) = [s for s in ended.result.scenarios if s.name == name]
    assert scenario.result is Result.HELD, scenario.reason


# ---------------------------------------------------------------- what the faults do


def test_a_firewall_lets_the_ranks_meet_and_nothing_else_pass(ended: Finished) -> None:
    found = _history(ended, "only-master-port-open", "hardened")
    (fired,) = found.all(Injected)
    said = found.all(GuardFired)
    assert said, "they have told one another through the store what failed"
    assert all(s.t_s > fired.t_s for s in said)
    paths = [p for p in found.all(PathTested) if "store" not in (p.host, p.to)]
    assert {p.state for p in paths} == {"silent"}
    assert not found.all(LinkChanged), "no interface is down"


def test_a_name_that_comes_late_holds_up_its_rank_for_so_long(ended: Finished) -> None:
    for arm in ("control", "hardened"):
        found = _history(ended, "name-resolves-late", arm)
        (late,) = found.all(Injected)
        assert late.slot == 3
        formed = [e.t_s for e in found.all(Completed) if e.op == "init"]
        assert len(formed) == 4
        assert min(formed) - late.t_s > 0.8, "0.3 of 3 s"


def test_a_name_that_does_not_come_is_told_where_it_is_missing(ended: Finished) -> None:
    found = _history(ended, "name-resolves-too-late", "hardened")
    assert {f.slot for f in found.all(GuardFired) if "store cannot be resolved" in f.message} == {3}
    assert ended.verdict("name-resolves-too-late", "hardened").culprits == (Culprit("rank", "3"),)


def test_a_port_that_is_taken_on_the_host_of_rank_0(ended: Finished) -> None:
    (raised,) = _history(ended, "master-port-taken-on-host", "control").all(Raised)
    assert raised.slot == 0
    assert "EADDRINUSE" in raised.message


def test_an_interface_that_goes_down_before_the_ranks_meet(ended: Finished) -> None:
    for arm in ("control", "hardened"):
        changes = _history(ended, "switch-port-down", arm).all(LinkChanged)
        assert [(c.host, c.nic, c.up) for c in changes] == [("hostC", "eth1", False)], arm


def test_a_slow_interface_is_told_by_each_host_and_ends_nothing(ended: Finished) -> None:
    noticed = _history(ended, "management-nic-chosen", "hardened").all(GuardNoticed)
    assert {n.message.partition(" carries ")[0] for n in noticed} == {"hostA mgmt0", "hostB mgmt0"}
    assert all("below min_rate 1 Gbit/s" in n.message for n in noticed)
    assert ended.verdict("management-nic-chosen", "control").outcome is Outcome.COMPLETED


# ---------------------------------------------------------------- the file of an earlier job


def test_a_rank_that_reads_what_an_earlier_job_has_left_is_refused(ended: Finished) -> None:
    found = _history(ended, "file-rendezvous-stale", "control")
    assert {(e.index, e.slot) for e in found.all(Injected)} == {(0, 0), (0, 1), (1, 0)}
    (raised,) = found.all(Raised)
    assert raised.slot == 1
    assert "Connection refused" in raised.message
    assert [e.slot for e in found.all(Entered)] == [1, 0], "the earlier job is not recorded"


def test_an_earlier_job_is_one_of_all_ranks() -> None:
    with pytest.raises(ValueError, match="rank must be all"):
        StaleRendezvous((1,))


def test_the_profile_of_the_slow_interface_only_adds_a_rate_to_what_strict_checks() -> None:
    (scenario,) = select(["management-nic-chosen"])
    arm = scenario.arm("hardened")
    assert arm is not None
    strict = {guard.name: guard for guard in load_profile("strict").guards}
    for guard in load_profile(Path(arm.profile)).guards:
        for name in ("connect_timeout_s", "wait_s", "init_s", "collective_s", "store_s"):
            assert getattr(guard, name, None) == getattr(strict[guard.name], name, None)
