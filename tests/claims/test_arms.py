"""From claims to scenarios: what is shared, and what is set in which arm."""

from __future__ import annotations

import dataclasses

from chaoskit.claims.arms import benches
from chaoskit.claims.reading import find
from chaoskit.claims.values import Setting
from chaoskit.scenario.checks import CONTROL


def test_claims_that_differ_in_the_setting_alone_share_the_arm_without_it() -> None:
    first, second = find(["async-error-handling-2", "async-error-handling-3"])
    (bench,) = benches([first, second], ["gloo"])
    assert [arm.name for arm in bench.scenario.arms] == [CONTROL, first.name, second.name]
    profiles = {profile.name: profile for profile in bench.profiles}
    without, mine, _ = (profiles[arm.profile] for arm in bench.scenario.arms)
    assert without.env == ()
    assert mine.env == (("TORCH_NCCL_ASYNC_ERROR_HANDLING", "2"),)
    assert without.timeouts == mine.timeouts
    assert without.timeouts.collective_s == 3.0


def test_another_timeout_or_common_setting_is_another_scenario() -> None:
    (claim,) = find(["async-error-handling-2"])
    other = dataclasses.replace(claim, name="other", both=Setting(env=(("A", "1"),)))
    slower = dataclasses.replace(
        claim, name="slower", trials=(dataclasses.replace(claim.trials[0], collective_s=9.0),)
    )
    names = [bench.scenario.name for bench in benches([claim, other, slower], ["gloo"])]
    assert names == ["rank-stopped", "rank-stopped-2", "rank-stopped-3"]


def test_of_torch_as_it_is_one_arm_is_run() -> None:
    for bench in benches(find(["dead-rank-is-a-hang"]), ["gloo", "nccl"]):
        assert [arm.name for arm in bench.scenario.arms] == ["dead-rank-is-a-hang"]
        assert bench.scenario.topology.backend == bench.backend


def test_every_claim_has_an_arm_for_each_of_its_trials_on_each_backend() -> None:
    claims = find([])
    made = benches(claims, ["gloo", "nccl"])
    members = [(claim.name, bench.backend) for bench in made for claim, _ in bench.members]
    for claim in claims:
        for backend in ("gloo", "nccl"):
            assert members.count((claim.name, backend)) == len(claim.trials)
    keys = [(bench.scenario.name, bench.backend) for bench in made]
    assert len(set(keys)) == len(keys)
