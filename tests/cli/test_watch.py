"""``chaoskit watch``: options, reports and exit codes with an engine that starts nothing; a real program."""

from __future__ import annotations

import dataclasses
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from chaoskit.cli import main
from chaoskit.cli.option_values import library
from chaoskit.cli.watch import execute, watch
from chaoskit.cli.watch_options import AskedToWatch, WatchOptions, read
from chaoskit.errors import ExitCode, InvalidInput
from chaoskit.model import Outcome, Result, ScenarioResult, Status, Verdict, Workload
from chaoskit.request import WATCH, ArmId, Observer, RunResult, WatchRequest

pytestmark = pytest.mark.usefixtures("plain_environment")
Streams = Callable[..., io.StringIO]


@dataclasses.dataclass
class FakeWatch:
    """Tells the observer what the engine would, and gives the one verdict asked for."""

    status: Status = Status.PASS
    interrupt: bool = False

    def __call__(self, request: WatchRequest, observer: Observer) -> RunResult:
        key = ArmId(WATCH, WATCH, "gloo", 1, 1)
        run_dir = request.runs_dir / "20260101-7"
        observer.run_started(run_dir, 7, (key,))
        observer.arm_started(key, 300.0)
        if self.interrupt:
            raise KeyboardInterrupt
        verdict = Verdict(
            WATCH, WATCH, 1, 1, "gloo", "torch-defaults", self.status, "told", Outcome.COMPLETED
        )
        observer.arm_ended(key, verdict)
        result = ScenarioResult(WATCH, "gloo", Result.HELD, "", (verdict,))
        observer.scenario_ended(result)
        return RunResult(run_dir, 7, "2.13.0", (result,), 1.5)


def asked(form: str = "text") -> AskedToWatch:
    program = Workload("train.py", kind="script", target="/train.py")
    return AskedToWatch(WatchRequest(program), "json" if form == "json" else "text")


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize(
    ("status", "code"), [(Status.PASS, 0), (Status.FAIL, 1), (Status.INCONCLUSIVE, 2), (Status.SKIPPED, 2)]
)
def test_the_exit_code_is_the_verdict_s(form: str, status: Status, code: int, stream: Streams) -> None:
    out = stream()
    assert execute(asked(form), FakeWatch(status), out, stream()) == code
    if form == "json":
        document = json.loads(out.getvalue())
        assert document["summary"]["exit_code"] == code
        assert document["verdicts"][0]["scenario"] is None


def test_in_a_pipe_one_line_then_the_report(stream: Streams) -> None:
    out, err = stream(), stream()
    execute(asked(), FakeWatch(), out, err)
    assert err.getvalue() == "watching train.py, seed 7, run directory runs/20260101-7\n"
    assert out.getvalue().startswith("✓ train.py  completed")


def test_on_a_terminal_it_is_called_watch(stream: Streams) -> None:
    out = stream(terminal=True)
    execute(asked(), FakeWatch(), out, stream())
    assert "watch/watch" not in out.getvalue()
    assert "run directory: " in out.getvalue().rsplit("\x1b[?25h", 1)[1]


def test_an_interrupt_reports_what_is_known(stream: Streams) -> None:
    out = stream()
    assert execute(asked(), FakeWatch(interrupt=True), out, stream()) is ExitCode.INTERRUPTED
    assert "train.py: nothing was judged" in out.getvalue()


# ---------------------------------------------------------------- options


def test_a_script_with_everything(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    options = WatchOptions(
        ("train.py",), behind=("--epochs", "1"), launcher="torchrun", ranks="2", profile="strict",
        within="90s", timeout="10m", backend="nccl", seed="5", form="json",
    )  # fmt: skip
    seen = read(options, library())
    request = seen.request
    assert request.program == Workload(
        "train.py", kind="script", target=str(tmp_path / "train.py"), args=("--epochs", "1")
    )
    assert (request.launcher, request.ranks, request.stall_s, request.timeout_s) == (
        "torchrun",
        2,
        90.0,
        600.0,
    )
    assert (request.backend, request.seed, seen.form) == ("nccl", 5, "json")
    assert request.profile is not None and request.profile.name == "strict"


def test_without_options_the_request_s_own_defaults(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    seen = read(WatchOptions(("train.py",)), library()).request
    plain = WatchRequest(seen.program, command=seen.command)
    assert seen == plain


def test_words_behind_alone_are_a_command() -> None:
    words = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=3", "train.py")
    for launcher in (None, "command"):
        request = read(WatchOptions(behind=words, launcher=launcher), library()).request
        assert (request.program.kind, request.program.args) == ("command", words)
        assert (request.launcher, request.ranks) == ("command", 3)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ([], ("no program to watch", "chaoskit watch -m pkg.train")),
        (["--launcher", "torchrun", "--", "x.py"], ("starts a script or a module",)),
        (["nope.py"], ("there is no script", "nope.py")),
        (["a.py", "b", "c"], ("its arguments go behind --: chaoskit watch a.py -- b c",)),
        (["a.py", "--epochs", "3"], ("No such option", "goes behind --", "chaoskit watch --help")),
        (
            ["nope.py", "--ranks=0", "--within=0s", "--timeout=x", "--profile=stric", "--backend=mpi"],
            ("nope.py", "--ranks 0", "--within '0s'", "--timeout 'x'", "mean strict", "--backend 'mpi'"),
        ),
    ],
)  # fmt: skip
def test_wrong_usage_is_64_with_every_problem(
    arguments: list[str], parts: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", *arguments]) == ExitCode.USAGE
    out, err = capsys.readouterr()
    assert (out, [p for p in parts if p not in err]) == ("", [])
    assert "Traceback" not in err


def test_the_options_of_the_program_are_not_chaoskit_s(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "train.py").touch()
    seen: list[WatchRequest] = []

    def record(request: WatchRequest, observer: Observer) -> RunResult:
        seen.append(request)
        raise ValueError("odd")

    monkeypatch.setattr("chaoskit.engine.watch", record)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert main(["watch", "train.py", "--", "--traceback", "--format", "json", "--help"]) == ExitCode.INTERNAL
    assert seen[0].program.args == ("--traceback", "--format", "json", "--help")
    assert "Traceback" not in capsys.readouterr().err


def test_help_names_every_option_and_has_examples() -> None:
    shown = CliRunner().invoke(watch, ["--help"]).output
    for option in (
        "-m",
        "--ranks",
        "--launcher",
        "--profile",
        "--within",
        "--timeout",
        "--format",
        "--runs-dir",
    ):
        assert option in shown
    assert "chaoskit watch -- torchrun --nproc-per-node 4 train.py --epochs 1" in shown


# ---------------------------------------------------------------- real programs

BAD = """\
import sys
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
for step in range(12):
    dist.all_reduce(torch.ones(3))
    if step == 5 and dist.get_rank() == 2:
        sys.stderr.buffer.write(b"\\xff\\x1b]0;title\\x07 args %s\\n" % repr(sys.argv[1:]).encode())
        sys.stderr.flush()
        raise ValueError("data is broken")
dist.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.nightly
def test_a_real_program_that_fails(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(BAD)
    command = [sys.executable, "-m", "chaoskit", "watch", "bad.py", "--ranks", "3", "--within", "60s"]
    done = subprocess.run([*command, "--", "--a", "b c"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == ExitCode.NOT_HELD, done.stderr
    said = done.stdout
    assert "bad.py  fail  failed  rank 2 exception  [3 ranks, gloo, torch-defaults]" in said
    assert f"where: {tmp_path / 'bad.py'}:10\n" in said, said
    assert "\\xff\\x1b]0;title\\x07 args ['--a', 'b c']" in said
    assert "ValueError: data is broken" in said
    assert not set(said + done.stderr) & {"\x1b", "\x07"}

    (arm,) = (tmp_path / "runs").iterdir()
    again = [sys.executable, "-m", "chaoskit", "judge", str(arm), "--format", "json"]
    judged = subprocess.run(again, capture_output=True, text=True)
    document: dict[str, Any] = json.loads(judged.stdout)
    (verdict,) = document["verdicts"]
    assert (verdict["scenario"], verdict["status"], verdict["culprits"]) == (
        None, "fail", [{"kind": "rank", "id": "2"}],
    )  # fmt: skip
    assert judged.returncode == document["summary"]["exit_code"] == ExitCode.NOT_HELD
    text = subprocess.run(again[:-2], capture_output=True, text=True).stdout
    assert text.startswith("✗ bad.py  fail  failed  rank 2 exception")
    with pytest.raises(InvalidInput):  # what has been judged is no program
        read(WatchOptions((str(arm),)), library())
