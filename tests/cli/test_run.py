"""``chaoskit run``: streams, reports and exit codes, with an engine that starts nothing."""

from __future__ import annotations

import io
import json
import os
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

from chaoskit.cli import main
from chaoskit.cli.outputs import Outputs
from chaoskit.cli.run import Engine, execute, run
from chaoskit.cli.run_options import Asked
from chaoskit.errors import ChaoskitError, ExitCode
from chaoskit.model import Result, Scenario
from chaoskit.request import RunRequest

pytestmark = pytest.mark.usefixtures("plain_environment")

Make = Callable[..., Scenario]
JUNIT = Path("junit.xml")


def asked(*scenarios: Scenario, form: str = "text", junit: Path | None = None) -> Asked:
    return Asked(RunRequest(scenarios), "json" if form == "json" else "text", Outputs(junit=junit))


def test_in_a_pipe_lines_then_the_summary(
    scenario: Make, engine: Callable[..., Engine], stream: Callable[..., io.StringIO]
) -> None:
    out, err = stream(), stream()
    fake = engine({"b": Result.NOT_HELD})
    code = execute(asked(scenario("a"), scenario("b")), fake, out, err)
    assert code is ExitCode.NOT_HELD
    text = out.getvalue()
    lines = err.getvalue()
    assert lines.startswith("4 arms, seed 7, run directory runs/20260101-7\n[1/4] pass         a/control")
    assert "[1/4]" not in text
    assert "✗ b  not held  [gloo]" in text
    assert text.endswith("run directory: runs/20260101-7\nreport: chaoskit report runs/20260101-7 --html\n")
    assert "\x1b" not in text + lines


def test_on_a_terminal_a_live_table_then_the_summary(
    scenario: Make, engine: Callable[..., Engine], stream: Callable[..., io.StringIO]
) -> None:
    out = stream(terminal=True)
    execute(asked(scenario("a")), engine(), out, stream())
    text = out.getvalue()
    assert "arms done" in text
    assert "[1/2]" not in text
    assert "run directory: " in text.rsplit("\x1b[?25h", 1)[1]


@pytest.mark.parametrize("name", ["CI", "NO_COLOR"])
def test_ci_has_no_table_and_no_color_has_no_colour(
    name: str,
    scenario: Make,
    engine: Callable[..., Engine],
    stream: Callable[..., io.StringIO],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(name, "1")
    out = stream(terminal=True)
    err = stream(terminal=True)
    execute(asked(scenario("a")), engine(), out, err)
    text = out.getvalue()
    if name == "CI":
        assert "[1/2] " in err.getvalue()
    else:
        assert "\x1b[32m" not in text


@pytest.mark.parametrize("terminal", [True, False])
def test_json_keeps_stdout_to_one_object(
    terminal: bool, scenario: Make, engine: Callable[..., Engine], stream: Callable[..., io.StringIO]
) -> None:
    out, err = stream(terminal=terminal), stream(terminal=terminal)
    code = execute(asked(scenario("a"), form="json"), engine(), out, err)
    document = json.loads(out.getvalue())
    assert document["summary"] == {
        "held": 1, "not_held": 0, "not_needed": 0, "inconclusive": 0, "skipped": 0, "exit_code": int(code),
    }  # fmt: skip
    assert ("arms done" in err.getvalue()) is terminal


def test_an_interrupt_reports_what_is_known(
    scenario: Make, engine: Callable[..., Engine], stream: Callable[..., io.StringIO]
) -> None:
    out = stream()
    fake = engine(interrupt_after=3)
    code = execute(asked(scenario("a"), scenario("b"), junit=JUNIT), fake, out, stream())
    assert code is ExitCode.INTERRUPTED
    text = out.getvalue()
    assert "interrupted: what was not finished is not judged" in text
    assert "? b  inconclusive" in text
    assert [case.get("classname") for case in ET.parse(JUNIT).iter("testcase")] == ["a", "a", "b", "b"]


def test_chaoskits_own_fault_leaves_the_junit_file(
    scenario: Make, engine: Callable[..., Engine], stream: Callable[..., io.StringIO]
) -> None:
    with pytest.raises(RuntimeError, match="the engine broke"):
        execute(asked(scenario("a"), junit=JUNIT), engine(fail_after=1), stream(), stream())
    assert ET.parse(JUNIT).getroot().get("errors") == "1"


def test_a_junit_file_that_cannot_be_written_does_not_lose_the_summary(
    scenario: Make, engine: Callable[..., Engine], stream: Callable[..., io.StringIO], tmp_path: Path
) -> None:
    out = stream()
    gone = tmp_path / "gone" / "junit.xml"
    with pytest.raises(ChaoskitError, match="could not be written"):
        execute(asked(scenario("a"), junit=gone), engine(), out, stream())
    assert "a  held" in out.getvalue()


def test_a_full_disk_is_no_success(
    scenario: Make, engine: Callable[..., Engine], stream: Callable[..., io.StringIO]
) -> None:
    full = Path("/dev/full").open("w", encoding="utf-8")
    with pytest.raises(ChaoskitError, match="No space left"):
        execute(asked(scenario("a"), form="json"), engine(), full, stream())
    with suppress(OSError):
        full.close()


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_reader_that_goes_away_changes_no_exit_code(
    form: str, scenario: Make, engine: Callable[..., Engine], stream: Callable[..., io.StringIO]
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    pipe = os.fdopen(writer, "w", encoding="utf-8")
    fake = engine({"a": Result.NOT_HELD})
    assert execute(asked(scenario("a"), form=form), fake, pipe, stream()) is ExitCode.NOT_HELD
    with suppress(BrokenPipeError):
        pipe.close()


def test_the_whole_command_line_says_every_problem_and_exits_64(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["chaoskit"])
    assert main(["run", "./absent.yaml", "--ranks", "none", "--jobs", "0", "--junit", "/proc/no/such"]) == 64
    out, err = capsys.readouterr()
    assert out == ""
    for said in ("absent.yaml", "--ranks 'none'", "--jobs 0", "/proc/no/such"):
        assert said in err
    assert "Traceback" not in err


def test_help_names_every_option() -> None:
    shown = CliRunner().invoke(run, ["--help"]).output
    for option in (
        "-k", "-x", "--profile", "--arm", "--backend", "--ranks", "--nproc-per-node", "--jobs", "--seed",
        "--repeat", "--timeout", "--time-scale", "--require", "--runs-dir", "--format", "--junit",
    ):  # fmt: skip
        assert option in shown
