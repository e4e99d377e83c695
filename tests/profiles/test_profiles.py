"""The built-in profiles, their reader, and what is known of environment variables."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from chaoskit.cli import main
from chaoskit.errors import InvalidInput
from chaoskit.guards import REGISTRY
from chaoskit.guards.profile import BUILTIN_DIR, builtin_names, load_profile, parse_duration
from chaoskit.profiles.variables import VARIABLES, lookup

NAMES = ("folklore", "recommended", "strict", "torch-defaults", "torchrun-policy")


def test_the_five_are_there() -> None:
    assert builtin_names() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_full_yaml_parser_reads_the_same(name: str) -> None:
    raw = YAML(typ="safe").load(BUILTIN_DIR / f"{name}.yaml")
    profile = load_profile(name)
    assert (profile.name, profile.summary) == (raw["name"], raw["summary"]) == (name, profile.summary)
    assert dict(profile.env) == raw.get("env", {})
    assert [guard.name for guard in profile.guards] == list(raw.get("guards", {}))
    for guard in profile.guards:
        for key, value in raw["guards"][guard.name].items():
            field = key if hasattr(guard, key) else f"{key}_s"
            expected = parse_duration(value) if field.endswith("_s") else value
            assert getattr(guard, field) == expected


@pytest.mark.parametrize("name", ["recommended", "strict"])
def test_durations_are_in_order(name: str) -> None:
    """Each failure ends by the guard that knows best: out of memory before the peers' timeout, that before
    the watchdog."""
    profile = load_profile(name)
    settings = {guard.name: dataclasses.asdict(guard) for guard in profile.guards}  # type: ignore[call-overload]
    timeouts = profile.timeouts
    assert timeouts.init_s is not None
    assert timeouts.collective_s is not None
    assert timeouts.store_s is not None
    assert settings["oom_exit"]["idle_s"] < timeouts.collective_s < settings["progress_watchdog"]["timeout_s"]
    # A rank that is late within the init timeout is healthy.
    assert settings["census"]["wait_s"] >= timeouts.init_s
    assert settings["progress_watchdog"]["start_s"] > settings["census"]["wait_s"] + timeouts.init_s
    if name == "strict":  # standing still is the watchdog's to end; the heartbeat is for what moves in vain
        for key in ("timeout_s", "start_s"):
            assert settings["step_heartbeat"][key] > settings["progress_watchdog"][key]


def test_folklore_and_torchrun_are_to_the_letter() -> None:
    folklore, torchrun = load_profile("folklore"), load_profile("torchrun-policy")
    assert (
        dict(folklore.env)["TORCH_NCCL_BLOCKING_WAIT"]
        == dict(folklore.env)["NCCL_ASYNC_ERROR_HANDLING"]
        == "1"
    )
    assert dataclasses.asdict(folklore.guard("folklore_watchdog")) == {"wake_s": 10.0, "timeout_s": 300.0}  # type: ignore[call-overload]
    rule = torchrun.guard("group_kill")
    assert (rule.signal, rule.grace_s, rule.poll_s, rule.on_early_exit, rule.on_stopped) == (
        "SIGTERM",
        30,
        0.1,
        False,
        False,
    )  # type: ignore[union-attr]


def test_scaling_reaches_every_duration() -> None:
    scaled = load_profile("strict").scaled(0.01)
    assert scaled.timeouts.collective_s == pytest.approx(1.2)
    assert load_profile("recommended").scaled(0.5).guard("progress_watchdog").start_s == 900  # type: ignore[union-attr]


BAD = """\
nam: x
guards:
  timeout: {}
  timeouts: {init: 3, colective: 3s}
  group_kill: {on_failure: maybe, signal: SIGNOPE}
  timeouts: {}
  census: [1]
what is this
"""


def test_every_problem_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(BAD)
    with pytest.raises(InvalidInput) as caught:
        load_profile(file)
    told = {(problem.line, problem.message, problem.hint) for problem in caught.value.problems}
    assert (1, "unknown key 'nam'", "did you mean name?") in told
    assert (3, "there is no guard 'timeout'", "did you mean timeouts?") in told
    assert (6, "timeouts is given twice", "") in told
    assert (5, "group_kill: on_failure: expected bool, got 'maybe'", "") in told
    assert {line for line, *_ in told} == {1, 3, 5, 6, 7, 8}
    assert all(problem.file == str(file) for problem in caught.value.problems)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("guards:\n  timeouts: {init: 3d}\n", 2, "timeouts: init: '3d' is no duration"),
        ("guards:\n  timeouts: {colective: 3s}\n", 2, "timeouts has no setting 'colective'"),
        ("guards:\n  group_kill: {signal: SIGNOPE}\n", 2, "'SIGNOPE' is no signal"),
        ("  a: b\n", 1, "stands under neither guards nor env"),
    ],
)
def test_a_problem_alone(tmp_path: Path, text: str, line: int, says: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(InvalidInput, match=says) as caught:
        load_profile(file)
    assert [problem.line for problem in caught.value.problems] == [line]


def test_a_users_profile_in_either_style(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "# ours\nname: mine\nguards:\n  timeouts:\n    init: 5m  # long\n    collective: 1h\n"
        '  fail_fast:\n  group_kill: {signal: "SIGKILL"}\nenv: {A: "1", B: two}\n'
    )
    profile = load_profile(file)
    assert profile.name == "mine"
    assert [guard.name for guard in profile.guards] == ["timeouts", "fail_fast", "group_kill"]
    assert (profile.timeouts.init_s, profile.timeouts.collective_s) == (300, 3600)
    assert profile.env == (("A", "1"), ("B", "two"))


@pytest.mark.parametrize("name", ["recomended", "no/such/file.yaml", "", "."])
def test_an_unknown_profile_is_one_problem(name: str) -> None:
    with pytest.raises(InvalidInput, match="there is no profile") as caught:
        load_profile(name)
    assert len(caught.value.problems) == 1
    assert name != "recomended" or caught.value.problems[0].hint == "did you mean recommended?"


def test_a_file_that_is_no_text_is_one_problem(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidInput, match="cannot be read"):
        load_profile(file)


@given(st.text(alphabet=st.sampled_from("ab: {},#\"'\n-guardsenvtimeouts1s[]&*"), max_size=80))
def test_no_file_breaks_the_reader(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_text(text)
    with contextlib.suppress(InvalidInput):  # with its problems, never anything else
        load_profile(file)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("300s", 300),
        ("1.5s", 1.5),
        ("250ms", 0.25),
        ("5m", 300),
        ("1 h", 3600),
        ("5", 5),
        ("-1s", None),
        ("1d", None),
        ("", None),
    ],
)
def test_durations(text: str, seconds: float | None) -> None:
    assert parse_duration(text) == seconds


def test_every_guard_keeps_the_contract_and_documents_itself() -> None:
    names = REGISTRY.names()
    assert {
        "census",
        "timeouts",
        "fail_fast",
        "oom_exit",
        "progress_watchdog",
        "collective_check",
        "sigterm_exit",
        "group_kill",
        "adaptive_timeout",
        "checkpoint",
        "consistency",
        "loader_check",
        "step_heartbeat",
    } <= set(names)
    for name in names:
        cls = REGISTRY.get(name)
        assert cls is not None
        assert len(cls.__doc__ or "") > 100
        cls().scaled(0.5)


def test_no_two_guards_of_a_profile_share_an_exit_code() -> None:
    for name in ("recommended", "strict"):
        codes = [c for g in load_profile(name).guards if g.lives_in == "rank" for c in g.exit_codes]
        assert len(codes) == len(set(codes))


def test_variables_of_profiles_are_known() -> None:
    for name in NAMES:
        for variable, _ in load_profile(name).env:
            assert variable in VARIABLES
    assert lookup("NCCL_WHATEVER").backends == ("nccl",)
    assert lookup("SOMETHING").read_when == "start-up"
    assert lookup("PYTHONFAULTHANDLER").read_when == "start-up"


@pytest.mark.parametrize("name", NAMES)
def test_what_is_shown_of_a_guard_is_whole_sentences_without_markup(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profiles", "show", name]) == 0
    about = [line for line in capsys.readouterr().out.splitlines()[1:] if line.startswith("      ")]
    assert not [line for line in about if re.search(r"`|\*\w|\w_s\b|:$|\bwhen$", line)]
