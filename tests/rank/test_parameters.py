"""The file with the checksum of each parameter: what is written is read, whatever happens to rank or file."""

from __future__ import annotations

import os
import signal
import zlib
from collections.abc import Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from chaoskit.evidence.parameters import kept
from chaoskit.intercept.replicated import Replica
from chaoskit.parameter_sums import (
    BLOCK_BYTES,
    FILE,
    LIMIT_BYTES,
    MAGIC,
    Moment,
    moment_block,
    moments,
    names_block,
)
from chaoskit.rank.parameters import ParameterFile

NAMES = ("layers.0.weight", "layers.0.bias")


def replica(
    step: int, numbers: Sequence[int] = (1, 2), names: tuple[str, ...] = NAMES, ordinal: int = 0
) -> Replica:
    return Replica((0, 1), ordinal, "model", step, 77 + step, 10, names, tuple(numbers))


def read(folder: Path) -> list[Moment]:
    return list(moments((folder / FILE).read_bytes()))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    file = ParameterFile(str(tmp_path / "rank3"))
    file.add(replica(0), 1_500_000_000, final=False)
    file.add(replica(0, (5,), ("w",), ordinal=1), 1_600_000_000, final=False)
    file.add(replica(7, (2**64 - 1, 0)), 2_000_000_000, final=True)
    found = kept(tmp_path)
    assert list(found) == [3]
    assert list(found[3]) == list(found[3]) == [
        Moment(1.5, 0, 0, False, 77, NAMES, (1, 2)),
        Moment(1.6, 0, 1, False, 77, ("w",), (5,)),
        Moment(2.0, 7, 0, True, 84, NAMES, (2**64 - 1, 0)),
    ]  # fmt: skip


def test_nothing_to_keep_makes_no_file(tmp_path: Path) -> None:
    ParameterFile(str(tmp_path))
    ParameterFile("").add(replica(0), 0, final=False)
    assert list(tmp_path.iterdir()) == []


def test_what_an_earlier_attempt_left_is_gone(tmp_path: Path) -> None:
    ParameterFile(str(tmp_path)).add(replica(3), 0, final=False)
    ParameterFile(str(tmp_path))
    assert not (tmp_path / FILE).exists()


def test_other_names_from_then_on(tmp_path: Path) -> None:
    file = ParameterFile(str(tmp_path))
    file.add(replica(0), 0, final=False)
    file.add(replica(1, (1, 2, 3), ("a", "b", "c")), 0, final=False)
    assert [m.names for m in read(tmp_path)] == [NAMES, ("a", "b", "c")]


def test_a_rank_that_is_killed_leaves_all_that_it_wrote(tmp_path: Path) -> None:
    pid = os.fork()
    if pid == 0:
        file = ParameterFile(str(tmp_path))
        for step in range(100):
            file.add(replica(step), step, final=False)
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert [m.step for m in read(tmp_path)] == list(range(100))


def test_a_full_file_keeps_fewer_and_fewer_updates_the_same_on_all_ranks(tmp_path: Path) -> None:
    steps = []
    for slot in range(2):
        file = ParameterFile(str(tmp_path / f"rank{slot}"), limit=10_000)
        for step in range(2000 + 3 * slot):
            file.add(replica(step), 0, final=False)
        file.add(replica(5000), 0, final=True)
        assert os.path.getsize(tmp_path / f"rank{slot}" / FILE) <= 10_000 + 200
        steps.append([m.step for m in read(tmp_path / f"rank{slot}")])
    assert steps[0] == steps[1]
    gaps = [b - a for a, b in zip(steps[0], steps[0][1:], strict=False)][:-1]
    assert gaps == sorted(gaps)
    assert (gaps[0], steps[0][-1]) == (1, 5000)
    assert {2, 4, 8} <= set(gaps)


def test_more_parameters_than_fit_are_not_kept(tmp_path: Path) -> None:
    file = ParameterFile(str(tmp_path))
    many = BLOCK_BYTES // 8
    file.add(replica(0, range(many), tuple(map(str, range(many)))), 0, final=True)
    assert not (tmp_path / FILE).exists()
    long_names = tuple(f"{index}{'x' * 500}" for index in range(2000))
    file.add(replica(1, range(2000), long_names), 0, final=False)
    assert [m.names[:2] for m in read(tmp_path)] == [("parameter 0", "parameter 1")]


def test_a_script_that_closes_every_descriptor_loses_no_file_of_its_own(tmp_path: Path) -> None:
    file = ParameterFile(str(tmp_path / "rank0"))
    file.add(replica(0), 0, final=False)
    fd = file._fd
    own = os.open(tmp_path / "own", os.O_WRONLY | os.O_CREAT, 0o600)
    os.dup2(own, fd)
    file.add(replica(1), 0, final=False)
    os.close(own)
    os.close(fd)
    file.add(replica(2), 0, final=False)
    assert (tmp_path / "own").read_bytes() == b""
    assert [m.step for m in read(tmp_path / "rank0")] == [0]


def test_where_nothing_can_be_written_nothing_is_kept(tmp_path: Path) -> None:
    (tmp_path / "rank0").write_text("no folder")
    ParameterFile(str(tmp_path / "rank0")).add(replica(0), 0, final=False)
    linked = ParameterFile(str(tmp_path))
    (tmp_path / FILE).symlink_to("/dev/full")
    linked.add(replica(0), 0, final=False)
    assert kept(tmp_path) == {}


def test_a_file_that_is_none_gives_nothing(tmp_path: Path) -> None:
    for name in ("rank0", "rank1", "rank2", "rankX"):
        (tmp_path / name).mkdir()
    os.mkfifo(tmp_path / "rank0" / FILE)
    (tmp_path / "rank1" / FILE).mkdir()
    (tmp_path / "rank2" / FILE).symlink_to("/etc/passwd")
    (tmp_path / "rankX" / FILE).write_bytes(MAGIC)
    found = kept(tmp_path)
    assert {slot: list(of) for slot, of in found.items()} == {0: [], 1: [], 2: []}


def test_names_of_the_script_are_made_printable() -> None:
    names = ("\x1b[2Jw", "w", "w", "\ud800", "")
    body = MAGIC + names_block(0, names) + moment_block(0, 0, 1, 0, False, 2, range(5))
    (moment,) = moments(body)
    assert moment.names == ("?[2Jw [0]", "w [1]", "w [2]", "? [3]", "? [4]")


BODY = (
    MAGIC
    + names_block(0, NAMES)
    + b"".join(moment_block(0, step, step, 0, False, step, (step, 2)) for step in range(20))
)
WHOLE = list(moments(BODY))


@given(st.integers(0, len(BODY)))
def test_of_a_truncated_file_what_is_whole_is_read(size: int) -> None:
    found = list(moments(BODY[:size]))
    assert found == WHOLE[: len(found)]
    assert len(found) >= (size - len(MAGIC) - 60) // 64 - 1


@given(st.integers(0, len(BODY) - 1), st.integers(1, 255))
def test_of_a_damaged_file_what_is_before_the_damage_is_read(at: int, flip: int) -> None:
    damaged = bytearray(BODY)
    damaged[at] ^= flip
    found = list(moments(bytes(damaged)))
    assert found == WHOLE[: len(found)]


@given(st.binary(max_size=400), st.booleans())
def test_garbage_never_raises(body: bytes, begun: bool) -> None:
    list(moments(MAGIC + body if begun else body))


@given(st.binary(max_size=100), st.sampled_from([b"N", b"M", b""]))
def test_a_whole_block_of_garbage_never_raises(body: bytes, kind: bytes) -> None:
    block = kind + body
    head = len(block).to_bytes(4, "little") + zlib.crc32(block).to_bytes(4, "little")
    list(moments(BODY + head + block + BODY[len(MAGIC) :]))


def test_the_limits_fit_each_other() -> None:
    assert BLOCK_BYTES < LIMIT_BYTES // 8
