"""Claim files: every problem at once, each with its line."""

from __future__ import annotations

import contextlib
import json
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.claims import reading
from chaoskit.errors import InvalidInput
from chaoskit.model import Outcome

GOOD = """\
name: mine
told: It helps.
source: [our wiki]
with:
  guards: {folklore_watchdog: {wake: 1s, timeout: 3s}}
  env: {SOME_VARIABLE: 1}
try:
  - scenario: rank-stopped
    others: true
    collective: 3s
    expect: {outcome: failed, within: {timeout: collective, plus: 2s}, exit: nonzero}
"""


def problems(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(InvalidInput) as caught:
        reading.read(file)
    return [f"{p.line}: {p.message}" for p in caught.value.problems]


def test_a_claim_of_the_user_s_own_is_read(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(GOOD)
    (claim,) = reading.find([str(file)])
    (trial,) = claim.trials
    assert (claim.name, claim.setting.env) == ("mine", (("SOME_VARIABLE", "1"),))
    assert [guard.name for guard in claim.setting.guards] == ["folklore_watchdog"]
    assert (trial.others, trial.collective_s, trial.bound_s) == (True, 3.0, 5.0)
    assert dict(trial.expect.outcome)["gloo"] is Outcome.FAILED


def test_a_claim_may_bring_its_scenario(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text((reading.SCENARIOS / "healthy-ddp.yaml").read_text())
    file = tmp_path / "mine.yaml"
    file.write_text(
        "name: mine\ntold: x\nsource: [y]\ntry:\n  - {scenario: ./own.yaml, expect: {outcome: completed}}\n"
    )
    assert reading.read(file).trials[0].scenario.name == "healthy-ddp"


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    wrong = (
        GOOD.replace("told: It helps.", "tolled: It helps.")
        .replace("folklore_watchdog", "folklore_watchdogs")
        .replace("rank-stopped", "rank-stoped")
    )
    found = problems(tmp_path, wrong)
    assert [line.partition(":")[0] for line in found] == ["2", "5", "8"]
    assert "tolled" in found[0]
    assert "folklore_watchdogs" in found[1]
    assert "rank-stoped" in found[2]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("    collective: 3s\n", "", "which this trial does not set"),
        ("wake: 1s", "wake: soon", "wake"),
        ("outcome: failed", "outcome: dead", "outcome"),
        ("source: [our wiki]\n", "", "source"),
        ("SOME_VARIABLE: 1", "A-B: 1", "A-B"),
        ("others: true", "others: yes please", "others"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert any(said in line for line in problems(tmp_path, GOOD.replace(old, new)))


@pytest.mark.parametrize("given", ["", "[]", "rank-stopped", "{a: 1}"])
def test_a_claim_has_to_be_tried_on_something(tmp_path: Path, given: str) -> None:
    assert problems(tmp_path, GOOD.partition("try:")[0] + f"try: {given}\n")


def test_unknown_names_get_a_hint() -> None:
    with pytest.raises(InvalidInput) as caught:
        reading.find(["blocking-wiat", "no-such-thing"])
    first, second = caught.value.problems
    assert "did you mean blocking-wait?" in first.hint
    assert "chaoskit claims --list" in second.hint


def test_two_claims_of_one_name_are_refused(tmp_path: Path) -> None:
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text(GOOD)
    with pytest.raises(InvalidInput, match="is also in"):
        reading.find([str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml")])


def test_the_claims_that_come_with_it_are_good_and_named_after_their_files() -> None:
    claims = reading.find([])
    assert [claim.name for claim in claims] == [file.stem for file in reading.files()]
    for claim in claims:
        assert claim.source
        for trial in claim.trials:
            assert trial.scenario.healthy or trial.watched_s is not None, claim.name


_WORDS = st.sampled_from("name told source try with both scenario expect env guards".split())
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(string.ascii_letters, max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(_WORDS, _VALUES, max_size=6))
def test_no_file_brings_anything_but_problems(tmp_path_factory: pytest.TempPathFactory, data: object) -> None:
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_text(json.dumps(data))  # JSON is YAML
    with contextlib.suppress(InvalidInput):
        reading.read(file)
