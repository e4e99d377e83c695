"""The file of a report: found unusable early, written whole or not at all."""

from __future__ import annotations

import gzip
import os
import stat
from contextlib import suppress
from pathlib import Path

import pytest

from chaoskit.reports import output_file


def written(path: Path, content: bytes) -> None:
    with output_file.replaced(path) as file:
        file.write(content)


def test_the_file_is_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "new" / "report.xml"
    assert output_file.problems(path, "--junit") == []
    written(path, b"one")
    assert stat.S_IMODE(path.stat().st_mode) & 0o444 == 0o444 & ~_umask()

    def broken(_source: str, _target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(OSError, match="No space"):
        written(path, b"two")
    assert path.read_bytes() == b"one"
    assert [p.name for p in path.parent.iterdir()] == ["report.xml"]


def test_what_fails_in_between_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "report.json.gz"
    written(path, b"one")
    before = path.read_bytes()
    with suppress(KeyboardInterrupt), output_file.replaced(path) as file:
        file.write(b"tw")
        raise KeyboardInterrupt
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["report.json.gz"]


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_link_is_followed(tmp_path: Path) -> None:
    link, real = tmp_path / "link.xml", tmp_path / "real.xml"
    link.symlink_to(real)
    written(link, b"one")
    assert link.is_symlink()
    assert real.read_bytes() == b"one"


@pytest.mark.parametrize("name", ["", "file/junit.xml", "bad\0name"])
def test_a_path_that_cannot_be_written_is_a_problem(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    (problem,) = output_file.problems(tmp_path / name, "--junit")
    assert "--junit" in str(problem)


def test_a_device_is_written_to_directly() -> None:
    assert output_file.problems(Path("/dev/null"), "--html") == []
    written(Path("/dev/null"), b"one")
    assert Path("/dev/null").is_char_device()


def test_a_name_that_ends_in_gz_is_compressed_and_the_same_each_time(tmp_path: Path) -> None:
    one, two = tmp_path / "a.json.gz", tmp_path / "b.json.gz"
    written(one, b"content" * 100)
    written(two, b"content" * 100)
    assert gzip.decompress(one.read_bytes()) == b"content" * 100
    assert one.read_bytes() == two.read_bytes()
