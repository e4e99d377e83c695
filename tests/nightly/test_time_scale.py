"""The time-scale rule: what takes so many timeouts takes as many of longer ones. Shown where it costs most:
with an interface that leads nowhere, gloo waits for five of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaoskit import capabilities, engine
from chaoskit.guards.timeouts import Timeouts
from chaoskit.model import Outcome, Profile, Verdict
from chaoskit.request import RunRequest
from chaoskit.scenario import parse

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        not capabilities.find("virtual-hosts").available, reason="no virtual hosts here; see chaoskit doctor"
    ),
]
SCENARIO = """\
name: wrong-interface
summary: Two ranks are told to use an interface that leads nowhere, under nothing but timeouts.
workload: all-reduce-loop
topology: {ranks: 2, hosts: 2, nics: {eth0: {}, docker0: {same_address: 172.17.0.1/16}}}
faults:
  - environment: {rank: all, set: {GLOO_SOCKET_IFNAME: docker0}}
    when: launch
arms:
  control: {profile: torch-defaults, expect: {outcome: hung}}
  hardened: {profile: strict, expect: {outcome: failed, within: {timeout: init, times: 7, plus: 10s}}}
"""
GLOO_WAITS = 5.0
"""Times its timeout, for ranks that would have to connect to it (torch 2.13)."""
STARTS_S = 3.0
"""What the start of two ranks may take on a loaded machine."""


def run(timeout_s: float, time_scale: float, folder: Path) -> Verdict:
    """Run the hardened arm with nothing but these timeouts."""
    profile = Profile("timeouts-only", "", (Timeouts(timeout_s, timeout_s, timeout_s),))
    request = RunRequest(
        (parse(SCENARIO),), profile=profile, arms=("hardened",), time_scale=time_scale, runs_dir=folder,
        command="nightly time scale",
    )  # fmt: skip
    (verdict,) = engine.run(request).verdicts
    assert verdict.outcome is Outcome.FAILED, verdict.reason
    return verdict


def ends(verdict: Verdict) -> list[float]:
    """Return when the ranks ended, the first first."""
    return sorted(rank.ended_s for rank in verdict.ranks if rank.ended_s is not None)


def test_twice_the_timeout_takes_twice_as_long(tmp_path: Path) -> None:
    short, long = run(2.0, 1.0, tmp_path / "short"), run(4.0, 1.0, tmp_path / "long")
    for verdict, timeout_s in ((short, 2.0), (long, 4.0)):
        refused_s, waited_s = ends(verdict)
        assert refused_s < STARTS_S, "the rank that connects is refused at once"
        assert GLOO_WAITS * timeout_s <= waited_s <= GLOO_WAITS * timeout_s + STARTS_S
    assert ends(long)[-1] / ends(short)[-1] == pytest.approx(2.0, abs=0.3)


def test_a_shortened_run_says_what_it_would_take_in_production(tmp_path: Path) -> None:
    """The same seconds, by timeouts of 40 s at a twentieth of them."""
    scaled = run(40.0, 0.05, tmp_path)
    assert GLOO_WAITS * 2.0 <= ends(scaled)[-1] <= GLOO_WAITS * 2.0 + STARTS_S
    assert scaled.bound_s == pytest.approx(7 * 2.0 + 10.0)
    assert scaled.production_bound_s == pytest.approx(7 * 40.0 + 10.0)
