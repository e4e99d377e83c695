"""What is not run, and why: never a cell whose result could not be told."""

from __future__ import annotations

import itertools

import pytest

from chaoskit.matrix.columns import additions, alone, parts_of, plus, without
from chaoskit.matrix.pruning import inapplicable, left_out
from chaoskit.matrix.values import Column, Mark
from chaoskit.model import Profile
from chaoskit.scenario import load_profile, select

ALONE, WITHOUT = Column("alone", "timeouts"), Column("without", "timeouts")


@pytest.mark.parametrize(
    ("column", "healthy", "base", "profile", "mark"),
    [
        (ALONE, False, Mark.BITES, Mark.HELD, None),
        (WITHOUT, False, Mark.BITES, Mark.NOT_HELD, None),
        (ALONE, True, Mark.QUIET, Mark.QUIET, None),
        (WITHOUT, True, Mark.QUIET, Mark.FALSE_ALARM, None),
        (WITHOUT, True, Mark.QUIET, Mark.QUIET, Mark.NOT_RUN),
        (ALONE, False, Mark.NOT_NEEDED, Mark.NOT_NEEDED, Mark.NOT_NEEDED),
        (ALONE, False, Mark.UNSTEADY, Mark.INCONCLUSIVE, Mark.NOT_RUN),
        (ALONE, False, Mark.INCONCLUSIVE, Mark.INCONCLUSIVE, Mark.NOT_RUN),
        (ALONE, False, Mark.SKIPPED, Mark.SKIPPED, Mark.SKIPPED),
        (ALONE, True, Mark.FALSE_ALARM, Mark.INCONCLUSIVE, Mark.NOT_RUN),
        (ALONE, False, Mark.NOT_RUN, Mark.NOT_RUN, Mark.NOT_RUN),
    ],
)
def test_what_is_run(column: Column, healthy: bool, base: Mark, profile: Mark, mark: Mark | None) -> None:
    left = left_out(column, healthy, base, profile, ())
    assert (left and left[0]) == mark
    assert left is None or left[1]


def test_what_is_not_run_is_never_called_good() -> None:
    for healthy, base, profile in itertools.product((True, False), Mark, Mark):
        left = left_out(ALONE, healthy, base, profile, ("timeouts",))
        assert left is None or left[0] not in (Mark.HELD, Mark.QUIET, Mark.BITES)


def test_parts_without_effect_on_one_host_on_gloo() -> None:
    (scenario,) = select(["rank-stopped"])
    idle = inapplicable(scenario, "gloo", load_profile("strict"))
    assert idle == {"sidecar", "store_outside", "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC"}
    elsewhere = inapplicable(scenario, "gloo", load_profile("strict"), "torchrun")
    assert elsewhere == {"group_kill", "store_outside", "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC"}
    (hosts,) = select(["link-down"])
    assert "store_outside" not in inapplicable(hosts, "gloo", load_profile("strict"))


def test_the_columns_of_a_profile() -> None:
    strict, recommended = load_profile("strict"), load_profile("recommended")
    assert parts_of(strict)[-1] == "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC"
    assert parts_of(alone(strict, "timeouts")) == ("timeouts",)
    assert set(parts_of(strict)) - set(parts_of(without(strict, "timeouts"))) == {"timeouts"}
    assert alone(strict, "timeouts").guard("timeouts") == strict.guard("timeouts")
    lacking = additions(recommended, strict)
    assert "collective_check" in lacking and "group_kill" in lacking and "census" in lacking
    assert "fail_fast" not in lacking and "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC" not in lacking


def test_an_addition_takes_the_place_of_the_profile_s_own() -> None:
    strict, recommended = load_profile("strict"), load_profile("recommended")
    with_kill = plus(recommended, strict, "group_kill")
    assert with_kill.guard("group_kill") == strict.guard("group_kill")
    assert len(with_kill.guards) == len(recommended.guards)
    assert plus(Profile("bare"), strict, "timeouts").guards == (strict.guard("timeouts"),)
    variable = plus(Profile("bare", env=(("A", "1"),)), Profile("own", env=(("A", "2"),)), "A")
    assert variable.env == (("A", "2"),)
