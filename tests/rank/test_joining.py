"""How a process that somebody else started finds where to write."""

from __future__ import annotations

import dataclasses
import os
import stat
from pathlib import Path

import pytest
from forked_ranks import make_plan

from chaoskit.history import Ended, Started
from chaoskit.model import RankPlan
from chaoskit.rank import joining, region
from chaoskit.rank.recorder import Recorder

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize(
    ("environment", "slot"),
    [
        ({"RANK": "3", "SLURM_PROCID": "1"}, 3),
        ({"SLURM_PROCID": "2"}, 2),
        ({"OMPI_COMM_WORLD_RANK": "0"}, 0),
        ({"RANK": "no"}, None),
        ({"RANK": "-1"}, None),
        ({}, None),
    ],
)
def test_the_launcher_says_which_rank_it_is(environment: dict[str, str], slot: int | None) -> None:
    assert joining.slot_of(environment) == slot


def test_without_an_offer_files_are_written_and_can_be_read(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text("{}")
    joined = joining.join(str(plan), 2, 1)
    assert joined.folder == str(tmp_path)
    recorder = Recorder.open(joined.keeper)
    recorder.note(Started(1.0, 1, 42))
    recorder.note(Ended(2.0, 1, -9))
    files = joining.read_files(tmp_path)
    ranks, keepers = files.ranks, files.keepers
    assert list(ranks) == list(keepers) == [1]
    assert files.doubts == []
    assert region.read_notes(keepers[1], 1)[0] == [Started(1.0, 1, 42), Ended(2.0, 1, -9)]
    assert region.read_events(ranks[1], 1) == []
    for channels in (joined.rank, joined.keeper):
        os.close(channels.memfd)


def test_another_folder_gets_a_copy_of_the_plan(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text('{"a": 1}')
    joined = joining.join(str(plan), 1, 0, str(tmp_path / "elsewhere"))
    assert (tmp_path / "elsewhere" / "plan.json").read_text() == '{"a": 1}'
    for channels in (joined.rank, joined.keeper):
        os.close(channels.memfd)


def test_the_runner_is_joined_live_where_it_can_be_reached(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{}")
    memfd = os.memfd_create("offered", os.MFD_CLOEXEC)
    reader, writer = os.pipe()
    try:
        os.truncate(memfd, 2 * 2 * region.REGION_BYTES)
        joining.offer(tmp_path, joining.Offer(os.getpid(), memfd, writer))
        joined = joining.join(str(tmp_path / "plan.json"), 2, 1)
        assert joined.folder == ""
        Recorder.open(joined.keeper).ring_doorbell()
        assert os.read(reader, 8) == b"!"
        Recorder.open(joined.rank)
        with region.map_region(memfd, 1) as memory:
            assert region.live(memory).pid == os.getpid()
        for fd in (joined.rank.memfd, joined.rank.doorbell):
            os.close(fd)
        joining.withdraw(tmp_path)
        joining.withdraw(tmp_path)
        assert not (tmp_path / joining.OFFER).exists()
    finally:
        for fd in (memfd, reader, writer):
            os.close(fd)


def test_the_plan_with_its_secrets_is_in_the_runners_memory_alone(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text("without")
    assert joining.plan_text(str(plan)) == "without"
    memory = os.memfd_create(joining.PLAN_MEMORY, os.MFD_CLOEXEC)
    other = os.memfd_create("something-else", os.MFD_CLOEXEC)
    try:
        for fd in (memory, other):
            os.write(fd, b"with")
        for fd, text in ((memory, "with"), (other, "without"), (-1, "without"), (9999, "without")):
            joining.offer(tmp_path, joining.Offer(os.getpid(), 0, 0, fd))
            assert joining.plan_text(str(plan)) == text
    finally:
        os.close(memory)
        os.close(other)
    assert stat.S_IMODE((tmp_path / joining.OFFER).stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"pid": 1, "memfd": 0, "doorbell": 0}', '{"pid": "x", "memfd": 0, "doorbell": 1}'],
)
def test_an_offer_that_cannot_be_taken_is_left_alone(tmp_path: Path, text: str) -> None:
    (tmp_path / "plan.json").write_text("{}")
    (tmp_path / joining.OFFER).write_text(text)
    joined = joining.join(str(tmp_path / "plan.json"), 2, 1)
    assert joined.folder == str(tmp_path)
    for channels in (joined.rank, joined.keeper):
        os.close(channels.memfd)


def test_a_gone_rank_lets_go_who_is_held_for_it(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{}")
    joined = joining.join(str(tmp_path / "plan.json"), 1, 0)
    Recorder.open(joined.rank)
    with region.map_region(joined.rank.memfd, 0) as memory:
        joining.release_all(memory)
        words = memoryview(memory)[: region.HEADER_BYTES].cast("Q")
        assert words[region.Word.RELEASED] == 2**64 - 1
        words.release()
    for channels in (joined.rank, joined.keeper):
        os.close(channels.memfd)


def test_how_ranks_share_gpus_comes_from_the_plan_whatever_the_launcher_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = RankPlan(0, (("NCCL_HOSTID", "chaoskit-0"), ("RANK", "0"), ("NCCL_NET", "Socket")))
    plan = dataclasses.replace(make_plan(), ranks=(told,))
    for name, value in (("NCCL_HOSTID", "other"), ("RANK", "7")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("NCCL_NET", "")
    joining.set_environment(plan, 0)
    assert (os.environ["NCCL_HOSTID"], os.environ["NCCL_NET"]) == ("chaoskit-0", "Socket")
    assert os.environ["RANK"] == "7", "the rest is the launcher's"
