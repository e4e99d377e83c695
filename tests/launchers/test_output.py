"""What a rank prints is kept in its first and last part, whatever it prints and whoever holds the pipe."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaoskit.launchers import output
from chaoskit.launchers.output import HEAD_BYTES, PUMP_BYTES, TAIL_BYTES, Capture
from chaoskit.redacting import Redactor

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


SECRET = b"correct-horse-battery"
KNOWING = Redactor.of({"A_TOKEN": SECRET.decode()})


@pytest.fixture
def knowing(tmp_path: Path) -> Iterator[Pipe]:
    reader, writer = os.pipe()
    path = tmp_path / "stdout.log"
    capture = Capture(reader, path, KNOWING)
    yield capture, writer, path
    os.close(writer)
    if capture.pipe >= 0:
        capture.abandon()


def test_no_secret_is_in_the_file_at_any_time(knowing: Pipe) -> None:
    capture, writer, path = knowing
    for piece in (b"one ", SECRET[:7], SECRET[7:], b" two\nthree ", SECRET, b"\n"):
        feed(capture, writer, piece)
        assert SECRET[:7] not in path.read_bytes()
    assert path.read_bytes() == b"one <redacted> two\nthree <redacted>\n"
    capture.finish()
    assert path.read_bytes() == b"one <redacted> two\nthree <redacted>\n"


@pytest.mark.parametrize("end", [b"", b"\n"])
@pytest.mark.parametrize("offset", range(-len(SECRET), 1, 3))
@pytest.mark.parametrize("more", [0, 100, 5 * TAIL_BYTES])
def test_a_secret_across_the_ends_of_head_and_tail(knowing: Pipe, offset: int, more: int, end: bytes) -> None:
    capture, writer, path = knowing
    first = b"x" * (HEAD_BYTES + offset - len(end)) + end
    last = SECRET + b"y" * (TAIL_BYTES + offset)
    feed(capture, writer, first + SECRET + b"z" * more + last)
    capture.finish()
    kept = path.read_bytes()
    assert all(SECRET[at : at + 6] not in kept for at in range(len(SECRET) - 5))
    assert kept.startswith(first.rstrip(b"\n"))
    assert kept.endswith(b"y" * (TAIL_BYTES + offset))


def test_what_a_launcher_said_last_begins_with_no_part_of_a_secret(knowing: Pipe) -> None:
    capture, writer, _ = knowing
    feed(capture, writer, b"a" * 3000 + SECRET + b"b" * 1990)
    assert capture.last(2000) == "b" * 1990
    capture.finish()


def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        Capture(os.open("/dev/null", os.O_RDONLY), tmp_path / "log").finish()
    finally:
        os.umask(mask)
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600
