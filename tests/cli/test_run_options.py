"""The options of ``chaoskit run``: all problems at once, each naming the option."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoskit.cli.option_values import Library
from chaoskit.cli.outputs import Outputs
from chaoskit.cli.run_options import RunOptions, read
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
    assert (asked.form, asked.outputs) == ("text", Outputs())


def test_every_option_arrives(library: Library) -> None:
    asked = read(
        RunOptions(
            selectors=("oom",), keyword="memory", stop_at_first=True, profile="strict", arms=("control",),
            backend="nccl", ranks="8", jobs="2", seed="0", repeat="50", timeout="30s", time_scale="0.01",
            require=("nccl", "ptrace"), runs_dir="here/there", form="json", junit="out/junit.xml",
            html="report.html", markdown="report.md", github=True,
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
    assert (request.runs_dir, asked.form) == (Path("here/there"), "json")
    assert asked.outputs == Outputs(
        html=Path("report.html"), markdown=Path("report.md"), junit=Path("out/junit.xml"), github=True
    )


def test_auto_is_the_default_time_scale(library: Library) -> None:
    assert read(RunOptions(time_scale="auto"), library).request.time_scale is None


def test_all_problems_at_once(library: Library, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = problems(
        RunOptions(
            selectors=("rank-kiled",), keyword="a and", profile="stricct", backend="glo", ranks="0",
            jobs="many", seed="-1", repeat="1.5", timeout="soon", time_scale="-1", require=("cgroup",),
            runs_dir="file/runs", form="xml", junit="file/junit.xml",
            html="file/r.html", markdown="-",
        ),
        library,
    )  # fmt: skip
    assert len(found) == 16
    said = "\n".join(found)
    for word in (
        "'rank-kiled'", "-k 'a and'", "'stricct'", "--backend 'glo'", "did you mean 'gloo'?", "--ranks 0",
        "--jobs 'many'", "--seed -1", "--repeat '1.5'", "--timeout 'soon'", "--time-scale '-1'",
        "--require 'cgroup'", "did you mean 'cgroups'?", "--runs-dir 'file/runs'", "--format 'xml'",
        "junit.xml", "give --html a path", "--markdown -: the standard output has the verdicts",
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


def test_a_program_in_place_of_the_workload(library: Library, tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    options = RunOptions(
        ("oom",), script="train.py", behind=("--epochs", "1"), launcher="torchrun", within="90s"
    )
    request = read(options, library).request
    assert request.program is not None
    assert (request.program.target, request.program.args) == (str(tmp_path / "train.py"), ("--epochs", "1"))
    assert (request.launcher, request.stall_s, request.ranks) == ("torchrun", 90.0, None)


def test_a_command_brings_its_ranks(library: Library) -> None:
    words = ("sh", "run.sh", "-n", "3", "{rank}")
    request = read(RunOptions(("oom",), launcher="command", behind=words), library).request
    assert (request.program and request.program.args, request.ranks) == (words, 3)


def test_a_launcher_alone_starts_the_workload_of_the_file(library: Library) -> None:
    request = read(RunOptions(("oom",), launcher="torchrun"), library).request
    assert (request.program, request.launcher) == (None, "torchrun")


def test_a_program_that_is_wrong_and_words_without_one(library: Library) -> None:
    said = problems(RunOptions(("oom",), script="no.py", within="0s", launcher="slurm"), library)
    assert len(said) == 2  # the launcher, and the duration: without it nobody knows what the script is for
    (said_of_words,) = problems(RunOptions(("oom",), behind=("rank-killed",)), library)
    assert "names of scenarios go before --" in said_of_words
    assert "no.py" in problems(RunOptions(("oom",), script="no.py"), library)[0]
