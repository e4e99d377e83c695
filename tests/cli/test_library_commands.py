"""The commands that tell of the library and of files: list, show, validate, new, profiles, schema."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import library
import pytest

from chaoskit.cli import main, schema
from chaoskit.cli.show import moment
from chaoskit.model import Phase, ScenarioResult, Trigger, Verdict
from chaoskit.scenario import load, profile_names
from chaoskit.scenario.listing import FAMILIES, library_files

Captured = pytest.CaptureFixture[str]


def said(capsys: Captured, *arguments: str, code: int = 0) -> str:
    assert main(list(arguments)) == code, capsys.readouterr().err
    captured = capsys.readouterr()
    return captured.out if code == 0 else captured.err


def test_list_as_json(capsys: Captured) -> None:
    found = json.loads(said(capsys, "list", "--format", "json"))
    assert list(found) == ["scenarios"]
    assert [entry["name"] for entry in found["scenarios"]] == [s.name for s in library.scenarios()]
    assert found["scenarios"][0]["name"] == "rank-killed-mid-all-reduce"
    for entry in found["scenarios"]:
        assert list(entry) == ["name", "family", "tags", "summary", "requires", "backends"]
    families = list(dict.fromkeys(entry["family"] for entry in found["scenarios"]))
    assert families == list(FAMILIES)


def test_list_only_what_matches(capsys: Captured) -> None:
    found = json.loads(said(capsys, "list", "-k", "memory and not cgroup", "--format", "json"))["scenarios"]
    assert found
    assert all("memory" in (e["name"], e["family"], *e["tags"]) or "memory" in e["name"] for e in found)
    assert not any("cgroup" in e["name"] for e in found)


@pytest.mark.parametrize("expression", ["", "not", "(a", "no-scenario-is-called-so"])
def test_list_of_nothing_is_wrong_usage(expression: str, capsys: Captured) -> None:
    assert main(["list", "-k", expression]) == 64
    assert "-k" in capsys.readouterr().err


def test_list_for_people(capsys: Captured) -> None:
    lines = said(capsys, "list").splitlines()
    assert lines[0] == "process"
    assert lines[1].split()[0] == "rank-killed-mid-all-reduce"


@pytest.mark.parametrize("name", [s.name for s in library.scenarios()])
def test_show_tells_every_scenario(name: str, capsys: Captured) -> None:
    text = said(capsys, "show", name)
    assert text.startswith(name)
    for title in ("What runs", "What happens", "What must hold"):
        assert f"\n{title}\n" in text
    assert all(len(line) <= 110 or " " not in line.strip() for line in text.splitlines())


@pytest.mark.parametrize(
    ("when", "words"),
    [
        (Trigger("forward", module="layer.2", nth=3), "before its 3rd forward of layer.2"),
        (Trigger("backward", module="Linear", phase=Phase.AFTER), "after its 1st backward of Linear"),
        (Trigger("loader", nth=5), "before its 5th batch of a DataLoader"),
        (Trigger("write", path="*.pt"), "at the first byte of a file *.pt"),
        (Trigger("write", path="*.pt", nth=2), "at the first byte of the 2nd file *.pt"),
    ],
)
def test_show_puts_every_moment_in_words(when: Trigger, words: str) -> None:
    assert moment(when) == words


def test_show_tells_a_program_as_one_would_type_it(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "train.py").write_text("")
    text = said(capsys, "new", "mine").replace(
        "workload: ddp-train", "workload: {script: train.py, args: [--name, 'a b']}"
    )
    (tmp_path / "mine.yaml").write_text(text)
    shown = " ".join(said(capsys, "show", str(tmp_path / "mine.yaml")).split())
    assert f"The script `{tmp_path}/train.py --name 'a b'` on 4 gloo ranks" in shown
    command = text.replace("{script: train.py, args: [--name, 'a b']}", "{command: [torchrun, train.py]}")
    (tmp_path / "mine.yaml").write_text(command)
    shown = " ".join(said(capsys, "show", str(tmp_path / "mine.yaml")).split())
    assert "The command `torchrun train.py`, which starts 4 gloo ranks" in shown


def test_show_tells_when_where_and_what(capsys: Captured) -> None:
    text = " ".join(said(capsys, "show", "rank-killed-mid-all-reduce").split())
    assert "On rank 1, in the middle of its 8th all_reduce: kill (signal SIGKILL)." in text
    assert "https://github.com/NVIDIA/nccl/issues/795" in text
    assert "control (profile torch-defaults): failed on gloo." in text
    assert "rank 1 is blamed (killed)" in text


def test_show_takes_files_and_several(tmp_path: Path, capsys: Captured) -> None:
    said(capsys, "new", "mine", "--output", str(tmp_path / "mine.yaml"))
    text = said(capsys, "show", str(tmp_path / "mine.yaml"), "rank-stopped")
    assert "mine (custom)" in text
    assert "rank-stopped (process)" in text


def test_new_writes_a_scenario_that_is_good(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(said(capsys, "new", "mine"))
    (scenario,) = load([file])
    assert scenario.name == "mine"
    assert said(capsys, "validate", str(file)) == f"{file}: good\n"


def test_new_overwrites_nothing(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("precious")
    assert "exists already" in said(capsys, "new", "-o", str(file), code=64)
    assert file.read_text() == "precious"
    assert "cannot be written" in said(capsys, "new", "-o", str(tmp_path / "no" / "x.yaml"), code=64)
    assert "must be a name" in said(capsys, "new", "Not A Name", code=64)
    os.symlink(tmp_path / "target", tmp_path / "link.yaml")
    assert "exists already" in said(capsys, "new", "-o", str(tmp_path / "link.yaml"), code=64)


def test_new_names_every_fault(capsys: Captured) -> None:
    from chaoskit import faults

    text = said(capsys, "new")
    assert [name for name in faults.REGISTRY.names() if name not in text] == []


def test_validate_the_library_and_the_profiles(capsys: Captured) -> None:
    from chaoskit.scenario.profile_file import BUILT_IN

    files = [str(f) for f in (*library_files(), *BUILT_IN.glob("*.yaml")) if f.stem != "torch-defaults"]
    assert said(capsys, "validate", *files).count(": good\n") == len(files)


def test_validate_tells_all_problems_of_all_files_at_once(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "a.yaml").write_text("name: a\nsummry: x\n")
    (tmp_path / "b.yaml").write_text("name: b\nguards: {timeout: {}}\n")
    (tmp_path / "c.yaml").write_bytes(b"\xff")
    text = said(
        capsys,
        "validate",
        *(str(tmp_path / n) for n in ("a.yaml", "b.yaml", "c.yaml", "d.yaml")),
        str(tmp_path),
        code=64,
    )
    for part in (
        "a.yaml:2: unknown key `summry`",
        "b.yaml:2: there is no guard `timeout`",
        "c.yaml:1: not UTF-8 text",
        "d.yaml: no such file",
        f"{tmp_path}: a directory",
    ):
        assert part in text


def test_profiles(capsys: Captured) -> None:
    text = said(capsys, "profiles")
    assert [n for n in profile_names() if n not in text] == []
    found = json.loads(said(capsys, "profiles", "--format", "json"))["profiles"]
    assert [p["name"] for p in found] == list(profile_names())
    strict = said(capsys, "profiles", "show", "strict")
    assert "collective: 120s" in strict
    assert "exit 82" in strict
    assert json.loads(said(capsys, "profiles", "show", "strict", "--format", "json"))["name"] == "strict"
    assert "PYTHONFAULTHANDLER=1" in said(capsys, "profiles", "show", "folklore")


def test_the_schemas_name_every_fault_and_guard(capsys: Captured) -> None:
    from chaoskit import faults, guards

    scenario = json.loads(said(capsys, "schema", "scenario"))
    items = scenario["properties"]["faults"]["items"]["oneOf"]
    assert [next(iter(item["properties"])) for item in items] == faults.REGISTRY.names()
    assert set(scenario["required"]) == {"name", "summary", "workload", "arms"}
    profile = json.loads(said(capsys, "schema", "profile"))
    assert list(profile["properties"]["guards"]["properties"]) == guards.REGISTRY.names()


def conforms(value: Any, rule: dict[str, Any], root: dict[str, Any]) -> bool:
    """A small part of JSON Schema: what chaoskit's own schemas use."""
    if "$ref" in rule:
        return conforms(value, root["$defs"][rule["$ref"].rsplit("/", 1)[1]], root)
    for word, every in (("anyOf", any), ("oneOf", any)):
        if word in rule and not every(conforms(value, one, root) for one in rule[word]):
            return False
    if "enum" in rule and value not in rule["enum"]:
        return False
    if "const" in rule and value != rule["const"]:
        return False
    types = {
        "object": dict,
        "array": list,
        "string": str,
        "integer": int,
        "number": (int, float),
        "boolean": bool,
        "null": type(None),
    }
    wanted = rule.get("type", list(types))
    if not any(isinstance(value, types[t]) for t in ([wanted] if isinstance(wanted, str) else wanted)):  # type: ignore[arg-type]
        return False
    if isinstance(value, dict):
        known, rest = rule.get("properties", {}), rule.get("additionalProperties", True)
        if not set(rule.get("required", ())) <= value.keys():
            return False
        for key, inner in value.items():
            one = known.get(key, rest)
            if one is False or (isinstance(one, dict) and not conforms(inner, one, root)):
                return False
    if isinstance(value, list) and "items" in rule:
        return all(conforms(item, rule["items"], root) for item in value)
    return True


def test_the_library_conforms_to_its_schemas(capsys: Captured) -> None:
    from chaoskit.scenario.profile_file import BUILT_IN
    from chaoskit.scenario.source import read_document

    scenario = json.loads(said(capsys, "schema", "scenario"))
    profile = json.loads(said(capsys, "schema", "profile"))
    for file in library_files():
        assert conforms(read_document(file).data, scenario, scenario), file
    for file in BUILT_IN.glob("*.yaml"):
        assert conforms(read_document(file).data, profile, profile), file
    assert not conforms({"name": "x"}, scenario, scenario)


def test_the_output_of_a_run_conforms_to_its_schema(capsys: Captured) -> None:
    from chaoskit.model import Culprit, Kind, Operation, Outcome, RankEnd, Result, Status
    from chaoskit.reports import json_output
    from chaoskit.reports.judged import Judged

    verdict = Verdict(
        "s",
        "control",
        1,
        1,
        "gloo",
        "strict",
        Status.PASS,
        "why",
        Outcome.FAILED,
        Kind.KILLED,
        True,
        2.0,
        2.0,
        0.1,
        (Culprit("rank", "1"),),
        (0, 2),
        ranks=(RankEnd(1, -9, 0.0, Operation("all_reduce", "default", 8)),),
    )
    result = ScenarioResult("s", "gloo", Result.HELD, "why", (verdict,))
    output = json_output.document(Judged(Path("runs/x"), 7, "2.13.0", (result,), 1.0))
    rule = json.loads(said(capsys, "schema", "output"))
    assert conforms(output, rule, rule)
    assert set(rule["required"]) == set(rule["properties"]) == output.keys()
    assert (
        set(schema.output_schema()["properties"]["verdicts"]["items"]["required"])
        <= output["verdicts"][0].keys()
    )
