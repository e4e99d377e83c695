"""What a rank prints is kept in its first and last part, whatever it prints and whoever holds the pipe."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaoskit.launchers import output
from chaoskit.launchers.output import HEAD_BYTES, PUMP_BYTES, TAIL_BYTES, Capture

Pipe = tuple[Capture, int, Path]


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Pipe]:
    reader, writer = os.pipe()
    path = tmp_path / "stdout.log"
    capture = Capture(reader, path)
    yield capture, writer, path
    os.close(writer)
    if capture.pipe >= 0:
        capture.abandon()


def feed(capture: Capture, writer: int, data: bytes) -> None:
    for at in range(0, len(data), 4096):
        os.write(writer, data[at : at + 4096])
        assert capture.pump()


def test_the_head_is_in_the_file_at_once(pipe: Pipe) -> None:
    capture, writer, path = pipe
    feed(capture, writer, b"first\n")
    assert path.read_bytes() == b"first\n"


def test_what_fits_is_kept_unchanged_though_the_pipe_stays_open(pipe: Pipe) -> None:
    capture, writer, path = pipe
    data = os.urandom(HEAD_BYTES + TAIL_BYTES)
    feed(capture, writer, data)
    capture.finish()
    assert path.read_bytes() == data


@pytest.mark.parametrize("surplus", [1, TAIL_BYTES, 10 * TAIL_BYTES + 7])
def test_the_middle_is_left_out_and_counted(pipe: Pipe, surplus: int) -> None:
    capture, writer, path = pipe
    data = os.urandom(HEAD_BYTES + TAIL_BYTES + surplus)
    feed(capture, writer, data)
    capture.finish()
    line = f"\n[chaoskit: {surplus} bytes of output left out here]\n".encode()
    assert path.read_bytes() == data[:HEAD_BYTES] + line + data[-TAIL_BYTES:]


def test_what_is_still_in_the_pipe_counts(pipe: Pipe) -> None:
    capture, writer, path = pipe
    os.write(writer, b"last words")
    capture.finish()
    assert path.read_bytes() == b"last words"


def test_the_end_of_the_pipe_is_told(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    capture = Capture(reader, tmp_path / "log")
    os.write(writer, b"x")
    os.close(writer)
    assert not capture.pump()
    capture.finish()


def test_one_look_takes_a_bounded_amount(tmp_path: Path) -> None:
    with open("/dev/zero", "rb") as endless:
        capture = Capture(os.dup(endless.fileno()), tmp_path / "log")
        assert capture.pump()
        capture.finish()
    written = (tmp_path / "log").stat().st_size
    assert HEAD_BYTES + TAIL_BYTES < written < HEAD_BYTES + TAIL_BYTES + 100
    assert PUMP_BYTES < 2 << 20


def test_a_full_disk_ends_nothing(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    capture = Capture(reader, Path("/dev/full"))
    os.write(writer, b"lost")
    os.close(writer)
    assert not capture.pump()
    capture.finish()
    assert output.HEAD_BYTES > 0
