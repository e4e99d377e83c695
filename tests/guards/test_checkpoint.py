"""A checkpoint is the old one or the new one, whole, whenever the process is killed; and the job saves and
loads as one."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from guards import killed
from guards.job import Gate, start

from chaoskit import guards
from chaoskit.guards import CheckpointFailed, atomic_file, load_checkpoint, save_checkpoint
from chaoskit.guards.checkpoint import Checkpoint, atomically
from chaoskit.guards.progress_watchdog import ProgressWatchdog

PLAIN = torch.save
State = dict[str, torch.Tensor]


def state(of: int) -> State:
    return {f"weight{n}": torch.full((700,), float(of)) for n in range(4)}


def content(path: Path) -> float:
    """Which state ``path`` holds, whole; raises where it is broken."""
    loaded: State = torch.load(path)
    values = {value for tensor in loaded.values() for value in tensor.tolist()}
    assert len(loaded) == 4 and len(values) == 1
    return float(values.pop())


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A file that holds state 1, in a folder of its own."""
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    PLAIN(state(1), folder / "model.pt")
    return folder / "model.pt"


def saving(path: Path, save: Callable[..., None]) -> Callable[[], None]:
    new = state(2)
    return lambda: save(new, path)


# ---- killed


@pytest.mark.skipif(not killed.SUPPORTED, reason="follows system calls on x86_64 only")
@pytest.mark.timeout(300)
def test_killed_at_every_change_of_a_file_the_old_or_the_new_one_loads(saved: Path) -> None:
    act, found, calls = saving(saved, atomically(PLAIN)), [], []
    for number in range(1, 1000):
        call = killed.at_change(act, number)
        found.append(content(saved))
        if call is None:
            break
        calls.append(call)
    # All before the rename is the old one, all after it the new one; every kind of change was met.
    assert found == sorted(found)
    assert found[calls.index("rename")] == 1.0
    assert set(found[calls.index("rename") + 1 :]) == {2.0}
    assert {"openat", "write", "fsync", "rename"} <= set(calls)
    assert len(calls) > 10
    print(f"{len(calls)} boundaries: {calls}")


@pytest.mark.timeout(300)
def test_killed_in_the_middle_of_a_write_the_old_one_loads(saved: Path) -> None:
    act, size = saving(saved, atomically(PLAIN)), saved.stat().st_size
    for limit in range(0, size + 1, size // 40):
        was_killed = killed.at_byte(act, limit)
        assert was_killed == (limit < size)
        assert content(saved) == (1.0 if was_killed else 2.0)


@pytest.mark.skipif(not killed.SUPPORTED, reason="follows system calls on x86_64 only")
def test_without_it_a_kill_breaks_the_checkpoint(saved: Path) -> None:
    act, size = saving(saved, PLAIN), saved.stat().st_size
    assert killed.at_byte(act, size // 2)
    with pytest.raises(Exception, match=r"."):
        content(saved)


@pytest.mark.skipif(not killed.SUPPORTED, reason="follows system calls on x86_64 only")
def test_what_a_kill_leaves_is_told_apart_ignored_and_removed(saved: Path) -> None:
    assert killed.at_byte(saving(saved, atomically(PLAIN)), 1000)
    left = [name for name in os.listdir(saved.parent) if name != "model.pt"]
    assert len(left) == 1
    assert atomic_file.is_temporary(left[0])
    assert list(saved.parent.glob("*.pt")) == [saved]
    assert not killed.at_byte(saving(saved, atomically(PLAIN)), 10**9)  # the next save, in a new process
    assert os.listdir(saved.parent) == ["model.pt"]


def test_what_is_being_written_is_not_removed(saved: Path) -> None:
    with atomic_file.replacing(str(saved)) as temporary:
        assert atomic_file.clean(str(saved.parent)) == []
        PLAIN(state(2), temporary)
    assert content(saved) == 2.0


def test_of_another_host_only_old_ones_are_removed(saved: Path) -> None:
    fresh, old = (saved.parent / f"model.chaoskit-tmp-00000000-1-{n}" for n in (1, 2))
    for path in (fresh, old):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 2 * 86400,) * 2)
    assert atomic_file.clean(str(saved.parent)) == [str(old)]


# ---- the file itself


def test_the_content_is_the_same_to_the_byte(tmp_path: Path) -> None:
    for name in ("model.pt", "epoch.1.pt", "bare"):
        PLAIN(state(3), tmp_path / name)
        before = (tmp_path / name).read_bytes()
        atomically(PLAIN)(state(3), tmp_path / name)
        assert (tmp_path / name).read_bytes() == before


@pytest.mark.parametrize("name", ["/a/model.pt", "/a/epoch.1.pt", "/a/bare", "/a.b/bare", "/a/.hidden"])
def test_a_temporary_name_tells_the_final_one(name: str) -> None:
    temporary = atomic_file.temporary_name(name)
    assert atomic_file.is_temporary(os.path.basename(temporary))
    assert atomic_file.final_name(temporary) == name
    assert atomic_file.final_name(name) == name


def test_permissions_and_links_stay(saved: Path) -> None:
    saved.chmod(0o640)
    link = saved.with_name("last.pt")
    link.symlink_to(saved)
    atomically(PLAIN)(state(2), link)
    assert link.is_symlink()
    assert content(saved) == 2.0
    assert stat.S_IMODE(saved.stat().st_mode) == 0o640


def test_a_failed_save_leaves_the_old_one_and_nothing_else(saved: Path) -> None:
    with pytest.raises((AttributeError, Exception), match=r"local object|pickle"):
        atomically(PLAIN)({"a": torch.ones(9), "b": lambda: 0}, saved)
    assert os.listdir(saved.parent) == ["model.pt"]
    assert content(saved) == 1.0


def test_what_cannot_be_replaced_is_written_as_ever(tmp_path: Path) -> None:
    atomically(PLAIN)(state(1), "/dev/null")
    assert not Path("/dev/null").is_file()
    with open(tmp_path / "given", "wb") as file:
        atomically(PLAIN)(state(1), file)
    assert content(tmp_path / "given") == 1.0
    with pytest.raises(RuntimeError, match=r"Parent directory .* does not exist"):
        atomically(PLAIN)(state(1), tmp_path / "no" / "model.pt")


def test_the_guard_makes_every_save_atomic(saved: Path) -> None:
    def run() -> None:
        with pytest.raises((AttributeError, Exception), match=r"local object|pickle"):
            torch.save({"a": torch.ones(9), "b": lambda: 0}, saved)
        assert content(saved) == 1.0
        torch.save(state(2), saved)

    (ended,) = start(run, Checkpoint(), ranks=1).wait()
    assert ended.code == 0, ended.err
    assert "guard checkpoint: armed (torch.save=atomic, barrier_timeout=600s)" in ended.err
    assert content(saved) == 2.0


# ---- the whole job


def job(act: Callable[[int], object]) -> Callable[[], None]:
    def run() -> None:
        dist.init_process_group("gloo")
        act(dist.get_rank())
        dist.barrier()
        dist.destroy_process_group()

    return run


def failing(act: Callable[[int], object], rank: int, says: str) -> Callable[[], None]:
    def caught(me: int) -> None:
        with pytest.raises(CheckpointFailed) as raised:
            act(me)
        assert raised.value.rank == rank
        assert says in str(raised.value), str(raised.value)

    return job(caught)


def test_rank_0_alone_saves_and_all_go_on_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"

    def act(me: int) -> None:
        made = []
        for of in (1, 2, 3):
            save_checkpoint(lambda of=of: made.append(of) or state(of), path)
            assert content(path) >= of  # it is there on whatever rank returns first
        assert made == ([1, 2, 3] if me == 0 else [])
        assert content(path) == 3.0

    ended = start(job(act), ranks=3).wait()
    assert [rank.code for rank in ended] == [0, 0, 0], ended
    assert os.listdir(tmp_path) == ["model.pt"]


def test_a_failed_save_is_raised_on_all_ranks(tmp_path: Path) -> None:
    def act(me: int) -> None:
        save_checkpoint(state(1), tmp_path / "no" / "model.pt")

    ended = start(failing(act, 0, "rank 0 could not save it: RuntimeError: Parent directory"), ranks=3).wait()
    assert [rank.code for rank in ended] == [0, 0, 0], ended


def test_a_rank_that_does_not_come_is_named(tmp_path: Path) -> None:
    heard = Gate()

    def run() -> None:
        dist.init_process_group("gloo")
        if dist.get_rank() == 1:
            threading.Event().wait()
        with pytest.raises(CheckpointFailed, match=r"rank 1 did not come to it within 4 s") as raised:
            save_checkpoint(state(1), tmp_path / "model.pt", timeout_s=4)
        assert raised.value.rank == 1
        if dist.get_rank() == 2:
            heard.open()
        else:
            heard.wait()  # the store is this rank's

    first, _, third = start(run, ranks=3).wait(kill=[1])
    assert (first.code, third.code) == (0, 0), (first, third)
    assert os.listdir(tmp_path) == []


def test_a_save_that_never_ends_is_raised_on_the_others(tmp_path: Path) -> None:
    def act() -> None:
        dist.init_process_group("gloo")
        save_checkpoint(lambda: threading.Event().wait(), tmp_path / "model.pt", timeout_s=4)

    _, second = start(act, ranks=2).wait(kill=[0])
    assert second.code == 1
    assert "rank 0 has not saved it within 4 s" in second.err


def test_a_long_save_is_a_declared_phase(tmp_path: Path) -> None:
    def act(me: int) -> None:
        guards.step_done()
        save_checkpoint(lambda: time.sleep(5) or state(1), tmp_path / "model.pt", timeout_s=40.0)

    watchdog = ProgressWatchdog(timeout_s=4.0, start_s=40.0)
    ended = start(job(act), watchdog).wait()
    assert [rank.code for rank in ended] == [0, 0], ended


def test_a_subgroup_saves_by_itself(tmp_path: Path) -> None:
    def act(me: int) -> None:
        groups = [dist.new_group([0, 1]), dist.new_group([2])]
        path = tmp_path / f"part{me // 2}.pt"
        save_checkpoint(state(me), path, group=groups[me // 2])
        assert content(path) == me // 2 * 2

    ended = start(job(act), ranks=3).wait()
    assert [rank.code for rank in ended] == [0, 0, 0], ended


def test_without_a_job_it_only_saves_and_loads(tmp_path: Path) -> None:
    assert load_checkpoint(tmp_path / "model.pt", missing_ok=True) is None
    save_checkpoint(torch.nn.Linear(2, 2).state_dict(), tmp_path / "model.pt")
    assert set(load_checkpoint(tmp_path / "model.pt")) == {"weight", "bias"}
    with pytest.raises(CheckpointFailed, match="no rank sees it"):
        load_checkpoint(tmp_path / "other.pt")


def loading(where: Callable[[int], Path], **options: Any) -> Callable[[int], object]:
    return lambda me: load_checkpoint(where(me), **options)


def test_all_ranks_load_or_none(tmp_path: Path) -> None:
    good, broken = tmp_path / "good.pt", tmp_path / "broken.pt"
    PLAIN(state(1), good)
    broken.write_bytes(good.read_bytes()[:900])

    def act(me: int) -> None:
        assert set(load_checkpoint(good)) == set(state(1))
        assert load_checkpoint(tmp_path / "none.pt", missing_ok=True) is None
        for where, says in (
            (lambda me: broken if me == 1 else good, "rank 1 could not load it"),
            (lambda me: tmp_path / "none.pt" if me == 1 else good, "1 of 3 ranks do not see it"),
        ):
            with pytest.raises(CheckpointFailed, match=says):
                load_checkpoint(where(me), missing_ok=True)

    ended = start(job(act), ranks=3).wait()
    assert [rank.code for rank in ended] == [0, 0, 0], ended
