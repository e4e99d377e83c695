"""The faults of the machine do to real gloo ranks what their documentation says, without any guard."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

import pytest
from forked_ranks import Run, run_arm

from chaoskit import capabilities
from chaoskit.faults.disk_full import DiskFull
from chaoskit.faults.loader_worker_killed import LoaderWorkerKilled
from chaoskit.faults.loader_worker_stuck import LoaderWorkerStuck
from chaoskit.faults.open_files import OpenFiles
from chaoskit.faults.shm_full import ShmFull
from chaoskit.faults.slow_filesystem import SlowFilesystem
from chaoskit.history import Injected, Raised, Reported, Stepped
from chaoskit.model import Trigger

pytestmark = pytest.mark.timeout(300)
AT = Trigger("step", step=3)
needs_mounts = pytest.mark.skipif(
    not capabilities.find("mount-namespaces").available, reason="no mount namespace can be made here"
)
needs_notify = pytest.mark.skipif(
    not capabilities.find("seccomp-notify").available, reason="no system calls can be held up here"
)


def load(fault: object, **settings: object) -> Run:
    return run_arm((fault, AT), workload="loader-train", settings=settings, rest_s=60)


def save(fault: object, folder: Path, when: Trigger = AT, rest_s: float = 60.0) -> Run:
    """Two ranks that save checkpoints to ``folder``."""
    scratch = {slot: {"CHAOSKIT_SCRATCH": str(folder)} for slot in (0, 1)}
    return run_arm((fault, when), workload="checkpoint-train", env=scratch, rest_s=rest_s)


def raised(run: Run, slot: int) -> str:
    return run.of(Raised, slot)[0].message


def completed(run: Run) -> bool:
    return set(run.exit_codes.values()) == {0} and len(run.of(Reported)) == len(run.exit_codes)


# ---------------------------------------------------------------- workers of a DataLoader


@pytest.mark.parametrize(("name", "says"), [("SIGKILL", "Killed"), ("SIGSEGV", "Segmentation fault")])
def test_a_killed_worker_is_an_exception_in_its_rank(name: str, says: str) -> None:
    run = load(LoaderWorkerKilled((1,), 0, name))
    assert run.exit_codes == {0: 1, 1: 1}
    assert "DataLoader worker (pid" in raised(run, 1)
    assert says in raised(run, 1)
    assert run.of(Raised, 0)[0].category == "peer_lost"


@pytest.mark.nightly
def test_where_that_is_caught_on_one_rank_all_wait() -> None:
    run = run_arm(
        (LoaderWorkerKilled((1,)), AT), workload="loader-train", settings={"goes_on": True}, rest_s=8
    )
    assert run.exit_codes == {0: None, 1: None}
    assert "epoch cut short: DataLoader worker" in run.output[1]


def test_a_stuck_worker_holds_up_all() -> None:
    run = run_arm((LoaderWorkerStuck((1,), 1), AT), workload="loader-train", rest_s=4)
    assert run.exit_codes == {0: None, 1: None}
    assert not run.stopped, "the rank itself runs"
    assert len(run.of(Injected)) == 1


def test_a_worker_that_is_stuck_for_a_while_only_delays() -> None:
    run = load(LoaderWorkerStuck((1,), 0, 0.5))
    assert completed(run)
    (injected,) = run.of(Injected)
    times = {event.step: event.t_s for event in run.of(Stepped, 0)}
    # It fires after step 3; the batch of step 9 is of worker 0, and more than it has made in advance.
    assert times[9] - injected.t_s >= 0.5


@pytest.mark.nightly
def test_without_such_a_worker_the_rank_says_so() -> None:
    run = load(LoaderWorkerKilled((1,), 2))
    assert "no DataLoader of this rank has a worker 2" in raised(run, 1)


# ---------------------------------------------------------------- memory, disk, open files


@pytest.mark.nightly
@needs_mounts
def test_full_shared_memory_is_an_error_in_the_worker() -> None:
    run = load(ShmFull((1,)))
    assert run.exit_codes == {0: 1, 1: 1}
    assert "DataLoader worker" in raised(run, 1)


@needs_mounts
def test_full_shared_memory_is_a_bus_error_where_pages_are_written() -> None:
    run = load(ShmFull((1,)), cache=True)
    assert run.exit_codes == {0: 1, 1: 1}
    # A bus error, mostly: a worker that is further ahead cannot make its next file, and torch does not always
    # see the signal, or is just being handed a batch by the worker that dies.
    (error,) = run.of(Raised, 1)
    assert "DataLoader worker" in error.message or any("dataloader.py" in line for line in error.stack)


@needs_mounts
def test_shared_memory_is_full_for_that_rank_only() -> None:
    files = set(os.listdir("/dev/shm"))
    run = load(ShmFull((1,), 16 << 20), cache=True, persistent=False)
    assert completed(run)
    left = set(os.listdir("/dev/shm")) - files  # other runs of these tests come and go as well
    until_s = time.monotonic() + 20
    while left and time.monotonic() < until_s:
        time.sleep(0.05)
        left &= set(os.listdir("/dev/shm"))
    assert not left


@needs_mounts
def test_a_full_disk_is_an_error_of_the_save(tmp_path: Path) -> None:
    run = save(DiskFull((0,), "{scratch}", 65536), tmp_path)
    assert run.exit_codes == {0: 1, 1: 1}
    assert "inline_container" in raised(run, 0)  # torch's writer; the text differs with where it hits the end
    assert not list(tmp_path.iterdir()), "nobody else sees that disk"


@needs_mounts
def test_a_disk_with_room_is_none(tmp_path: Path) -> None:
    assert completed(save(DiskFull((0,), "{scratch}", 4 << 20), tmp_path))


def test_no_more_files_is_an_error_of_the_save(tmp_path: Path) -> None:
    run = save(OpenFiles((0,)), tmp_path)
    assert run.exit_codes == {0: 1, 1: 1}
    assert "Too many open files" in raised(run, 0)


@pytest.mark.parametrize("spare", [0, 1, 5])
def test_exactly_the_spare_files_can_be_opened(spare: int) -> None:
    """In a process with holes between its descriptors."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            for number in (40, 43, 44, 90):
                os.dup2(0, number)
            OpenFiles((0,), spare).fire(None)  # type: ignore[arg-type]
            opened = 0
            try:
                while opened < 100:
                    os.dup(0)
                    opened += 1
            except OSError:
                code = 0 if opened == spare else 2
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            code = code if hard > 90 else 3
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


# ---------------------------------------------------------------- a slow file system


@needs_notify
def test_a_stalled_file_system_holds_up_all(tmp_path: Path) -> None:
    run = save(SlowFilesystem((0,)), tmp_path, rest_s=4)
    assert run.exit_codes == {0: None, 1: None}
    assert {event.step for event in run.of(Stepped)} == {1, 2, 3, 4, 5}
    assert [file.stat().st_size for file in tmp_path.iterdir()] == [0]


@pytest.mark.nightly
@needs_notify
def test_a_slow_file_system_only_delays(tmp_path: Path) -> None:
    run = save(SlowFilesystem((0,), "{scratch}", 0.2), tmp_path)
    assert completed(run)
    times = {event.step: event.t_s for event in run.of(Stepped, 1)}
    assert times[6] - times[5] >= 0.2
    assert len(list(tmp_path.iterdir())) == 4


@needs_notify
def test_files_elsewhere_are_as_fast_as_ever(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    assert completed(save(SlowFilesystem((0,), str(tmp_path / "elsewhere"), 5.0), tmp_path / "scratch"))


def test_a_plain_folder_is_no_memory_cgroup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no cgroup filesystem is mounted, a limit can be written into a file, and limits nothing."""
    from chaoskit.faults import memory_cgroup

    monkeypatch.setattr(memory_cgroup, "_V1", tmp_path)
    monkeypatch.setattr(memory_cgroup, "_own_v2", lambda: tmp_path)
    assert memory_cgroup.memory_root() is None
    assert list(tmp_path.iterdir()) == []
