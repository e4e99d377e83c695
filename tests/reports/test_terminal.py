"""The summary on the terminal: what it says, at any width, in any encoding, of hostile text too."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from chaoskit.model import Culprit, Kind, Operation, Outcome, Result, ScenarioResult, Status, Verdict
from chaoskit.reports.judged import Judged
from chaoskit.reports.terminal import print_summary
from chaoskit.reports.wording import ranks_of
from chaoskit.verdict import Sureness

Make = Callable[..., Console]
WIDTHS = (40, 80, 200)
COPIED = ("rerun: ", "where: ", "run directory: ", "report: ")
"""Lines that are there to be copied, and never broken."""


@pytest.fixture(scope="session")
def mixed(
    verdict: Callable[..., Verdict], result: Callable[..., ScenarioResult], judged: Callable[..., Judged]
) -> Judged:
    """A run with one scenario of each result."""
    control = verdict(
        arm="control", profile="torch-defaults", latency_s=0.41, bound_s=None, production_bound_s=None
    )
    hung = verdict(
        scenario="rank-stopped", status=Status.FAIL, outcome=Outcome.HUNG, kind=Kind.FROZEN, latency_s=None,
        bound_s=3.5, production_bound_s=602.0, reason="ranks 0 and 2 waited at the deadline",
        rerun="chaoskit run rank-stopped --seed 7", not_applicable=("TORCH_NCCL_DUMP_ON_TIMEOUT",),
    )  # fmt: skip
    return judged(
        result(control, verdict()),
        result(hung, result=Result.NOT_HELD, reason="the hardened arm hung"),
        result(name="cgroup", result=Result.SKIPPED, reason="no memory cgroup here"),
        result(verdict(scenario="shapes"), result=Result.NOT_NEEDED, reason="the control meets it"),
        result(verdict(scenario="late"), result=Result.INCONCLUSIVE, reason="not injected"),
    )


def test_at_80_columns(mixed: Judged, console: Make, printed: Callable[[Console], str]) -> None:
    target = console(80)
    print_summary(mixed, target)
    assert (
        printed(target)
        == """\
✓ rank-killed  held  [gloo]
    ✓ control   failed  410 ms        rank 1 killed
    ✓ hardened  failed  87 ms of 2 s  rank 1 killed
✗ rank-stopped  not held  [gloo]
    reason: the hardened arm hung
    ✗ hardened  hung    bound 3.5 s   rank 1 frozen  in production ~602 s
        fail: ranks 0 and 2 waited at the deadline
        where: train.py:31
        suffered from it: ranks 0, 2, 3
        rerun: chaoskit run rank-stopped --seed 7
- cgroup  skipped  [gloo]
    reason: no memory cgroup here
○ shapes  not needed  [gloo]
    reason: the control meets it
    ✓ hardened  failed  87 ms of 2 s  rank 1 killed
? late  inconclusive  [gloo]
    reason: not injected
    ✓ hardened  failed  87 ms of 2 s  rank 1 killed

5 scenarios, 5 arms in 1.23 s: 1 held, 1 not held, 1 not needed, 1
  inconclusive, 1 skipped
not held: rank-stopped
inconclusive: late
in production: the bound with the profile's unshortened durations;
  extrapolated, not measured
not applicable here: TORCH_NCCL_DUMP_ON_TIMEOUT (profile recommended)
seed 7, torch 2.13.0
run directory: runs/20260101-7
report: chaoskit report runs/20260101-7 --html
"""
    )


@pytest.mark.parametrize("width", WIDTHS)
def test_every_fact_is_there_within_the_width(
    width: int, mixed: Judged, console: Make, printed: Callable[[Console], str]
) -> None:
    target = console(width)
    print_summary(mixed, target)
    text = printed(target)
    for line in text.splitlines():
        assert cell_len(line) <= width or line.strip().startswith(COPIED)
    flat = re.sub(r"\s+", " ", text)
    for fact in (
        "not held", "not needed", "inconclusive", "skipped", "87 ms of 2 s", "bound 3.5 s",
        "in production ~602 s", "rank 1 frozen", "ranks 0 and 2 waited at the deadline",
        "chaoskit run rank-stopped --seed 7", "run directory: runs/20260101-7",
        "no memory cgroup here", "seed 7",
    ):  # fmt: skip
        assert fact in flat


@pytest.mark.parametrize("width", WIDTHS)
def test_plain_ascii_where_the_encoding_is_not_utf8(
    width: int,
    console: Make,
    printed: Callable[[Console], str],
    verdict: Callable[..., Verdict],
    result: Callable[..., ScenarioResult],
    judged: Callable[..., Judged],
) -> None:
    target = console(width, encoding="ascii")
    failed = verdict(scenario="größe", status=Status.FAIL, reason="漢字 " * 30)
    print_summary(judged(result(failed, result=Result.NOT_HELD, name="größe")), target)
    text = printed(target)
    assert r"x gr\xf6\xdfe  not held" in text
    assert r"\u6f22" in text


def test_colour_only_on_a_terminal(mixed: Judged, console: Make, printed: Callable[[Console], str]) -> None:
    plain, coloured = console(80), console(80, terminal=True)
    print_summary(mixed, plain)
    print_summary(mixed, coloured)
    assert "\x1b" not in printed(plain)
    assert re.sub(r"\x1b\[[0-9;]*m", "", printed(coloured)) == printed(plain)
    assert "\x1b[1;31m" in printed(coloured)


HOSTILE = st.text(st.characters(), max_size=60) | st.sampled_from(
    ["[bold]x[/]", "[/nothing]", ":smile:", "\x1b[2J\x1b[31m", "\u202etxet", "a\r\nb", "漢" * 90, "x" * 5000]
)


@settings(max_examples=60, deadline=None)
@given(text=HOSTILE, width=st.sampled_from(WIDTHS), encoding=st.sampled_from(["utf-8", "ascii", "latin-1"]))
def test_hostile_text_steers_nothing_and_loses_no_width(
    text: str,
    width: int,
    encoding: str,
    console: Make,
    printed: Callable[[Console], str],
    verdict: Callable[..., Verdict],
    result: Callable[..., ScenarioResult],
    judged: Callable[..., Judged],
) -> None:
    target = console(width, encoding=encoding)
    hostile = verdict(
        scenario=text, arm=text, profile=text, status=Status.FAIL, reason=text, where=text, rerun=text,
        culprits=(Culprit("host", text),), not_applicable=(text,),
    )  # fmt: skip
    print_summary(judged(result(hostile, result=Result.NOT_HELD, reason=text, name=text)), target)
    shown = printed(target)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)
    for line in shown.split("\n"):
        assert cell_len(line) <= width or line.strip().startswith(COPIED)


def test_markup_is_shown_as_written(
    console: Make,
    printed: Callable[[Console], str],
    verdict: Callable[..., Verdict],
    result: Callable[..., ScenarioResult],
    judged: Callable[..., Judged],
) -> None:
    target = console(200)
    failed = verdict(status=Status.FAIL, reason="[bold red]x[/] :smile: [link=http://x]y[/link]")
    print_summary(judged(result(failed, result=Result.NOT_HELD)), target)
    assert "fail: [bold red]x[/] :smile: [link=http://x]y[/link]" in printed(target)


def test_equal_repeats_are_one_row(
    console: Make,
    printed: Callable[[Console], str],
    verdict: Callable[..., Verdict],
    result: Callable[..., ScenarioResult],
    judged: Callable[..., Judged],
) -> None:
    target = console(120)
    print_summary(judged(result(*(verdict(repeat=n, latency_s=n / 100) for n in range(1, 51)))), target)
    text = printed(target)
    assert "✓ hardened  failed  10 ms to 500 ms of 2 s  rank 1 killed  50/50 equal" in text
    assert text.count("50/50") == 1


def test_a_divergence_is_listed_with_its_repeats(
    console: Make,
    printed: Callable[[Console], str],
    verdict: Callable[..., Verdict],
    result: Callable[..., ScenarioResult],
    judged: Callable[..., Judged],
) -> None:
    target = console(120)
    odd = [
        verdict(repeat=n, outcome=Outcome.HUNG, status=Status.FAIL, latency_s=None, reason="stuck")
        for n in (3, 17)
    ]
    even = [verdict(repeat=n) for n in range(1, 51) if n not in (3, 17)]
    print_summary(judged(result(*even, *odd, result=Result.NOT_HELD)), target)
    text = printed(target)
    assert "48/50 repeats" in text
    assert "2/50 repeats" in text
    assert "repeats: 3, 17" in text
    assert "fail: stuck" in text


def test_both_attempts_are_reported_and_a_reason_is_given_once(
    console: Make,
    printed: Callable[[Console], str],
    verdict: Callable[..., Verdict],
    result: Callable[..., ScenarioResult],
    judged: Callable[..., Judged],
) -> None:
    target = console(120)
    first = verdict(status=Status.FAIL, outcome=Outcome.OVERDUE, reason="30 ms late")
    second = verdict(status=Status.FAIL, attempt=2, reason="31 ms late")
    reason = "hardened (recommended): 31 ms late"
    late = result(first, second, result=Result.NOT_HELD, reason=reason)
    print_summary(judged(late, result(verdict(scenario="other"))), target)
    text = printed(target)
    assert "attempt 1 before: overdue, fail: 30 ms late" in text
    assert "    reason: hardened (recommended)\n" in text
    assert text.count("31 ms late") == 1


def test_an_interrupted_run_and_no_scenario_at_all(
    console: Make, printed: Callable[[Console], str], judged: Callable[..., Judged]
) -> None:
    target = console(80)
    print_summary(judged(interrupted=True), target)
    assert "interrupted: what was not finished is not judged" in printed(target)


def test_notes_of_all_arms_stand_above_them_and_stragglers_with_theirs(
    verdict: Callable[..., Verdict], result: Callable[..., ScenarioResult], judged: Callable[..., Judged],
    console: Make, printed: Callable[[Console], str],
) -> None:  # fmt: skip
    moved = "barrier #3 → all_reduce #9: the program issues 0 barriers"
    control = verdict(arm="control", notes=(moved,))
    hardened = verdict(notes=(moved, "result: unchecked \x1b[2J"), stragglers=(Culprit("rank", "2"),))
    target = console(100)
    print_summary(judged(result(control, hardened), result(verdict(scenario="other"))), target)
    lines = printed(target).splitlines()
    assert lines[1] == f"    note: {moved}"
    assert lines[3:6] == [
        "    ✓ hardened  failed  87 ms of 2 s  rank 1 killed",
        "        the others waited for: rank 2",
        "        note: result: unchecked \\x1b[2J",
    ]
    assert moved not in "".join(lines[2:])


def test_a_reason_that_all_share_is_said_once(
    verdict: Callable[..., Verdict], result: Callable[..., ScenarioResult], judged: Callable[..., Judged],
    console: Make, printed: Callable[[Console], str],
) -> None:  # fmt: skip
    why = "the program does not complete without any fault"
    arms = [
        verdict(
            arm=name, status=Status.INCONCLUSIVE, reason=why, outcome=None, where="", rerun=f"again {name}"
        )
        for name in ("control", "hardened")
    ]
    results = [
        result(*arms, result=Result.INCONCLUSIVE, reason=f"control: {why}", name=name) for name in ("a", "b")
    ]
    target = console(100)
    print_summary(judged(*results), target)
    text = printed(target)
    assert text.count(why) == 1
    assert f"? a  inconclusive  [gloo]\n    reason: {why}\n    ? control" in text
    assert "? b  inconclusive  [gloo]\n    reason: the same as of a\n    ? control" in text
    assert text.count("rerun: again hardened") == 2


def test_what_ended_a_job_stands_at_the_end_of_its_line(
    verdict: Callable[..., Verdict],
    result: Callable[..., ScenarioResult],
    judged: Callable[..., Judged],
    console: Make,
    printed: Callable[[Console], str],
) -> None:
    one = verdict(
        culprits=(Culprit("nic", "hostB docker0"),), kind=Kind.CONFIGURATION, ended_by=("nic_check",)
    )
    target = console(120)
    print_summary(judged(result(one)), target)
    assert "nic hostB docker0 configuration  ended by nic_check" in printed(target)


LONG = (
    "rank 1 was stopped (SIGSTOP) in all_reduce #6, which it had entered; all the others entered it too and "
    "waited"
)
EVIDENCE = (
    "the process of rank 1 was in state T (stopped) at each of four looks, over 3.0 s, and used no CPU time",
    "all other ranks were in all_reduce #6 at the deadline, in ProcessGroupGloo::AllreduceWork, and still",
    "rank 1 had entered all_reduce #6 at 1.158 s, before the last of them",
    "no other process was stopped",
)


def explained(ranks: int, verdict: Callable[..., Verdict]) -> dict[str, Verdict]:
    """Verdicts with all that one can have, of a job with so many ranks."""
    others = tuple(r for r in range(ranks) if r != 1)
    base: dict[str, object] = {
        "scenario": "rank-stopped", "kind": Kind.FROZEN, "cause": LONG, "evidence": EVIDENCE,
        "sureness": Sureness.CERTAIN, "at": Operation("all_reduce", "default", 6), "victims": others,
        "where": "/srv/project/train.py:44",
        "rerun": "chaoskit run rank-stopped --arm hardened --seed 1711216322",
        "production_bound_s": 602.0, "not_applicable": ("sidecar", "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC"),
    }  # fmt: skip
    hung = {"outcome": Outcome.HUNG, "latency_s": None}
    why = f"expected failed, was hung: {ranks_of(others)} waited at the deadline and {LONG}"
    return {
        "control": verdict(**{**base, **hung, "arm": "control", "profile": "torch-defaults"}),
        "held": verdict(**base, ended_by=("group_kill",)),
        "not held": verdict(**{**base, **hung}, status=Status.FAIL, reason=why),
        "unclear": verdict(**{**base, **hung}, status=Status.INCONCLUSIVE, reason=why),
        "late": verdict(**base, arm="control", status=Status.FAIL, reason=why),
    }


@pytest.mark.parametrize("ranks", [4, 64])
@pytest.mark.parametrize(
    ("control", "hardened", "outcome"),
    [
        ("control", "held", Result.HELD),
        ("control", "not held", Result.NOT_HELD),
        ("control", "unclear", Result.INCONCLUSIVE),
        ("late", "held", Result.INCONCLUSIVE),
        ("late", "not held", Result.NOT_HELD),
    ],
)
def test_one_scenario_alone_is_told_in_15_lines(
    ranks: int, control: str, hardened: str, outcome: Result, verdict: Callable[..., Verdict],
    result: Callable[..., ScenarioResult], judged: Callable[..., Judged], console: Make,
    printed: Callable[[Console], str],
) -> None:  # fmt: skip
    verdicts = explained(ranks, verdict)
    chosen = verdicts[control], verdicts[hardened]
    reason = "without it: hung" if outcome is Result.HELD else f"hardened (recommended): {chosen[1].reason}"
    target = console(120)
    print_summary(judged(result(*chosen, result=outcome, reason=reason)), target)
    lines = printed(target).splitlines()
    assert len(lines) <= 15, "\n".join(lines)
    text = "\n".join(lines)
    for fact in (
        "rank 1 frozen", "cause (certain): rank 1 was stopped (SIGSTOP)", "evidence: the process of rank 1",
        "where: /srv/project/train.py:44", "suffered from it: ranks 0, 2", "rerun: chaoskit run",
        "run directory: runs/20260101-7", "report: chaoskit report runs/20260101-7 --html", "seed 7",
    ):  # fmt: skip
        assert fact in text
    assert all(cell_len(line) <= 120 for line in lines)


def test_of_many_scenarios_what_is_held_takes_no_room(
    verdict: Callable[..., Verdict], result: Callable[..., ScenarioResult], judged: Callable[..., Judged],
    console: Make, printed: Callable[[Console], str],
) -> None:  # fmt: skip
    verdicts = explained(4, verdict)
    target = console(120)
    held = result(verdicts["control"], verdicts["held"])
    print_summary(judged(held, result(verdicts["not held"], result=Result.NOT_HELD, name="other")), target)
    text = printed(target)
    assert text.count("cause (certain): ") == 1
    assert text.count("evidence: ") == 2
    assert "(and 2 more)" in text


@pytest.mark.parametrize("width", [120, 72, 40])
@settings(deadline=None, max_examples=60)
@given(text=st.text(alphabet=st.sampled_from("a: #[]\n"), max_size=200))
def test_nothing_printed_is_a_command_of_a_github_job(
    width: int, text: str, verdict: Callable[..., Verdict], result: Callable[..., ScenarioResult],
    judged: Callable[..., Judged], console: Make, printed: Callable[[Console], str],
) -> None:  # fmt: skip
    hostile = f"{text}##[error]x ::error::x {'y' * 120}::error::x"
    bad = verdict(
        status=Status.FAIL, reason=hostile, cause=hostile, evidence=(hostile,), sureness=Sureness.LIKELY
    )
    target = console(width)
    print_summary(judged(result(bad, result=Result.NOT_HELD, reason=hostile, name=hostile)), target)
    for line in printed(target).splitlines():
        assert not line.strip().startswith("::")
        assert "##[" not in line
