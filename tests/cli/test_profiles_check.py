"""``chaoskit profiles check``, and what ``chaoskit run`` says of a profile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chaoskit.cli import main
from chaoskit.cli.profiles_check import in_one_line
from chaoskit.errors import InvalidInput
from chaoskit.model import Profile
from chaoskit.scenario import load_profile

Captured = pytest.CaptureFixture[str]

MINE = """\
name: mine
guards:
  timeouts: {collective: 600s}
  progress_watchdg: {}
  fail_fast: {teardown: soon}
  progress_watchdog: {timeout: 300s}
env:
  TORCH_NCCL_BLOCKING_WAIT: true
  TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC: 10m
  NCCL_DEBUG: INFO
"""


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def write(name: str, text: str) -> str:
    Path(name).write_text(text)
    return name


def run(*arguments: str) -> int:
    return main(["profiles", "check", *arguments])


def test_a_profile_tells_all_at_once_with_lines(capsys: Captured) -> None:
    assert run(write("mine.yaml", MINE), "--torch", "2.13") == 1
    told = capsys.readouterr().out.splitlines()
    assert [line.partition(": ")[0] for line in told if ": error: " in line] == [
        "mine.yaml:4", "mine.yaml:5", "mine.yaml:7", "mine.yaml:3", "mine.yaml:9",
    ]  # fmt: skip
    assert "    did you mean progress_watchdog?" in told
    assert told[-1] == "mine.yaml: 5 errors, 1 warning (torch 2.13; gloo, nccl-legacy)"


def test_a_file_of_variables_for_another_torch(capsys: Captured) -> None:
    file = write("a.env", "export TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=300\n")
    assert run(file, "--torch", "2.15.0", "--backend", "nccl") == 0
    assert "a.env:1: warning: TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC: on torch 2.15" in capsys.readouterr().out
    assert run(file, "--torch", "2.15.0", "--backend", "nccl", "--strict") == 1
    assert run(file, "--torch", "2.14.0", "--backend", "nccl", "--strict") == 0
    assert run(file, "--torch", "2.99", "--backend", "nccl", "--strict") == 0
    assert "newer than what is known here" in capsys.readouterr().out


@pytest.mark.parametrize("word", ["-", "--environment"])
def test_the_environment(capsys: Captured, monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    monkeypatch.setenv("TORCH_NCCL_BLOCKING_WIAT", "1")
    monkeypatch.setenv("RANK", "0")
    assert run(word, "--torch", "2.13") == 1
    assert "environment: error: TORCH_NCCL_BLOCKING_WIAT: nobody reads" in capsys.readouterr().out


def test_json(capsys: Captured) -> None:
    assert run("folklore", write("a.env", "A=1\n"), "--format", "json", "--torch", "2.13.0") == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["schema_version"], [f["file"] for f in found["files"]]) == (1, ["folklore", "a.env"])
    assert (found["files"][0]["errors"], found["files"][1]["findings"]) == (2, [])
    assert {"level", "rule", "subject", "message", "hint", "line", "source"} == set(
        found["files"][0]["findings"][0]
    )


def test_annotations(capsys: Captured) -> None:
    assert run(write("a.env", "NCCL_DEBGU=1\n" * 12), "--github", "--torch", "2.13") == 1
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("::")]
    assert lines[0].startswith("::error file=a.env,line=1,title=chaoskit%3A unknown-name::NCCL_DEBGU: nobody")
    assert len(lines) == 10 and "more; GitHub shows 10" in lines[-1]


def test_launcher_and_scheduler(capsys: Captured) -> None:
    file = write("mine.yaml", "name: mine\nguards:\n  sigterm_exit: {grace: 20s}\n")
    assert run(file) == run(file, "--launcher-grace", "25s", "--kill-wait", "30s") == 0
    assert run(file, "--kill-wait", "10s") == run(file, "--termination-grace", "10s") == 1
    assert "--kill-wait (10s)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "no file given"),
        (["absent.env"], "absent.env: no such file"),
        (["recomended"], "did you mean recommended?"),
        (["scenario.yaml"], "this is a scenario, not a profile"),
        (["list.yaml"], "this is no profile"),
        (["broken.yaml"], "not valid YAML"),
        (["words.env"], "this line is no NAME=VALUE"),
        (["strict", "--torch", "new"], "--torch 'new': expected a version"),
        (["strict", "--torch", "2.1"], "expected 2.4 or newer"),
        (["strict", "--torch", "2.13", "--backend", "nccl2"], "from torch 2.14 on"),
        (["strict", "--backend", "mpi"], "--backend 'mpi': expected gloo"),
        (["strict", "--kill-wait", "soon", "--launcher", "slrm", "--format", "xml"], "--kill-wait 'soon'"),
    ],
)
def test_what_cannot_be_read_or_is_typed_wrong(capsys: Captured, arguments: list[str], says: str) -> None:
    write("scenario.yaml", "name: a\narms: {}\n")
    write("list.yaml", "- a\n")
    write("broken.yaml", "a: [\n")
    write("words.env", "hello\n")
    assert run(*arguments) == 64
    assert says in capsys.readouterr().err


def test_of_several_files_the_others_are_told_too(capsys: Captured) -> None:
    assert run("absent.env", "strict", "--torch", "2.13") == 64
    told = capsys.readouterr()
    assert "strict: nothing found" in told.out and "absent.env: no such file" in told.err


def test_nothing_of_a_file_commands_the_terminal(capsys: Captured) -> None:
    file = write("a\x1b[31m.env", "NCCL_DEBUG=\x1b]0;x\x07\nGLOO_SOCKET_IFNAME=^\x9b\n")
    run(file, "--github", "--torch", "2.13")
    assert not {"\x1b", "\x07", "\x9b"} & set(capsys.readouterr().out)


def test_no_secret_is_told(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_DEBGU", "hunter2hunter2")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2hunter2")
    run("-", "--format", "json", "--torch", "2.13")
    assert "hunter2" not in capsys.readouterr().out


def test_what_run_says_in_one_line() -> None:
    bad = Profile("mine", env=(("TORCH_NCCL_BLOCKING_WIAT", "1"), ("NCCL_DEBUG", "LOUD")))
    line = in_one_line(bad, "./mine.yaml", "nccl")
    assert (
        line == "profile mine: 1 error and 1 warning: see chaoskit profiles check ./mine.yaml --backend nccl"
    )
    assert in_one_line(load_profile("recommended"), "recommended", None) == ""


def test_run_tells_it_before_it_runs(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    def engine(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("chaoskit.engine.run", engine)
    file = write("./mine.yaml", 'name: mine\nenv: {TORCH_FR_BUFER_SIZE: "1"}\n')
    for given, told in ((file, True), ("folklore", False)):
        assert main(["run", "rank-stopped", "--profile", given]) == 130
        assert ("see chaoskit profiles check" in capsys.readouterr().err) is told


def test_an_unknown_key_hides_no_wrong_order(capsys: Captured) -> None:
    guards = (
        "guards:\n  timeouts: {collective: 300s, x: 1}\n  progress_watchdog: {timeout: 200s, start: 9000s}\n"
    )
    assert run(write("mine.yaml", f"name: mine\n{guards}"), "--torch", "2.13") == 1
    out = capsys.readouterr().out
    assert "unknown key `x`" in out
    assert "mine.yaml:3: error: timeouts.collective" in out


@pytest.mark.parametrize(
    "guards",
    [
        "timeouts: {collectiv: 10m, init: 1s}\n  progress_watchdog: {timeout: 60s}",
        "timeouts: {collective: soon, init: 1s}\n  progress_watchdog: {timeout: 60s}",
        "timeouts: {collective: 10s, init: 5m}\n  progress_watchdog: {timeout: 60s, strt: 30m}",
        "oom_exit: {idel: 5s}\n  progress_watchdog: {timeout: 1s, start: 1h}",
    ],
)
def test_nothing_is_said_of_a_figure_that_nobody_wrote(capsys: Captured, guards: str) -> None:
    assert run(write("mine.yaml", f"name: mine\nguards:\n  {guards}\n"), "--torch", "2.13") == 1
    assert "mine.yaml: 1 error (torch" in capsys.readouterr().out


def test_what_a_launcher_sets_is_the_launchers(capsys: Captured) -> None:
    file = write("mine.yaml", "name: mine\nenv:\n  RANK: 1\n")
    assert run(file, "--torch", "2.13") == 1
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("mine.yaml:3: error: RANK: is set by the launcher")
    assert told[0].endswith("[of-launcher]")
    assert told[1] == "    remove it from the profile"
    assert told[2].startswith("mine.yaml: 1 error (")
    with pytest.raises(InvalidInput, match="set by the launcher"):
        load_profile(f"./{file}")
