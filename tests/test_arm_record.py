"""What is read of an arm's folder, whole and damaged: never an exception, always a word about it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import html_arms
import pytest

from chaoskit import arm_record, codec, recorded
from chaoskit.model import Status


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "plan.json").write_text(codec.dump_plan(html_arms.plan()))
    recorded.write(tmp_path / "history.jsonl", recorded.gathered(html_arms.events()))
    for slot in range(2):
        rank = tmp_path / f"rank{slot}"
        rank.mkdir()
        (rank / "stderr.log").write_text("loading\nTraceback: it broke\n")
    (tmp_path / "rank0" / "stack.json").write_text(
        json.dumps({"by": "py-spy", "threads": [{"main": True, "frames": ["main (train.py:3)"]}]})
    )
    (tmp_path / "launcher").mkdir()
    (tmp_path / "launcher" / "stderr.log").write_text("rank 1 failed\n")
    return tmp_path


def test_a_whole_arm_is_read_without_problems(folder: Path) -> None:
    found = arm_record.read(folder, html_arms.VERDICT)
    assert found.problems == ()
    assert found.plan == html_arms.plan()
    assert found.recorded.operations == 79
    assert found.output["rank 1"][-1] == "stderr: Traceback: it broke"
    assert found.output["launcher"] == ("stderr: rank 1 failed",)
    assert [bool(f.threads) for f in found.findings] == [True, False]


@pytest.mark.parametrize("name", ["plan.json", "history.jsonl"])
@pytest.mark.parametrize("damage", ["missing", "cut", "garbage", "folder"])
def test_what_is_damaged_is_said_and_the_rest_is_read(folder: Path, name: str, damage: str) -> None:
    path = folder / name
    whole = path.read_bytes()
    path.unlink()
    match damage:
        case "cut":
            path.write_bytes(whole[: len(whole) * 2 // 3])
        case "garbage":
            path.write_bytes(b'\xff\x00{"kind":' * 50)
        case "folder":
            path.mkdir()
    found = arm_record.read(folder, html_arms.VERDICT)
    assert found.problems
    assert (found.plan is None) == (name == "plan.json")
    assert len(found.findings) == 2
    if name == "plan.json" or damage == "cut":
        assert found.recorded.rows


def test_many_problems_are_counted(folder: Path) -> None:
    (folder / "history.jsonl").write_text("nonsense\n" * 500)
    found = arm_record.read(folder, html_arms.VERDICT)
    assert len(found.problems) == arm_record.PROBLEMS_MAX + 1
    assert "480 more" in found.problems[-1]


def test_a_skipped_arm_has_no_history_and_that_is_no_problem(folder: Path) -> None:
    (folder / "history.jsonl").unlink()
    skipped = dataclasses.replace(html_arms.VERDICT, status=Status.SKIPPED)
    assert arm_record.read(folder, skipped).problems == ()


def test_a_folder_that_is_not_there_gives_a_record(tmp_path: Path) -> None:
    found = arm_record.read(tmp_path / "gone", html_arms.VERDICT)
    assert len(found.problems) == 2
    assert not found.recorded.rows
