"""``chaoskit cost``: options, what is refused and why, files, exit codes. One run is real."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from chaoskit.cli import cost_options, main
from chaoskit.cli.cost import execute
from chaoskit.cli.cost_options import AskedCost, CostOptions, read
from chaoskit.cli.option_values import library
from chaoskit.cost import cases
from chaoskit.cost.request import CostObserver, CostRequest
from chaoskit.cost.session import Asked
from chaoskit.cost.values import Comparison, CostReport, Detection, Estimate
from chaoskit.errors import InvalidInput
from chaoskit.request import Observer

pytestmark = pytest.mark.usefixtures("plain_environment")
Streams = Callable[..., "object"]


def asked(*words: str, **more: object) -> AskedCost:
    return read(CostOptions(words=words, **more), library())  # type: ignore[arg-type]


def refusal(*words: str, **more: object) -> str:
    with pytest.raises(InvalidInput) as raised:
        asked(*words, **more)
    return str(raised.value)


def test_by_default_two_profiles_on_the_model_with_detection() -> None:
    found = asked().asked
    (request,) = found.requests
    assert [t.name for t in request.treatments] == ["recommended", "strict"]
    assert request.against.name == "torch-defaults"
    assert [case.kind for case in request.cases] == ["ddp"]
    assert (request.ranks, request.budget_s, request.width) == (2, 30.0, 0.01)
    assert [t.name for t in found.detected] == ["torch-defaults", "recommended", "strict"]


def test_single_settings_are_not_detected_with_unless_asked_for() -> None:
    assert asked("serialised-waits").asked.detected == ()
    assert [t.name for t in asked("debug-info", detect=True).asked.detected] == [
        "torch-defaults",
        "debug-info",
    ]
    assert asked(detect=False).asked.detected == ()


def test_a_sweep_over_sizes_and_models() -> None:
    found = asked("debug-info", op="all_reduce,broadcast", size="8B..512B").asked
    (request,) = found.requests
    assert [case.name for case in request.cases] == [
        f"{op} {size}" for op in ("all_reduce", "broadcast") for size in ("8 B", "64 B", "512 B")
    ]
    models = asked("debug-info", bucket="4KiB,1MiB", compute="0,2").asked.requests
    assert [request.cases[0].name for request in models] == [
        "ddp 8 × 4 KiB, compute 0", "ddp 8 × 4 KiB, compute 2", "ddp 8 × 1 MiB, compute 0",
        "ddp 8 × 1 MiB, compute 2",
    ]  # fmt: skip
    assert models[1].model.compute_ratio == 2
    assert len(asked("debug-info", op="all", size="1KiB").asked.requests[0].cases) == len(cases.OPS)


def test_the_flight_recorder_alone_is_compared_with_none() -> None:
    assert asked("flight-recorder").asked.requests[0].against.name == "flight-recorder:0"
    both = asked("flight-recorder", "debug-info").asked
    assert both.requests[0].against.name == "torch-defaults"
    assert any("--against flight-recorder:0" in note for note in both.notes)


def test_a_profile_against_itself_is_said_to_be_noise() -> None:
    found = asked("torch-defaults").asked
    assert any("compared with itself" in note for note in found.notes)
    assert found.detected == ()


def test_a_script_is_timed_with_its_arguments(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    request = asked("strict", "train.py", behind=("--steps", "3")).asked.requests[0]
    assert [case.name for case in request.cases] == ["train.py"]
    assert request.program is not None
    assert request.program.args == ("--steps", "3")


@pytest.mark.parametrize(
    ("words", "options", "said"),
    [
        (("blocking-wait",), {}, "no blocking wait on gloo"),
        ((), {"ranks": "1"}, "one rank alone"),
        ((), {"ranks": "x"}, "expected a whole number from 2"),
        ((), {"limit": "2"}, "write --limit 2%"),
        ((), {"width": "-1%"}, "--width"),
        ((), {"width": "0%"}, "no interval is that narrow"),
        ((), {"op": "allreduce"}, "did you mean 'all_reduce'?"),
        ((), {"size": "1MB"}, "write 1MiB"),
        ((), {"bucket": "1MB"}, "write 1MiB"),
        ((), {"compute": "-1"}, "--compute"),
        ((), {"backend": "mpi"}, "expected gloo or nccl"),
        ((), {"form": "xml"}, "expected text or json"),
        ((), {"behind": ("x",)}, "belongs to a program"),
        (("a.py", "b.py"), {}, "2 scripts"),
        (("nowhere.py",), {}, "there is no script"),
        (("consistency",), {"op": "all_reduce"}, "never acts in a bare collective"),
        (("monitored-barrier:2",), {"against": "monitored-barrier:3"}, "cannot be timed side by side"),
        ((), {"against": "nope"}, "neither a profile"),
        (("debug-info",), {"bucket": "8B..1GiB*2", "compute": "1,2"}, "56 models"),
        (("debug-info",), {"op": "all_gather", "size": "8B", "ranks": "4"}, "4 equal parts"),
    ],
)
def test_bad_input_is_told(words: tuple[str, ...], options: dict[str, object], said: str) -> None:
    assert said in refusal(*words, **options)


def test_all_that_is_wrong_is_told_at_once() -> None:
    told = refusal("blocking-wait", "nope", ranks="1", size="1MB", limit="x", html="/proc/x/y.html")
    for said in ("blocking wait", "'nope'", "one rank", "1MiB", "--limit", "--html"):
        assert said in told


def test_a_size_too_large_is_refused_and_in_a_sweep_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases, "free_memory_bytes", lambda: 1 << 20)
    assert "are free" in refusal("debug-info", size="1MiB")
    found = asked("debug-info", size="8B..1MiB*1024").asked
    assert [case.name for case in found.requests[0].cases] == ["all_reduce 8 B", "all_reduce 8 KiB"]
    assert [(row.case.name, "are free" in row.problem) for row in found.refused] == [
        ("all_reduce 1 MiB", True)
    ]


def test_an_absent_backend_is_never_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    from chaoskit import capabilities

    absent = capabilities.Capability("nccl", False, "no GPU", "a machine with one")
    monkeypatch.setattr(capabilities, "find", lambda name: absent)
    told = refusal("serialised-waits", backend="nccl")
    assert "no GPU" in told
    assert "no other backend is taken" in told


def test_without_its_libraries_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = importlib.util.find_spec
    missing = ("scipy", "matplotlib")
    monkeypatch.setattr(
        cost_options.importlib.util, "find_spec", lambda name: None if name in missing else real(name)
    )
    told = refusal(html=str(tmp_path / "x.html"))
    assert "scipy and matplotlib not installed" in told
    assert "pip install 'chaoskit[cost]'" in told
    assert "matplotlib" not in refusal()


# ---------------------------------------------------------------- a whole run


def measure(request: CostRequest, observer: CostObserver) -> CostReport:
    run_dir = request.runs_dir / "r"
    run_dir.mkdir(parents=True)
    observer.started(run_dir, 7, 2)
    found = []
    for one in request.treatments:
        observer.comparison_started(one.name, request.cases[0])
        estimate = Estimate(1.031, 1.028, 1.034, 0.01, 0.01031, 90, 9)
        observer.timed(1.0, estimate)
        made = Comparison(one.name, one.says, request.against.name, request.cases[0], "process", estimate)
        observer.comparison_ended(made)
        found.append(made)
    return CostReport("gloo", 2, "2.13.0", "2 cores", 7, tuple(found), run_dir=str(run_dir))


def detect(one: Asked, seed: int, observer: Observer) -> tuple[tuple[Detection, ...], bool]:
    ends = {"torch-defaults": 1800.0, "recommended": 300.0, "strict": 120.0}
    return tuple(
        Detection(t.name, "rank-stopped", 3.0, ends[t.name], 10.0, 0.01, "failed") for t in one.detected
    ), False


def test_every_report_is_written_and_the_limit_sets_the_exit_code(tmp_path: Path, stream: Streams) -> None:
    files = {name: str(tmp_path / f"c.{name}") for name in ("json", "markdown", "html")}
    out, err = stream(), stream()
    code = execute(asked(limit="2%", plots=str(tmp_path / "p"), **files), measure, detect, out, err)  # type: ignore[arg-type]
    assert code == 1
    told = out.getvalue()  # type: ignore[attr-defined]
    assert "the profile strict costs 3.1 % [2.8, 3.4] on a DDP model" in told
    assert "shortens detection by about 28 min (a stopped rank: about 2 min" in told
    assert "Limit 2.0 %: 2 above" in told
    assert max(map(len, told.splitlines())) <= 100
    document = json.loads(Path(files["json"]).read_text())
    assert document == json.loads((tmp_path / "runs" / "r" / "cost.json").read_text())
    assert (document["schema_version"], document["exit_code"]) == (1, 1)
    assert "<picture>" in Path(files["html"]).read_text()
    assert Path(files["markdown"]).read_text().startswith("## ❌")
    assert [p.name for p in (tmp_path / "p").iterdir()] == ["frontier-1.svg"]
    lines = err.getvalue().splitlines()  # type: ignore[attr-defined]
    assert lines[0].startswith("2 comparisons of up to 30 s and 24 arms with a fault, about ")
    assert (tmp_path / "runs" / "r" / "cost.json").stat().st_mode & 0o777 == 0o600
    assert lines[2] == "[2/2] strict, ddp 8 × 1 MiB: 3.1 % [2.8, 3.4], 10 ms → 10.3 ms"


def test_no_secret_of_a_file_is_written_or_printed(tmp_path: Path, stream: Streams) -> None:
    (tmp_path / "ours.env").write_text("MY_API_TOKEN=s3cr3t\nOMP_NUM_THREADS=1\n")

    def leaking(request: CostRequest, observer: CostObserver) -> CostReport:
        proof = ((), ("MY_API_TOKEN=s3cr3t: in the environment of the rank",))
        found = measure(request, observer)
        leaked = tuple(
            dataclasses.replace(c, problem="s3cr3t", estimate=None, proofs=proof) for c in found.comparisons
        )
        for one in leaked:
            observer.comparison_ended(one)
        return dataclasses.replace(found, comparisons=leaked)

    files = {name: str(tmp_path / f"c.{name}") for name in ("json", "markdown", "html")}
    out, err = stream(), stream()
    execute(asked("./ours.env", detect=False, **files), leaking, detect, out, err)  # type: ignore[arg-type]
    written = [
        path.read_text() for path in (*map(Path, files.values()), tmp_path / "runs" / "r" / "cost.json")
    ]
    for text in (*written, out.getvalue(), err.getvalue()):  # type: ignore[attr-defined]
        assert "s3cr3t" not in text
    assert "MY_API_TOKEN=<redacted>" in written[0]


def test_the_command_that_is_kept_holds_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["chaoskit", "cost", "MY_COOKIE=monster1", "train.py"])
    Path("train.py").write_text("")
    (request,) = asked("MY_COOKIE=monster1", "train.py").asked.requests
    assert "monster1" not in request.command and request.words == ()
    monkeypatch.setattr(sys, "argv", ["/usr/bin/chaoskit", "cost", "strict"])
    (request,) = asked("strict").asked.requests
    assert request.words == ("chaoskit", "cost", "strict")
    assert request.folder == os.getcwd()
    monkeypatch.setenv("MY_API_TOKEN", Path.cwd().name)
    assert asked("strict").asked.requests[0].folder == ""


def test_the_command_that_is_kept_replaces_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("train.py").write_text("")
    typed = "chaoskit cost --html a.html strict --json=b.json train.py --plots p --markdown=m --limit 2%"
    monkeypatch.setattr(sys, "argv", [*typed.split(), "--", "--html", "x", "--json=y"])
    (request,) = asked("strict", "train.py", behind=("--html", "x", "--json=y")).asked.requests
    told = "chaoskit cost strict train.py --limit 2% -- --html x --json=y"
    assert shlex.join(request.words) == told


def test_that_it_was_interrupted_stands_on_stderr(stream: Streams) -> None:
    def cut(request: CostRequest, observer: CostObserver) -> CostReport:
        return dataclasses.replace(measure(request, observer), interrupted=True)

    err = stream()
    assert execute(asked(detect=False), cut, detect, stream(), err) == 130  # type: ignore[arg-type]
    assert "interrupted: what was measured until then is told" in err.getvalue()  # type: ignore[attr-defined]


def test_a_file_is_pointed_to_its_check_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "our s.env").write_text(
        "TORCH_NCL_BLOCKING_WAIT=1\nOMP_NUM_THREADS=1\nOMP_NUM_THREADS=2\nNCCL_DEBUG=INFO\n"
    )
    notes = [note for note in asked("./our s.env").asked.notes if "profiles check" in note]
    (line,) = notes
    counts, _, command = line.partition(": see chaoskit ")
    assert command == "profiles check './our s.env' --backend gloo"
    main(shlex.split(command))
    told = capsys.readouterr().out
    for level in ("error", "warning"):
        count = told.count(f": {level}: ") or told.count(f" {level} ")
        assert (f"{count} {level}" in counts) == (count > 0), told


@pytest.mark.parametrize("path", ["./" + "x" * 300 + ".yaml", "./" + "x" * 300 + ".env", "./\x1b[31m.yaml"])
def test_a_name_that_no_file_can_have_is_no_fault_of_chaoskit(path: str) -> None:
    with pytest.raises(InvalidInput):
        asked(path)


def test_json_on_stdout_is_alone(stream: Streams) -> None:
    out, err = stream(), stream()
    assert execute(asked(form="json", detect=False), measure, detect, out, err) == 0  # type: ignore[arg-type]
    assert json.loads(out.getvalue())["comparisons"][0]["is_difference"] is True  # type: ignore[attr-defined]


def test_a_step_summary_is_added_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: Streams) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    execute(asked(markdown=str(summary), detect=False), measure, detect, stream(), stream())  # type: ignore[arg-type]
    assert summary.read_text().startswith("before\n## What it costs on gloo")


def test_the_list_names_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", "--list"]) == 0
    told = capsys.readouterr().out
    for name in ("serialised-waits", "monitored-barrier[:N]", "recommended", "guard:consistency"):
        assert name in told
    assert "group_kill" not in told
    assert main(["cost", "--list", "--format", "json"]) == 0
    assert {"settings", "guards", "profiles"} == set(json.loads(capsys.readouterr().out))


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_interrupted_for_real_it_reports_what_it_has(tmp_path: Path) -> None:
    # More than there is time for: the signal may come late.
    settings = ["serialised-waits", "debug-info", "monitored-barrier", "flight-recorder"]
    command = [sys.executable, "-m", "chaoskit", "cost", *settings, "--size", "64KiB",
               "--budget", "2s", "--json", "c.json"]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, env=environment, text=True
    ) as process:
        assert process.stderr is not None
        next(line for line in process.stderr if line.startswith("[1/4]"))
        process.send_signal(signal.SIGINT)
        process.stderr.read()
        assert process.wait(60) == 130
    document = json.loads((tmp_path / "c.json").read_text())
    assert document["interrupted"] is True
    assert document["comparisons"][0]["estimate"] is not None
