"""Annotations: which there are, at which line, and that hostile text makes no other command."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoskit.model import Operation, Result, ScenarioResult, Status, Verdict
from chaoskit.reports import annotations
from chaoskit.request import WATCH
from chaoskit.verdict import Sureness

COMMAND = re.compile(r"::(?P<level>error|warning|notice) (?P<properties>[^:]*)::(?P<data>[^\r\n]*)")


def read(line: str) -> tuple[str, dict[str, str], str]:
    """Return level, properties and message of a line, as a runner takes it."""
    match = COMMAND.fullmatch(line)
    assert match is not None, line

    def plain(text: str) -> str:
        for token, char in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
            text = text.replace(token, char)
        return text

    pairs = (one.split("=", 1) for one in match["properties"].split(","))
    return match["level"], {key: plain(value) for key, value in pairs}, plain(match["data"])


def test_what_is_not_held_is_an_error_at_the_line_of_the_user(
    tmp_path: Path, verdict: Callable[..., Verdict], result: Callable[..., ScenarioResult]
) -> None:
    bad = verdict(
        status=Status.FAIL, where=f"{tmp_path}/src/train.py:31", reason="100 % of ranks hung: 4, all",
        cause="rank 1 was killed", sureness=Sureness.LIKELY, evidence=("a", "b"),
    )  # fmt: skip
    said = annotations.render([result(verdict()), result(bad, result=Result.NOT_HELD)], tmp_path)
    ((level, properties, message),) = map(read, said.splitlines())
    assert level == "error"
    assert properties == {"file": "src/train.py", "line": "31", "title": "rank-killed/hardened: not held"}
    assert message.splitlines() == [
        "culprit: rank 1 (likely) killed",
        "reason: 100 % of ranks hung: 4, all",
        "cause (likely): rank 1 was killed",
        "evidence: a",
        "evidence: b",
        f"where: {tmp_path}/src/train.py:31",
        "suffered from it: ranks 0, 2, 3",
        "rerun: chaoskit run rank-killed --arm hardened --seed 7",
    ]


@pytest.mark.parametrize(
    ("where", "rerun", "place"),
    [
        ("train.py:3", "chaoskit run x", ("train.py", "3")),
        ("../train.py:3", "chaoskit run x", ("", "")),
        ("/usr/lib/python3/site.py:3", "chaoskit run x", ("", "")),
        ("", "chaoskit run {here}/ci/own.yaml --arm a", ("ci/own.yaml", "")),
        ("/elsewhere/a.py:3", "chaoskit run '{here}/my own.yaml' --arm a", ("my own.yaml", "")),
        ("", "chaoskit run 'unclosed", ("", "")),
        ("train.py:0", "", ("", "")),
        ("a\0b:3", "chaoskit run a\0.yaml", ("", "")),
    ],
)
def test_a_file_is_named_where_it_lies_in_the_checkout(
    where: str, rerun: str, place: tuple[str, str], tmp_path: Path, verdict: Callable[..., Verdict],
    result: Callable[..., ScenarioResult],
) -> None:  # fmt: skip
    bad = verdict(status=Status.INCONCLUSIVE, where=where, rerun=rerun.format(here=tmp_path))
    said = annotations.render([result(bad, result=Result.INCONCLUSIVE)], tmp_path)
    level, properties, _ = read(said.rstrip("\n"))
    assert (level, properties.get("file", ""), properties.get("line", "")) == ("warning", *place)


def test_ten_of_each_and_the_last_counts_the_rest_and_skips_are_one_notice(
    tmp_path: Path, verdict: Callable[..., Verdict], result: Callable[..., ScenarioResult]
) -> None:
    bad = [result(verdict(status=Status.FAIL), result=Result.NOT_HELD, name=f"bad-{n}") for n in range(25)]
    unclear = [result(name=f"odd-{n}", result=Result.INCONCLUSIVE, reason="why") for n in range(10)]
    skipped = [result(name=f"no-{n}", result=Result.SKIPPED, reason=f"no {n % 2}") for n in range(5)]
    said = [read(line) for line in annotations.render([*skipped, *unclear, *bad], tmp_path).splitlines()]
    levels = [level for level, _, _ in said]
    assert [levels.count(level) for level in ("error", "warning", "notice")] == [10, 10, 1]
    assert said[9][1:] == (
        {"title": "chaoskit: 16 more not held"},
        "16 more are not held; GitHub shows 10 of each kind",
    )
    assert said[-1][1:] == ({"title": "chaoskit: 5 scenarios skipped"}, "no 0\nno 1")


@settings(deadline=None)
@given(
    text=st.one_of(
        st.text(max_size=80), st.text(alphabet=st.sampled_from("%:,=\r\n#[]0Aa \u2028\x85"), max_size=60)
    )
)
def test_hostile_text_makes_no_other_command(
    text: str, verdict: Callable[..., Verdict], result: Callable[..., ScenarioResult]
) -> None:
    bad = verdict(
        scenario=text, arm=text, status=Status.FAIL, reason=text, where=f"{text}:3", cause=text, rerun=text,
        evidence=(text,),
    )  # fmt: skip
    results = [
        result(bad, result=Result.NOT_HELD, name=text),
        result(result=Result.SKIPPED, reason=text, name=text),
    ]
    said = annotations.render(results, Path("/nowhere/here"))
    lines = re.split("[\r\n]", said.removesuffix("\n"))
    assert [read(line)[0] for line in lines] == ["error", "notice"]
    said.encode("utf-8")


def test_nothing_to_say(
    tmp_path: Path, verdict: Callable[..., Verdict], result: Callable[..., ScenarioResult]
) -> None:
    assert annotations.render([result(verdict())], tmp_path) == ""


def test_a_watched_program_fails(
    tmp_path: Path, verdict: Callable[..., Verdict], result: Callable[..., ScenarioResult]
) -> None:
    bad = verdict(scenario=WATCH, arm=WATCH, status=Status.FAIL)
    said = annotations.render([result(bad, result=Result.NOT_HELD)], tmp_path)
    assert said.startswith("::error file=train.py,line=31,title=watch%3A fail::culprit: rank 1 killed%0A")
    said = annotations.render([result(bad, result=Result.NOT_HELD)], tmp_path, ["loop.py"])
    assert ",title=loop.py%3A fail::" in said


def test_the_line_and_the_operation_are_said_of_a_file_elsewhere_too(
    tmp_path: Path, verdict: Callable[..., Verdict], result: Callable[..., ScenarioResult]
) -> None:
    bad = verdict(status=Status.FAIL, where="/elsewhere/a.py:3", at=Operation("all_reduce", "default", 8))
    said = annotations.render([result(bad, result=Result.NOT_HELD)], tmp_path)
    assert "%0Aoperation: all_reduce #8%0Awhere: /elsewhere/a.py:3%0A" in said
    assert "file=" not in said
