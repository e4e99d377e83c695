"""The options that ``run`` and ``matrix`` share: the same words, and the same that comes of them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click
import pytest

from chaoskit.cli import matrix_options, run_options
from chaoskit.cli.matrix import matrix
from chaoskit.cli.option_values import library
from chaoskit.cli.program import BEHIND
from chaoskit.cli.run import run
from chaoskit.cli.shared_options import OF_THIS_RUN, SharedOptions, as_words
from chaoskit.errors import InvalidInput

SHARED = {field.name for field in dataclasses.fields(SharedOptions)}
GIVEN = {
    "selectors": ("rank-stopped",), "keyword": "process", "script": "train.py", "launcher": "torchrun",
    "within": "90s", "behind": ("--epochs", "1"), "profile": "strict", "backend": "gloo", "ranks": "4",
    "gpu_sharing": "host-ids", "jobs": "2", "seed": "7", "repeat": "3", "timeout": "2m", "time_scale": "0.5",
    "require": ("ptrace",), "native": True, "runs_dir": "here", "form": "json",
}  # fmt: skip


@pytest.fixture(autouse=True)
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").touch()
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("command", [run, matrix])
def test_both_commands_have_every_option(command: click.Command) -> None:
    assert SHARED - {BEHIND} <= {parameter.name for parameter in command.params}


def test_the_same_words_mean_the_same_run_of_the_engine() -> None:
    assert set(GIVEN) | {"module"} == SHARED, "a new option has a value here"
    asked = run_options.read(run_options.RunOptions(**GIVEN), library())  # type: ignore[arg-type]
    cells = matrix_options.read(matrix_options.MatrixOptions(**GIVEN), library())  # type: ignore[arg-type]
    assert cells.request.run == asked.request
    plain = run_options.read(run_options.RunOptions(("rank-stopped",)), library()).request
    same = {
        f.name for f in dataclasses.fields(plain) if getattr(plain, f.name) == getattr(asked.request, f.name)
    }
    assert same <= {"scenarios", "profiles", "arms", "stop_at_first", "command", "again"}, "each arrives"


def test_the_same_words_are_wrong_in_both() -> None:
    texts = [name for name, value in GIVEN.items() if isinstance(value, str)]
    wrong: dict[str, object] = {name: "?" for name in texts if name not in ("runs_dir", "form")}
    wrong |= {"selectors": ("?",), "require": ("?",)}
    told = []
    for module, kind in (
        (run_options, run_options.RunOptions),
        (matrix_options, matrix_options.MatrixOptions),
    ):
        with pytest.raises(InvalidInput) as caught:
            module.read(kind(**wrong), library())  # type: ignore[attr-defined]
        told.append([str(p).replace("100000", "1000") for p in caught.value.problems])
    assert sorted(told[0]) == sorted(told[1]) and len(told[0]) >= 11


def test_what_is_asked_again_are_words_that_click_reads_as_they_were() -> None:
    typed = SharedOptions(**GIVEN)  # type: ignore[arg-type]
    with run.make_context("run", list(as_words(typed))) as context:
        read = {name: value for name, value in context.params.items() if name in SHARED}
    given = {**GIVEN, "script": str(Path("train.py").absolute())}
    left = OF_THIS_RUN | {"selectors", "keyword", "seed", BEHIND, "module"}
    assert {n: v for n, v in read.items() if n not in left} == {
        n: v for n, v in given.items() if n not in left
    }
