"""The one command of `make nccl`: what it runs, what it writes, what it says without a GPU."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click
import on_gpu
import pytest

from chaoskit import capabilities
from chaoskit.cli import Commands
from chaoskit.gpu import cuda_build, nvml
from chaoskit.gpu.devices import Gpu


@pytest.fixture
def one_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setattr(capabilities, "find", lambda name: capabilities.Capability(name, True, "a fake"))
    monkeypatch.setattr(nvml, "gpus", lambda: (Gpu(0, "Fake", total_mib=100),))
    monkeypatch.setattr(nvml, "driver", lambda: "580")
    monkeypatch.setattr(cuda_build, "nccl_version", lambda: (2, 30, 3))


def names(gpus: int, nccl: tuple[int, ...] | None) -> list[str]:
    return [step.name for step in on_gpu.steps(Path("/x"), gpus, nccl)]


def test_both_ways_of_sharing_are_run_where_ranks_share() -> None:
    assert names(1, (2, 30, 3)) == ["tests", "library-host-ids", "library-multi-rank", "cost", "claims"]
    assert names(1, (2, 27, 3)) == ["tests", "library-host-ids", "cost", "claims"]
    assert names(1, None) == ["tests", "library-host-ids", "cost", "claims"]
    assert names(8, (2, 30, 3)) == ["tests", "library", "cost", "claims"]


def test_every_command_of_chaoskits_is_one_that_it_takes() -> None:
    """The commands and options exist: click would refuse others before anything is run."""
    commands = Commands("chaoskit")
    for step in on_gpu.steps(Path("/x"), 1, (2, 30, 3)):
        if "chaoskit" in step.command:
            words = step.command[step.command.index("chaoskit") + 1 :]
            command = commands.get_command(click.Context(commands), words[0])
            assert command is not None, words[0]
            known = {option for parameter in command.params for option in parameter.opts}
            assert {word for word in words if word.startswith("--")} <= known, step.name


def test_without_a_gpu_it_says_so_and_runs_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    missing = capabilities.Capability("nccl", False, "no NVIDIA driver", "a GPU")
    monkeypatch.setattr(capabilities, "find", lambda name: missing)
    assert on_gpu.main([str(tmp_path / "out")]) == 2
    assert "nccl cannot be had here: no NVIDIA driver (to have it: a GPU)" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("one_gpu")
@pytest.mark.parametrize(
    ("codes", "code"), [({}, 0), ({"cost": 1}, 0), ({"claims": 2}, 2), ({"cost": 70}, 3)]
)
def test_a_step_that_fails_ends_no_other_and_one_folder_has_all(
    tmp_path: Path, codes: dict[str, int], code: int
) -> None:
    def run(step: on_gpu.Step, folder: Path) -> on_gpu.Done:
        (folder / f"{step.name}.log").write_text("")
        for file in step.files[:1]:
            (folder / file).write_text("")
        return on_gpu.Done(step, codes.get(step.name, 0), 1.5)

    assert on_gpu.main([str(tmp_path / "out")], run) == code
    page = (tmp_path / "out/report.md").read_text()
    assert "1 × Fake, 100 MiB; driver 580; torch " in page
    assert "NCCL 2.30.3" in page
    for name in names(1, (2, 30, 3)):
        assert f"[{name}.log]({name}.log)" in page
    assert "[cost.html](cost.html)" in page
    assert "cost.md" not in page, "only what was written is linked"
    found = json.loads((tmp_path / "out/report.json").read_text())
    assert [step["step"]["name"] for step in found["steps"]] == names(1, (2, 30, 3))


def test_a_step_is_run_with_its_output_kept(tmp_path: Path) -> None:
    step = on_gpu.Step("it", "says", (sys.executable, "-c", "print('hello'); raise SystemExit(7)"))
    done = on_gpu.run(step, tmp_path)
    assert (done.code, done.meaning) == (7, "broke (exit 7)")
    assert (tmp_path / "it.log").read_text() == "hello\n"
