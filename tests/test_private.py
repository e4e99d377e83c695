"""What a run writes is its owner's alone, whatever the umask; what others write is cleaned and closed."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaoskit import private
from chaoskit.redacting import Redactor
from chaoskit.scrub import LARGEST_BYTES, scrub
from chaoskit.secret_shapes import HIDDEN

REDACTOR = Redactor.of({"A_TOKEN": "sesame-open", "B_TOKEN": "12345678"})


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    mask = os.umask(0)
    yield
    os.umask(mask)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_folders_and_files(tmp_path: Path) -> None:
    made = private.folder(tmp_path / "a" / "b" / "c")
    assert [mode(p) for p in (made, made.parent, made.parent.parent)] == [0o700] * 3
    private.folder(made)
    private.write(made / "x", "one")
    with private.open_text(made / "y", "a") as file:
        file.write("two")
    assert [mode(made / name) for name in "xy"] == [0o600] * 2
    private.write(made / "x", "shorter")
    assert (made / "x").read_text() == "shorter"


def test_what_others_left_open_is_closed_and_cleaned(tmp_path: Path) -> None:
    rank = tmp_path / "rank0"
    rank.mkdir()
    (rank / "stack.json").write_text(json.dumps({"t": 12345678.5, "frames": ["f (sesame-open)", "12345678"]}))
    (rank / "faulthandler.txt").write_text('File "/x/sesame-open.py"')
    (rank / "half.json").write_text('{"a": "sesame-open')
    (rank / "rank.region").write_bytes(b"sesame-open\0")
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch" / "mine.txt").write_text("sesame-open")
    scrub(tmp_path, REDACTOR, "scratch")
    assert json.loads((rank / "stack.json").read_text()) == {
        "t": 12345678.5,
        "frames": [f"f ({HIDDEN})", HIDDEN],
    }
    assert (rank / "faulthandler.txt").read_text() == f'File "/x/{HIDDEN}.py"'
    assert (rank / "half.json").read_text() == f'{{"a": "{HIDDEN}'
    assert (rank / "rank.region").read_bytes() == b"sesame-open\0", (
        "no text: chaoskit's own, and cleaned before"
    )
    assert (tmp_path / "scratch" / "mine.txt").read_text() == "sesame-open", "the program's own"
    assert mode(rank) == 0o700
    assert {mode(p) for p in rank.iterdir()} == {0o600}


def test_a_hostile_folder_leads_nowhere(tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("sesame-open")
    outside.chmod(0o644)
    rank = tmp_path / "arm" / "rank0"
    rank.mkdir(parents=True)
    (rank / "link.txt").symlink_to(outside)
    (rank / "loop.txt").symlink_to(rank / "loop.txt")
    (rank / "dir").symlink_to(tmp_path)
    os.mkfifo(rank / "fifo.txt")
    with (rank / "huge.txt").open("wb") as file:
        os.truncate(file.fileno(), LARGEST_BYTES + 1)
    scrub(tmp_path / "arm", REDACTOR, "scratch")
    assert (outside.read_text(), mode(outside)) == ("sesame-open", 0o644)
    assert not (rank / "huge.txt").exists()
