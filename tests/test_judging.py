"""Plan folders that ranks wrote on their own: what is damaged, missing or another rank's gives no verdict."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from chaoskit import codec, history, judging
from chaoskit.history import ArmEnded, Completed, Ended, Entered, Event, Finished, Identity, LeftOut, Started
from chaoskit.judge import condensing
from chaoskit.judging import judge_again
from chaoskit.model import Culprit, Operation, Outcome, Status, Workload
from chaoskit.plan import make_plan
from chaoskit.rank import joining, region
from chaoskit.rank.recorder import Recorder
from chaoskit.scenario import load_profile
from chaoskit.scenario import select as chosen

pytestmark = pytest.mark.timeout(300)
RANKS = 4


def write_rank(folder: Path, slot: int) -> None:
    joined = joining.join(str(folder / "plan.json"), RANKS, slot, str(folder))
    keeper, rank = Recorder.open(joined.keeper), Recorder.open(joined.rank)
    keeper.note(Started(1.0, slot, 100 + slot))
    rank.note(Identity(1.1, slot, slot, slot, RANKS, "host", 100 + slot, "x", "2", "127.0.0.1:1"))
    rank.note(Entered(1.2, slot, "all_reduce", "default", 1, 0, 1, 0, "", "", "", tuple(range(RANKS))))
    rank.note(Completed(1.3, slot, "all_reduce", "default", 1, 0, 1))
    rank.note(Finished(1.4, slot))
    keeper.note(Ended(1.5, slot, 0))
    for channels in (joined.rank, joined.keeper):
        os.close(channels.memfd)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A healthy arm of a program that says nothing of its result."""
    bare, strict = load_profile("torch-defaults"), load_profile("strict")
    plan = make_plan(
        chosen(["long-step"])[0], "control", profile=bare, hardened_profile=strict, seed=3, launcher="command"
    )
    plan = codec.load_plan(codec.dump_plan(plan))
    made = tmp_path / "arm"
    made.mkdir()
    (made / "plan.json").write_text(codec.dump_plan(plan))
    for slot in range(RANKS):
        write_rank(made, slot)
    return made


def test_what_is_whole_raises_no_doubt(folder: Path) -> None:
    assert joining.read_files(folder).doubts == []
    verdict = judge_again(folder)
    assert "cannot be judged" not in verdict.reason


def replaced(path: Path, body: bytes) -> None:
    path.write_bytes(body)


def directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "empty": lambda path: replaced(path, b""),
    "truncated": lambda path: os.truncate(path, 5000),
    "too long": lambda path: os.truncate(path, region.REGION_BYTES + 1),
    "random": lambda path: replaced(path, os.urandom(region.REGION_BYTES)),
    "zeros": lambda path: replaced(path, bytes(region.REGION_BYTES)),
    "directory": directory,
    "fifo": fifo,
    "another's": lambda path: shutil.copy(path.parent.parent / "rank2" / path.name, path),
}


@pytest.mark.parametrize("name", [joining.RANK_FILE, joining.KEEPER_FILE])
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_of_one_rank_is_inconclusive(folder: Path, damage: str, name: str) -> None:
    DAMAGE[damage](folder / "rank1" / name)
    verdict = judge_again(folder)
    assert verdict.status is Status.INCONCLUSIVE
    if (damage, name) != ("zeros", joining.KEEPER_FILE):
        assert "rank1" in verdict.reason or "rank 1" in verdict.reason


def test_folders_that_are_copies_of_another_rank_s_are_no_success(folder: Path) -> None:
    for copy in ("rank0", "rank1"):
        shutil.rmtree(folder / copy)
        shutil.copytree(folder / "rank2", folder / copy)
    verdict = judge_again(folder)
    assert (verdict.status, verdict.outcome) != (Status.PASS, Outcome.COMPLETED)
    assert verdict.status is Status.INCONCLUSIVE
    assert "written by rank 2" in verdict.reason


@pytest.mark.parametrize("name", ["rank²", "rank٣", "rank01", "rank", "rank-1", "ranks"])
def test_a_folder_whose_name_is_no_number_is_no_rank_s(folder: Path, name: str) -> None:
    before = judge_again(folder)
    shutil.copytree(folder / "rank0", folder / name)
    assert judge_again(folder) == before


def test_a_rank_that_died_before_it_could_write_is_no_damage(folder: Path) -> None:
    (folder / "rank1" / joining.RANK_FILE).write_bytes(bytes(region.REGION_BYTES))
    joined = joining._file(folder / "rank1" / joining.KEEPER_FILE)
    keeper = Recorder.open(region.Channels(joined, 0))
    keeper.note(Started(1.0, 1, 101))
    keeper.note(Ended(1.5, 1, -11))
    os.close(joined)
    assert joining.read_files(folder).doubts == []
    assert "not recorded" not in judge_again(folder).reason


# ---------------------------------------------------------------- a large history


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A healthy arm of 4 ranks with 3000 operations each, large for this test; the 5th of rank 2 differs."""
    monkeypatch.setattr(judging, "SURELY_SMALL", 0)
    monkeypatch.setattr(condensing, "LARGE", 1000)
    monkeypatch.setattr(condensing, "ROOM", condensing.Room(newest=800, unsettled=400, around=20, block=16))
    bare = load_profile("torch-defaults")
    plan = make_plan(chosen(["long-step"])[0], "control", profile=bare, hardened_profile=bare, seed=3)
    program = Workload("train", kind="module", target="train")
    plan = dataclasses.replace(plan, workload=program, injections=(), expected_result=None)
    made = tmp_path / "arm"
    made.mkdir()
    (made / "plan.json").write_text(codec.dump_plan(plan))
    events: list[Event] = []
    for slot in range(RANKS):
        events.append(Started(1.0, slot, 100 + slot))
        events.append(Identity(1.1, slot, slot, slot, RANKS, "host", 100 + slot, "x", "2", "127.0.0.1:1"))
        for seq in range(1, 3001):
            key = ("all_reduce", "default", seq, seq // 10, seq)
            mark = 7 if (slot, seq) == (2, 5) else 1
            events.append(
                Entered(seq + slot / 8, slot, *key, mark, "train.py:3", "4", "f", tuple(range(RANKS)))
            )
            events.append(Completed(seq + 0.9, slot, *key))
        events += [Finished(3002.0, slot), Ended(3003.0, slot, 0)]
    history.write(made / "history.jsonl", [*events, ArmEnded(3004.0, -1)])
    return made


def test_what_differed_early_in_a_large_history_is_found(large: Path) -> None:
    found = judging._read(large)
    assert len(found.all(Entered)) < 1500
    assert [e.count for e in found.all(LeftOut)] == [3000 - len(found.all(Entered)) // RANKS] * RANKS
    verdict = judge_again(large)
    assert verdict.outcome is Outcome.CORRUPTED
    assert (verdict.culprits, verdict.at) == ((Culprit("rank", "2"),), Operation("all_reduce", "default", 5))


def test_a_large_history_is_judged_as_when_it_is_small(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    condensed = judge_again(large)
    monkeypatch.setattr(condensing, "LARGE", 1_000_000)
    assert not judging._read(large).all(LeftOut)
    assert judge_again(large) == condensed


def test_a_large_history_of_an_earlier_version_is_judged_too(large: Path) -> None:
    verdict = judge_again(large)
    events = history.read(large / "history.jsonl")[0].events
    (large / "history.jsonl").write_text("".join(history.to_line(e) + "\n" for e in events))
    assert judge_again(large) == verdict


@pytest.mark.parametrize("damage", ["cut off", "a line is gone", "a line is corrupt"])
def test_a_damaged_large_history_is_inconclusive(large: Path, damage: str) -> None:
    lines = (large / "history.jsonl").read_text().splitlines()
    columns = [number for number, line in enumerate(lines) if '"Operations"' in line]
    if damage == "cut off":
        lines = [*lines[: columns[20]], lines[columns[20]][:500]]
    elif damage == "a line is gone":
        del lines[columns[5]]
    else:
        lines[columns[5]] = lines[columns[5]].replace("]", "", 1)
    (large / "history.jsonl").write_text("\n".join(lines))
    assert judge_again(large).status is Status.INCONCLUSIVE
