"""The options of ``chaoskit run``: all problems at once, each naming the option."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoskit.cli.run_options import Library, RunOptions, read
from chaoskit.errors import InvalidInput, usage
from chaoskit.model import Profile, Scenario

pytestmark = pytest.mark.usefixtures("plain_environment")


@pytest.fixture
def library(scenario: Callable[..., Scenario]) -> Library:
    known = {
        "rank-killed": scenario("rank-killed"),
        "oom": scenario("oom", family="memory", tags=("cgroup",)),
    }

    def select(names: Sequence[str]) -> list[Scenario]:
        if list(names) == ["all"]:
            return list(known.values())
        if unknown := [n for n in names if n not in known]:
            raise usage(f"no scenario {unknown[0]!r}")
        return [known[n] for n in names]

    def load_profile(name: str) -> Profile:
        if name != "strict":
            raise usage(f"no profile {name!r}")
        return Profile("strict")

    def duration_s(text: str) -> float:
        return float(text.removesuffix("s"))

    return Library(select, load_profile, lambda: ["cgroups", "ptrace"], duration_s)


def problems(options: RunOptions, library: Library) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        read(options, library)
    return [str(p) for p in caught.value.problems]


def test_without_options_everything_runs_as_it_says(library: Library) -> None:
    asked = read(RunOptions(), library)
    assert [s.name for s in asked.request.scenarios] == ["rank-killed", "oom"]
    request = asked.request
    assert (request.profile, request.backend, request.ranks, request.jobs, request.seed) == (None,) * 5
    assert (request.repeat, request.timeout_s, request.time_scale, request.runs_dir) == (
        1,
        None,
        None,
        Path("runs"),
    )
    assert (asked.form, asked.junit) == ("text", None)


def test_every_option_arrives(library: Library) -> None:
    asked = read(
        RunOptions(
            selectors=("oom",), keyword="memory", stop_at_first=True, profile="strict", arms=("control",),
            backend="nccl", ranks="8", jobs="2", seed="0", repeat="50", timeout="30s", time_scale="0.01",
            require=("nccl", "ptrace"), runs_dir="here/there", form="json", junit="out/junit.xml",
        ),
        library,
    )  # fmt: skip
    request = asked.request
    assert [s.name for s in request.scenarios] == ["oom"]
    assert request.profile == Profile("strict")
    assert request.arms == ("control",)
    assert (request.backend, request.ranks, request.jobs, request.seed, request.repeat) == (
        "nccl",
        8,
        2,
        0,
        50,
    )
    assert (request.timeout_s, request.time_scale) == (30.0, 0.01)
    assert request.require == ("nccl", "ptrace")
    assert request.stop_at_first
    assert (request.runs_dir, asked.form, asked.junit) == (Path("here/there"), "json", Path("out/junit.xml"))


def test_auto_is_the_default_time_scale(library: Library) -> None:
    assert read(RunOptions(time_scale="auto"), library).request.time_scale is None


def test_all_problems_at_once(library: Library, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = problems(
        RunOptions(
            selectors=("rank-kiled",), keyword="a and", profile="stricct", backend="glo", ranks="0",
            jobs="many", seed="-1", repeat="1.5", timeout="soon", time_scale="-1", require=("cgroup",),
            runs_dir="file/runs", form="xml", junit="file/junit.xml",
        ),
        library,
    )  # fmt: skip
    assert len(found) == 14
    said = "\n".join(found)
    for word in (
        "'rank-kiled'", "-k 'a and'", "'stricct'", "--backend 'glo'", "did you mean 'gloo'?", "--ranks 0",
        "--jobs 'many'", "--seed -1", "--repeat '1.5'", "--timeout 'soon'", "--time-scale '-1'",
        "--require 'cgroup'", "did you mean 'cgroups'?", "--runs-dir 'file/runs'", "--format 'xml'",
        "junit.xml",
    ):  # fmt: skip
        assert word in said


def test_an_arm_that_no_scenario_has(library: Library) -> None:
    (problem,) = problems(RunOptions(arms=("hardend", "control")), library)
    assert "--arm 'hardend'" in problem
    assert "did you mean 'hardened'?" in problem


def test_a_keyword_that_matches_nothing(library: Library) -> None:
    (problem,) = problems(RunOptions(keyword="zebra"), library)
    assert "-k 'zebra' matches none of 2 scenarios" in problem


@pytest.mark.parametrize("value", ["nan", "inf", "0", "-3s", ""])
def test_a_timeout_has_to_be_a_finite_time_above_zero(value: str, library: Library) -> None:
    assert len(problems(RunOptions(timeout=value), library)) == 1


LIBRARY = Library(lambda _: [], lambda _: Profile("p"), list, float)


@settings(deadline=None)
@given(text=st.text(st.characters(), max_size=12), more=st.text(max_size=5))
def test_hostile_options_are_problems_or_values_never_tracebacks(text: str, more: str) -> None:
    options = RunOptions(
        keyword=text, backend=text, ranks=text, jobs=more, seed=text, repeat=more, timeout=text,
        time_scale=text, arms=(text,), require=(text,), form=text,
    )  # fmt: skip
    said: object
    try:
        said = read(options, LIBRARY)
    except InvalidInput as error:
        said = error.problems
    assert said
