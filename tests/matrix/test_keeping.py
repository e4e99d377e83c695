"""Finished cells in a file: what is read back, what is damaged, who may write."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.errors import InvalidInput
from chaoskit.matrix.keeping import FILE, LOCK, Kept, Record
from chaoskit.model import Culprit, Status, Verdict

Make = Callable[..., Verdict]


def record(verdict: Verdict) -> Record:
    return Record(verdict, 3.25, True, "runs/x/rank-stopped/profile")


def test_what_was_kept_is_read_back_equal(tmp_path: Path, verdict: Make) -> None:
    kept = record(verdict(culprits=(Culprit("rank", "1"),), reason="a\u202eb\n"))
    with Kept.open(tmp_path) as store:
        store.put("k1", kept)
        store.put("k2", record(verdict(status=Status.FAIL)))
    with Kept.open(tmp_path) as store:
        assert (store.get("k1"), store.get("k3"), store.damaged, store.unasked) == (kept, None, 0, 1)
    assert os.stat(tmp_path / FILE).st_mode & 0o077 == 0


@pytest.mark.parametrize("status", [Status.INCONCLUSIVE, Status.SKIPPED])
def test_what_was_not_decided_is_not_kept(tmp_path: Path, verdict: Make, status: Status) -> None:
    with Kept.open(tmp_path) as store:
        store.put("k", record(verdict(status=status)))
    assert (tmp_path / FILE).read_bytes() == b""


def test_a_line_that_was_cut_off_spoils_no_other(tmp_path: Path, verdict: Make) -> None:
    with Kept.open(tmp_path) as store:
        store.put("k1", record(verdict()))
        store.put("k2", record(verdict()))
    path = tmp_path / FILE
    path.write_bytes(path.read_bytes()[:-30])
    with Kept.open(tmp_path) as store:
        assert store.damaged == 1 and store.get("k1") is not None and store.get("k2") is None
        store.put("k2", record(verdict()))
    with Kept.open(tmp_path) as store:
        assert store.get("k2") is not None and store.damaged == 0, "damage is told once"


def test_a_changed_verdict_is_damage(tmp_path: Path, verdict: Make) -> None:
    with Kept.open(tmp_path) as store:
        store.put("k", record(verdict(status=Status.FAIL)))
    path = tmp_path / FILE
    path.write_bytes(path.read_bytes().replace(b'"fail"', b'"pass"'))
    with Kept.open(tmp_path) as store:
        assert store.get("k") is None and store.damaged == 1


@given(st.binary(max_size=200))
def test_whatever_is_in_the_file_nothing_is_believed(
    tmp_path_factory: pytest.TempPathFactory, junk: bytes
) -> None:
    folder = tmp_path_factory.mktemp("kept")
    (folder / FILE).write_bytes(junk)
    with Kept.open(folder) as store:
        assert store.damaged == len([line for line in junk.split(b"\n") if line])
    assert (folder / FILE).read_bytes().strip(b"\n") == b""


@pytest.mark.parametrize("folder", ["/etc", "../../etc", "runs/../../x", "javascript:alert(1)//x"])
def test_a_folder_outside_of_the_matrix_is_damage(tmp_path: Path, verdict: Make, folder: str) -> None:
    with Kept.open(tmp_path) as store:
        store.put("k", dataclasses.replace(record(verdict()), folder=folder))
    with Kept.open(tmp_path) as store:
        assert store.get("k") is None
        assert store.damaged == 1


def test_another_process_at_the_same_matrix_is_refused(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from chaoskit.errors import InvalidInput\n"
        "from chaoskit.matrix.keeping import Kept\n"
        "try: Kept.open(Path(sys.argv[1]))\n"
        "except InvalidInput as error: print(error)\n"
    )
    with Kept.open(tmp_path):
        told = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert "another chaoskit is working on this matrix" in told.stdout
    with Kept.open(tmp_path):  # its lock went with it
        pass


def test_a_folder_that_is_none_is_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be had"):
        Kept.open(tmp_path / "missing")


@pytest.mark.parametrize("name", [FILE, LOCK])
def test_a_pipe_in_the_folder_is_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(InvalidInput, match=f"{name} cannot be had: not a regular file"):
        Kept.open(tmp_path)


def test_a_record_has_nothing_that_cannot_be_kept() -> None:
    assert {f.name for f in dataclasses.fields(Record)} == {"verdict", "seconds", "named_by_job", "folder"}
