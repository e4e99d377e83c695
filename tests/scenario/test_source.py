"""What a YAML file can do to its reader."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chaoskit.errors import InvalidInput
from chaoskit.scenario.source import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_EVENTS,
    is_plain_text,
    parse_document,
    read_document,
)


def refusal(text: str) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        parse_document(text, "f.yaml")
    return caught.value


def problems(text: str) -> list[tuple[int, str]]:
    """The line and message of each problem, whether or not the rest can be read."""
    try:
        found = tuple(parse_document(text, "f.yaml").problems)
    except InvalidInput as error:
        found = error.problems
    assert all(p.file == "f.yaml" for p in found)
    return [(p.line, p.message) for p in found]


def test_plain_values_and_their_lines() -> None:
    document = parse_document("a: 1\nb:\n  - x\n  - {c: true, d: 1.5e3}\ne: ~\nf: '1'\n", "f.yaml")
    assert document.data == {"a": 1, "b": ["x", {"c": True, "d": 1500.0}], "e": None, "f": "1"}
    assert document.problems == []
    assert document.line(("b", 1, "d")) == 4
    assert document.line(("b", 0)) == 3
    assert document.line(("b", 1, "nothing")) == 4
    assert document.line(("nothing",)) == 1


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("a: 1\nb: 1_000\n", 2, "underscores"),
        ("a: 2026-01-02\n", 1, "date"),
        ("a: 2026-01-02 10:00:00\n", 1, "date"),
        ("a: 0x1f\n", 1, "decimal"),
        ("a: 0o17\n", 1, "decimal"),
        ("a: 007\n", 1, "begins with 0"),
        ("a: .inf\n", 1, "finite"),
        ("a: .nan\n", 1, "finite"),
        ("a: 1e999\n", 1, "too large"),
        ("a: " + "9" * 5000 + "\n", 1, "too large"),
        ("a: !!python/object:os.system x\n", 1, "tag"),
        ("a: !!str 1\n", 1, "tag"),
        ("a: !local {b: 1}\n", 1, "tag"),
        ("a: &x 1\n", 1, "anchor"),
        ("a: 1\n<<: {b: 1}\n", 2, "merge key"),
        ("? [a, b]\n: 1\n", 1, "key"),
        ("1.5: a\n", 1, "key"),
        ("true: a\n", 1, "key"),
        ('a: "\\0"\n', 1, "character"),
        ('a: "\\ud800"\n', 1, "character"),
        ("a: 1\n---\nb: 1\n", 2, "more than one document"),
        ("a: [1\nb: 2\n", 2, "not valid YAML"),
        ("a: b: c\n", 1, "not valid YAML"),
        ("\ta: 1\n", 1, "not valid YAML"),
        ("a: 'x\n", 1, "not valid YAML"),
        ('a: "\\q"\n', 1, "not valid YAML"),
        ("a: \x07\n", 1, "U+0007"),
        ("", 1, "empty"),
        ("# only a comment\n", 1, "empty"),
        ("---\n", 1, "empty"),
    ],
)
def test_what_is_refused_is_named_with_its_line(text: str, line: int, part: str) -> None:
    found = problems(text)
    assert len(found) >= 1
    assert part in found[0][1]
    assert found[0][0] in (line, line + 1)  # the parser sees an open quote or bracket at its end


def test_every_duplicate_key_is_named() -> None:
    found = parse_document("a: 1\nb:\n  c: 1\n  c: {d: 1, d: 2}\na: [2]\na: 3\n", "f.yaml")
    assert [(p.line, p.message) for p in found.problems] == [
        (4, "duplicate key `c`"),
        (4, "duplicate key `d`"),
        (5, "duplicate key `a`"),
        (6, "duplicate key `a`"),
    ]
    assert found.data == {"a": 1, "b": {"c": 1}}


def test_many_problems_are_named_at_once() -> None:
    assert [line for line, _ in problems("a: 1_0\nb: &x 1\nc: *x\nd: 2026-01-01\na: 1\n")] == [1, 2, 3, 4, 5]


def test_a_bomb_of_aliases_is_small() -> None:
    lines = ['a0: &a0 ["x", "x"]'] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    begin = time.process_time()  # of this process alone: other programs do not count
    assert problems("\n".join(lines))
    assert time.process_time() - begin < 10


@pytest.mark.parametrize(
    "text",
    [
        "[" * 60_000,
        "{a: " * 15_000,
        "- " * 30_000,
        "? " * 30_000,
        "".join(" " * n + "a:\n" for n in range(300)),
    ],
)
def test_depth_is_bounded_before_anything_recurses(text: str) -> None:
    assert f"deeper than {MAX_DEPTH}" in refusal(text).problems[-1].message


@pytest.mark.parametrize("text", ["[" + "1," * 30_000 + "]", "".join(f"k{n}: 1\n" for n in range(6000))])
def test_the_number_of_values_is_bounded(text: str) -> None:
    assert f"more than {MAX_EVENTS}" in refusal(text).problems[-1].message


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "x" * MAX_BYTES,
        'a: "' + "\\n" * (MAX_BYTES // 2) + '"',
        "a: |\n" + "  x\n" * (MAX_BYTES // 4),
        "\n" * MAX_BYTES + "a",
        "# x\n" * (MAX_BYTES // 4),
        "a: '" + "\n" * MAX_BYTES + "'",
        "!" + "a" * MAX_BYTES + " x",
        "[" + "#\n" * (MAX_BYTES // 2),
        "- a # b\n" * (MAX_BYTES // 8),
    ],
)
def test_the_largest_file_takes_no_long_time(text: str) -> None:
    begin = time.process_time()
    problems(text[:MAX_BYTES])
    assert time.process_time() - begin < 10  # alone under half a second; on a busy core several times as long


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_bytes(b"")
    (tmp_path / "latin.yaml").write_bytes("a: 1\nb: é\n".encode("latin-1"))
    (tmp_path / "utf16.yaml").write_bytes("a: 1\n".encode("utf-16"))
    (tmp_path / "nul.yaml").write_bytes(b"a: 1\nb: \0\n")
    (tmp_path / "large.yaml").write_bytes(b"#" * (MAX_BYTES + 1))
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    (tmp_path / "dangling.yaml").symlink_to("gone.yaml")
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "folder.yaml").mkdir()
    said = {}
    for path in [
        *sorted(tmp_path.iterdir()),
        Path("/dev/zero"),
        tmp_path / "no\0name",
        tmp_path / ("x" * 5000),
    ]:
        with pytest.raises(InvalidInput) as caught:
            read_document(path)
        (said[path.name[:9]],) = caught.value.problems
        assert said[path.name[:9]].file == str(path)
    assert said["folder.ya"].message == "a directory, not a file"
    assert said["latin.yam"].message == said["utf16.yam"].message == "not UTF-8 text"
    assert (said["latin.yam"].line, said["nul.yaml"].line) == (2, 2)
    assert said["pipe.yaml"].message == said["zero"].message == "not a regular file"
    assert said["dangling."].message == "no such file"


def test_a_byte_order_mark_is_no_matter(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert read_document(tmp_path / "f.yaml").data == {"a": 1}


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=200))
@example("? ?")
@example("%YAML x\n---\n")
@example("a: \\\n")
@example("- <<: *a")
def test_any_text_gives_values_or_problems_with_lines(text: str) -> None:
    for line, message in problems(text):
        assert line >= 1
        assert message


YAML_PIECES = [
    "a",
    ":",
    " ",
    "\n",
    "- ",
    "{",
    "}",
    "[",
    "]",
    ",",
    "&a",
    "*a",
    "!t",
    "<<",
    "'",
    '"',
    "|",
    ">",
    "?",
    "#",
    "%",
    "@",
    "`",
    "1_0",
    "~",
    "---",
    "...",
    "\t",
    "1",
    "2026-01-01",
    "\\x",
    "é",
    "\u2028",
    "=",
    "0x",
]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(YAML_PIECES), max_size=40).map("".join))
def test_any_mixture_of_yaml_signs_gives_values_or_problems_with_lines(text: str) -> None:
    test_any_text_gives_values_or_problems_with_lines.hypothesis.inner_test(text)  # type: ignore[attr-defined]


@settings(max_examples=50, deadline=None)
@given(raw=st.binary(max_size=60))
def test_any_bytes_give_values_or_problems(raw: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("bytes") / "f.yaml"
    path.write_bytes(raw)
    with contextlib.suppress(InvalidInput):
        read_document(path)


def test_what_needs_quotes() -> None:
    assert is_plain_text("rank 1")
    assert not any(is_plain_text(t) for t in ("1", "", "true", "~", "1_0", "2026-01-01", "1.5", "0x1"))
