"""``chaoskit plan``: what is written, for whom, and what it refuses. Real ranks join in tests/repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaoskit import codec
from chaoskit.cli import main
from chaoskit.errors import ExitCode
from chaoskit.model import Plan
from chaoskit.rank.__main__ import main as rank
from chaoskit.request import WATCH
from chaoskit.scenario.survey import Issued, Survey

pytestmark = pytest.mark.usefixtures("plain_environment")
Captured = pytest.CaptureFixture[str]
OUTPUT = ("--output", "arm/plan.json")
SCENARIO = "rank-killed-mid-all-reduce"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text("raise SystemExit('never run here')")
    return path


def planned(*arguments: str) -> Plan:
    assert main(["plan", *OUTPUT, *arguments]) == ExitCode.OK
    return codec.load_plan(Path("arm/plan.json").read_text())


def test_an_arm_with_the_user_s_script(script: Path, capsys: Captured) -> None:
    plan = planned(
        SCENARIO,
        "--arm",
        "hardened",
        "--script",
        "train.py",
        "--ranks",
        "8",
        "--seed",
        "5",
        "--",
        "--epochs",
        "1",
    )
    assert (plan.scenario, plan.arm, len(plan.ranks), plan.seed) == (SCENARIO, "hardened", 8, 5)
    assert (plan.workload.kind, plan.workload.target, plan.workload.args) == (
        "script", str(script), ("--epochs", "1"),
    )  # fmt: skip
    assert (plan.launcher, plan.gated, bool(plan.stall_s)) == ("command", False, True)
    assert [i.fault.name for i in plan.injections] == ["kill"]
    said = capsys.readouterr().out
    here = Path("arm").absolute()
    assert f"python -m chaoskit.rank --plan {here}/plan.json {script} --epochs 1" in said
    assert f"chaoskit judge {here}" in said


def test_a_control_arm_of_another_launcher_promises_nothing() -> None:
    plan = planned(SCENARIO, "--arm", "control")
    assert (plan.contract.outcome, plan.workload.is_built_in, plan.profile.name) == (
        None,
        True,
        "torch-defaults",
    )


def test_a_program_that_is_watched_as_it_is(script: Path) -> None:
    plan = planned("--script", "train.py", "--ranks", "3", "--within", "90s", "--profile", "strict")
    assert (plan.scenario, plan.arm, plan.injections, plan.healthy) == (WATCH, WATCH, (), True)
    assert (len(plan.ranks), plan.stall_s, plan.profile.name, plan.time_scale) == (3, 90.0, "strict", 1.0)


def test_a_survey_moves_what_the_program_never_reaches(
    script: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    survey = Survey(
        {n: tuple(Issued("all_gather", "default", k, 0, True) for k in range(1, 9)) for n in range(4)}
    )
    monkeypatch.setattr("chaoskit.cli.plan_options.surveyed", lambda path: survey)
    plan = planned(SCENARIO, "--arm", "hardened", "--script", "train.py", "--survey", "runs/x")
    (injection,) = plan.injections
    assert (injection.when.op, plan.contract.kind) == ("all_gather", None)
    (note,) = plan.notes
    assert note.startswith("all_reduce #8 → all_gather #")
    assert f"note: {note}" in capsys.readouterr().out


def test_a_survey_has_to_be_there(script: Path, capsys: Captured) -> None:
    for wrong in ("gone", "."):
        code = main(
            ["plan", SCENARIO, "--arm", "control", "--script", "train.py", "--survey", wrong, *OUTPUT]
        )
        assert (code, "no program was watched there" in capsys.readouterr().err) == (ExitCode.USAGE, True)
    assert main(["plan", "--survey", ".", *OUTPUT]) == ExitCode.USAGE


def test_nothing_is_overwritten(script: Path, capsys: Captured) -> None:
    planned("--script", "train.py")
    for wrong in (OUTPUT, ("--output", "other/plan.json")):
        Path("other/rank0").mkdir(parents=True, exist_ok=True)
        assert main(["plan", "--script", "train.py", *wrong]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert "arm/plan.json exists already" in said
    assert "other holds what ranks of another arm wrote" in said


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ([], ("nothing to plan", "--output: where")),
        ([SCENARIO, *OUTPUT], ("no arm is given", "it has: control, hardened")),
        ([SCENARIO, "--arm", "hardned", *OUTPUT], ("did you mean 'hardened'?",)),
        (["all", "--arm", "control", *OUTPUT], ("a plan is for one scenario",)),
        (["--arm", "control", *OUTPUT], ("--arm control: of which scenario?",)),
        ([SCENARIO, "--arm", "control", "-o", "p.json"], ("has to be called plan.json", "p/plan.json")),
        ([SCENARIO, "--arm", "control", *OUTPUT, "--", "--epochs"], ("belongs to a program", "add --script")),
        (
            ["nope", "--arm", "x", "--script", "no.py", "--ranks", "0", "--timeout", "-", *OUTPUT],
            ("'nope'", "no.py", "--ranks 0", "--timeout '-'"),
        ),
    ],
)  # fmt: skip
def test_each_mistake_is_64_and_writes_nothing(
    arguments: list[str], parts: tuple[str, ...], capsys: Captured
) -> None:
    assert main(["plan", *arguments]) == ExitCode.USAGE
    out, err = capsys.readouterr()
    assert (out, [p for p in parts if p not in err]) == ("", [])
    assert not list(Path().glob("**/plan.json"))


def test_a_folder_that_cannot_be_made(script: Path, capsys: Captured) -> None:
    Path("file").touch()
    code = main(["plan", "--script", "train.py", "-o", "file/plan.json"])
    assert (code, "Traceback" in capsys.readouterr().err) == (ExitCode.INTERNAL, False)


def test_a_plan_holds_no_secrets_and_says_what_the_ranks_lack(
    script: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.yaml").write_text(
        "name: mine\nenv:\n  JOB_TOKEN: sesame-open\n  OMP_NUM_THREADS: '1'\n"
    )
    plan = planned(
        "--script", "train.py", "--profile", "mine.yaml", "--", "--api-key", "sesame-too", "--x", "1"
    )
    assert dict(plan.profile.env) == {"JOB_TOKEN": "<redacted>", "OMP_NUM_THREADS": "1"}
    assert plan.workload.args == ("--api-key", "<redacted>", "--x", "1")
    assert "sesame" not in Path("arm/plan.json").read_text()
    said = capsys.readouterr()
    assert "JOB_TOKEN looks secret and is not written into the plan" in said.err
    assert "train.py --api-key sesame-too --x 1" in said.out, "what each rank runs is the user's own command"
    monkeypatch.setenv("RANK", "0")
    assert rank(["--plan", "arm/plan.json"]) == ExitCode.USAGE, "no program is run with <redacted>"
    assert "give the program and its arguments" in capsys.readouterr().err
