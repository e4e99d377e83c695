"""Files of NAME=VALUE lines."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.checking.env_file import MAX_BYTES, read_env_file
from chaoskit.errors import InvalidInput

FILE = """\
# ours

export NCCL_DEBUG=INFO
  A = 1
B="two words"  # said so
C='it''s'
D=plain # comment
E=a#b
F=
G=$HOME
set -a # all of them
set +o allexport
export H=1 I='$two' J="$three"  # said so
export K
L=`date`
M='$HOME'
"""


def test_lines(tmp_path: Path) -> None:
    file = tmp_path / "a.env"
    file.write_text(FILE)
    settings, problems = read_env_file(str(file))
    assert [(s.name, s.value, s.line) for s in settings] == [
        ("NCCL_DEBUG", "INFO", 3), ("B", "two words", 5), ("C", "'it''s'", 6), ("D", "plain", 7),
        ("E", "a#b", 8), ("F", "", 9), ("G", "$HOME", 10), ("H", "1", 13), ("I", "$two", 13),
        ("J", "$three", 13),
        ("L", "`date`", 15), ("M", "$HOME", 16),
    ]  # fmt: skip
    assert [s.name for s in settings if s.to_expand] == ["G", "J", "L"]
    assert [(p.line, p.file) for p in problems] == [(4, str(file))]


@pytest.mark.parametrize("content", [b"\xff\xfe=", b"x" * (MAX_BYTES + 1), b"what is this\n"])
def test_what_cannot_be_read(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "a.env"
    file.write_bytes(content)
    with pytest.raises(InvalidInput):
        read_env_file(str(file))


def test_no_regular_file_is_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", ".", "absent", "nul\0"):
        with pytest.raises(InvalidInput):
            read_env_file(str(tmp_path / name))


def test_a_long_line_is_read_at_once(tmp_path: Path) -> None:
    file = tmp_path / "a.env"
    file.write_text("export A=" + "a" * 50_000 + "'\n")
    assert len(read_env_file(str(file))[0]) == 1


@given(st.text(max_size=120))
def test_no_text_breaks_the_reader(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.getbasetemp() / "any.env"
    file.write_text(text, encoding="utf-8", errors="replace")
    try:
        settings, _ = read_env_file(str(file))
    except InvalidInput:
        return
    assert all(s.name.isidentifier() for s in settings)


@given(
    st.dictionaries(
        st.from_regex(r"[A-Z_]{1,8}", fullmatch=True), st.from_regex(r"[a-z0-9:/,^=]{0,9}", fullmatch=True)
    )
)
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, env: dict[str, str]) -> None:
    file = tmp_path_factory.getbasetemp() / "written.env"
    file.write_text("".join(f"{name}={value}\n" for name, value in env.items()))
    settings, problems = read_env_file(str(file))
    assert ({s.name: s.value for s in settings}, problems) == (env, ())
