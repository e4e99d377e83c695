"""Text made safe, and durations for people."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoskit.model import Culprit, Kind, Verdict, link
from chaoskit.reports.wording import (
    cause_of,
    culprits_of,
    end_of,
    ended_by_of,
    evidence_of,
    latency_of,
    origin_of,
    production_bound_of,
    ranks_of,
    reason_of,
    safe,
    seconds,
)
from chaoskit.verdict import Sureness


@settings(deadline=None)
@given(st.text(st.characters()))
def test_safe_text_is_one_line_that_steers_nothing(text: str) -> None:
    shown = safe(text)
    assert all(unicodedata.category(c) not in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"} for c in shown)
    shown.encode("utf-8")


@settings(deadline=None)
@given(st.text(st.characters()))
def test_ascii_only_text_is_ascii(text: str) -> None:
    assert safe(text, ascii_only=True).isascii()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain [bold] text", "plain [bold] text"),
        ("a\nb\tc", r"a\nb\tc"),
        ("\x1b[31mred\x1b]0;title\x07", r"\x1b[31mred\x1b]0;title\x07"),
        ("\u202eevil\u2066", r"\u202eevil\u2066"),
        ("\x9b2J", r"\x9b2J"),
        ("caf\u00e9 \u6f22", "caf\u00e9 \u6f22"),
        ("\udc80", r"\udc80"),
        ("", ""),
    ],
)
def test_what_steers_a_terminal_is_written_as_an_escape(text: str, shown: str) -> None:
    assert safe(text) == shown


def test_a_cut_is_stated() -> None:
    assert safe("x" * 30, longest=10) == "x" * 10 + " [20 more characters]"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.0, "0 s"), (0.0004, "0 ms"), (0.087, "87 ms"), (0.9994, "999 ms"), (0.99951, "1 s"),
        (3.25, "3.25 s"), (99.96, "100 s"), (1800.0, "1800 s"), (None, "?"), (math.nan, "?"), (math.inf, "?"),
    ],
)  # fmt: skip
def test_seconds(value: float | None, said: str) -> None:
    assert seconds(value) == said


def test_culprits_that_cannot_be_separated_are_named_ambiguous(verdict: Callable[..., Verdict]) -> None:
    two = (Culprit("rank", "0"), Culprit("rank", "1"))
    assert culprits_of(verdict(culprits=two, ambiguous=True)) == "one of rank 0, rank 1 (ambiguous) killed"
    assert culprits_of(verdict()) == "rank 1 killed"
    assert culprits_of(verdict(culprits=(), kind=None)) == ""


def test_hosts_interfaces_and_links_by_their_names(verdict: Callable[..., Verdict]) -> None:
    def told(*culprits: Culprit, kind: Kind = Kind.UNREACHABLE) -> str:
        return culprits_of(verdict(culprits=culprits, kind=kind))

    assert told(Culprit("host", "hostB"), kind=Kind.KILLED) == "host hostB killed"
    assert told(Culprit("nic", "hostB docker0")) == "nic hostB docker0 unreachable"
    assert told(link("hostB", "hostA")) == "link hostA–hostB unreachable"
    many = [link("hostA", f"host{n}") for n in "BCDEFG"]
    assert told(*many).endswith("link hostA–hostE and 2 more unreachable")
    assert safe(told(many[0]), ascii_only=True) == "link hostA-hostB unreachable"


def test_what_ended_the_job(verdict: Callable[..., Verdict]) -> None:
    assert ended_by_of(verdict()) == ""
    assert ended_by_of(verdict(ended_by=("nic_check", "group_kill"))) == "ended by nic_check + group_kill"


def test_latency_against_the_bound(verdict: Callable[..., Verdict]) -> None:
    assert latency_of(verdict()) == "87 ms of 2 s"
    assert latency_of(verdict(bound_s=None)) == "87 ms"
    assert latency_of(verdict(latency_s=None)) == "bound 2 s"
    assert latency_of(verdict(latency_s=None, bound_s=None)) == ""


def test_the_production_bound_is_given_only_where_it_differs(verdict: Callable[..., Verdict]) -> None:
    assert production_bound_of(verdict()) == ""
    assert production_bound_of(verdict(production_bound_s=602.0)) == "in production ~602 s"
    assert production_bound_of(verdict(production_bound_s=None)) == ""


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        ([2], "rank 2"),
        ([2, 0], "ranks 0, 2"),
        ([0, 1], "ranks 0, 1"),
        ([0, 1, 2], "ranks 0-2"),
        ([70, *range(64)], "ranks 0-63, 70"),
        ([1, 1], "rank 1"),
    ],
)
def test_many_ranks_are_said_shortly(ranks: list[int], said: str) -> None:
    assert ranks_of(ranks) == said


def test_how_a_process_ended() -> None:
    assert [end_of(code) for code in (0, 3, -9, -99, None)] == [
        "exit 0", "exit 3", "SIGKILL", "signal 99", "ended by chaoskit",
    ]  # fmt: skip


def test_what_a_run_can_be_told_by() -> None:
    assert origin_of(7, "2.13.0") == "seed 7, torch 2.13.0"
    assert origin_of(None, "") == "several seeds"


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("hung; rank 1 was stopped", "hung"),
        ("rank 1 was stopped", "rank 1 was stopped"),
        ("found hung (ranks 0, 2 wait; rank 1 was stopped)", "found hung (ranks 0, 2 wait)"),
        ("found hung (rank 1 was stopped)", "found hung"),
        ("something else", "something else"),
        ("", ""),
    ],
)
def test_a_cause_is_not_said_twice(reason: str, shown: str, verdict: Callable[..., Verdict]) -> None:
    assert reason_of(verdict(reason=reason, cause="rank 1 was stopped")) == shown
    assert reason_of(verdict(reason=reason)) == reason


def test_how_sure_it_is_stands_with_the_cause_or_alone(verdict: Callable[..., Verdict]) -> None:
    likely = verdict(cause="it died", sureness=Sureness.LIKELY)
    assert cause_of(likely) == (("cause (likely)", "it died"),)
    assert culprits_of(likely) == "rank 1 (likely) killed"
    assert cause_of(verdict(sureness=Sureness.CERTAIN)) == (("sureness", "certain"),)
    assert cause_of(verdict()) == ()


def test_of_much_evidence_the_rest_is_counted(verdict: Callable[..., Verdict]) -> None:
    shown = evidence_of(verdict(evidence=("a", "b", "c")), 2)
    assert shown == (("evidence", "a"), ("evidence", "b (and 1 more)"))
    assert evidence_of(verdict(evidence=("a",)), 2) == (("evidence", "a"),)
    assert evidence_of(verdict(), 2) == ()


def test_a_command_of_a_github_job_is_broken_up() -> None:
    assert safe("x ##[error]###[y") == r"x #\x23[error]##\x23[y"
