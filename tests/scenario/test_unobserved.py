"""A control that nobody has run where it can be run promises nothing; a hardened arm has to."""

from __future__ import annotations

import pytest

from chaoskit.errors import InvalidInput
from chaoskit.plan import make_plan
from chaoskit.scenario import load_profile, parse
from chaoskit.scenario.writing import dump

TEXT = """\
name: mine
summary: One.
backends: [nccl]
workload: all-reduce-loop
topology: {ranks: 2, backend: nccl, gpu_sharing: multi-rank}
faults:
  - kill: {rank: 1}
    when: {op: all_reduce, nth: 2}
arms:
  control: {profile: torch-defaults, expect: {outcome: unobserved}}
  hardened: {profile: strict, expect: {outcome: failed, within: 2s}}
"""


def test_it_is_read_planned_and_written() -> None:
    scenario = parse(TEXT)
    strict, defaults = load_profile("strict"), load_profile("torch-defaults")
    for backend in ("nccl", "gloo"):  # gloo: it will be skipped, and has a plan to be reported by
        plan = make_plan(
            scenario, "control", profile=defaults, hardened_profile=strict, seed=1, backend=backend  # type: ignore[arg-type]
        )  # fmt: skip
        assert plan.contract.outcome is None
        assert plan.hardened_contract.outcome == "failed"
    assert scenario.topology.gpu_sharing == "multi-rank"
    assert "outcome: unobserved" in dump(scenario)
    assert parse(dump(scenario)) == scenario


def test_a_hardened_arm_has_to_promise_something() -> None:
    with pytest.raises(InvalidInput, match="hardened expects nothing on nccl"):
        parse(TEXT.replace("outcome: failed, within: 2s", "outcome: unobserved"))


def test_a_wrong_way_of_sharing_is_named() -> None:
    with pytest.raises(InvalidInput, match="gpu_sharing"):
        parse(TEXT.replace("multi-rank", "multirank"))
