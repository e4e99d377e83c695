"""Programs of the user's in a scenario file: how they are said, and what is wrong with them."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import library
import pytest

from chaoskit.errors import InvalidInput
from chaoskit.model import Scenario, Workload
from chaoskit.scenario import dump, parse
from chaoskit.scenario.json_schema import scenario_schema
from chaoskit.scenario.programs import command, module, script
from chaoskit.scenario.values import Wrong


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("this is never read(")
    (tmp_path / "sub").mkdir()
    return tmp_path


def with_workload(text: str, folder: Path) -> Scenario:
    plain = dump(library.scenarios()[0])
    lines = [f"workload: {text}" if line.startswith("workload:") else line for line in plain.splitlines()]
    return parse("\n".join(lines), str(folder / "scenario.yaml"))


@pytest.mark.parametrize(
    ("text", "workload"),
    [
        ("{script: train.py}", Workload("train.py", kind="script", target="{folder}/train.py")),
        (
            "{script: ./sub/../train.py, args: [--steps, 20, --lr, 0.1, '{scratch}/x']}",
            Workload(
                "train.py",
                kind="script",
                target="{folder}/train.py",
                args=("--steps", "20", "--lr", "0.1", "{scratch}/x"),
            ),
        ),
        ("{module: pkg.train, args: []}", Workload("pkg.train", kind="module", target="pkg.train")),
        (
            "{command: [/opt/bin/torchrun, --nproc-per-node, 4, train.py]}",
            Workload(
                "torchrun", kind="command", args=("/opt/bin/torchrun", "--nproc-per-node", "4", "train.py")
            ),
        ),
    ],
)
def test_a_program_is_read_as_seen_from_the_file_and_written_back(
    text: str, workload: Workload, folder: Path
) -> None:
    wanted = dataclasses.replace(workload, target=workload.target.replace("{folder}", str(folder)))
    scenario = with_workload(text, folder)
    assert scenario.workload == wanted
    assert dataclasses.replace(parse(dump(scenario)), file=scenario.file) == scenario


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            "{script: trian.py}",
            "workload.script 'trian.py' does not exist (looked for",
            "did you mean train.py?",
        ),
        ("{script: nowhere/t.py}", "does not exist", "folder of the scenario file"),
        ("{script: sub}", "is no file", "Python file"),
        ("{script: 5}", "workload.script must be a text, is 5", ""),
        ("{script: train.py, arg: []}", "workload.arg is unknown here", "did you mean args?"),
        ("{script: train.py, args: --steps 20}", "must be a list", "write [--steps, 20]"),
        ("{script: train.py, args: [true]}", "item 1 must be a text or a number, is true", "quotes"),
        ("{script: train.py, module: a}", "names two programs: script and module", ""),
        ("{module: pkg/train}", "must be the dotted name of a module", "pkg.train"),
        ("{module: train.py}", "must be the dotted name of a module", "as a script"),
        ("{command: torchrun train.py}", "workload.command must be a list", "write [torchrun, train.py]"),
        ("{command: []}", "names no program", "torchrun"),
        ("{command: [a], args: []}", "workload.args is unknown here", "stand in the list"),
    ],
)
def test_each_mistake_is_one_problem_with_a_hint(text: str, message: str, hint: str, folder: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        with_workload(text, folder)
    (problem,) = caught.value.problems
    assert message in problem.message
    assert hint in problem.hint
    assert problem.line > 0


def test_a_module_called_like_a_built_in_workload_is_not_taken_for_it(folder: Path) -> None:
    scenario = with_workload("{module: subgroups}", folder)  # with an operation that subgroups never calls
    assert not scenario.workload.is_built_in


def test_the_command_line_says_the_same(folder: Path) -> None:
    assert script(folder / "train.py", ["-x"]).args == ("-x",)
    assert script(os.path.relpath(folder / "train.py")).target == str(folder / "train.py")
    assert (module("a.b").target, command(["srun", "x"]).args) == ("a.b", ("srun", "x"))
    with pytest.raises(Wrong, match="does not exist"):
        script("no.py")


def test_the_json_schema_knows_the_three_kinds() -> None:
    kinds = scenario_schema()["properties"]["workload"]["anyOf"]
    assert {"script", "module", "command"} <= {key for kind in kinds for key in kind.get("properties", {})}
