"""The pages made of a claims JSON, and what a JSON that is none is told."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from chaoskit.claims.values import Answer
from chaoskit.errors import InvalidInput
from chaoskit.model import Status, Verdict
from chaoskit.reports.claims import markdown, page, terminal
from chaoskit.reports.claims.progress import ClaimsProgress
from chaoskit.reports.console import console_for
from chaoskit.request import ArmId

HOSTILE = "<script>|[x](javascript:1) `@all` \x1b[31m ##[group]\n| new"


def claim(name: str = "one", answer: Answer = Answer.TRUE, **more: object) -> dict[str, Any]:
    trial = {"scenario": "rank-stopped", "timeouts": "T = 3 s", "answer": answer.value, "says": "ended"}
    return {
        "name": name, "backend": "gloo", "told": "it helps", "source": ["a page"], "setting": [],
        "meant_for": ["gloo", "nccl"], "answer": answer.value, "says": "rank-stopped: ended",
        "trials": [trial], **more,
    }  # fmt: skip


def body(*claims: dict[str, Any], torch: str = "2.13.0+cpu") -> str:
    on = {"torch": torch, "python": "3.11.7", "kernel": "6.1", "cores": 2, "load": 0.5, "chaoskit": "0.1.0"}
    ran = {"repeats": 3, "seed": 7, "wall_s": 1.0, "interrupted": False, "run_dir": "runs/x"}
    return json.dumps({"schema_version": 1, **on, **ran, "claims": list(claims)})


def read(*claims: dict[str, Any], torch: str = "2.13.0+cpu") -> page.Page:
    return page.read(body(*claims, torch=torch), "x.json")


def test_what_breaks_healthy_jobs_stands_first() -> None:
    text = markdown.render(read(claim("fine"), claim("bad", Answer.HARMFUL)))
    assert text.index("| bad |") < text.index("| fine |")
    assert "**harmful**: a healthy job" in text


def test_nothing_that_a_file_says_is_markdown_or_html() -> None:
    trial = {"scenario": HOSTILE, "timeouts": "", "answer": "true", "says": HOSTILE}
    made = read(claim(HOSTILE, told=HOSTILE, source=[HOSTILE], trials=[trial]))
    (row,) = [line for line in markdown.render(made).splitlines() if "script" in line]
    assert row.replace(r"\|", "").count("|") == 5  # four cells
    assert "<script" not in row
    assert "[x](" not in row.replace(r"\[", "").replace(r"\]", "")
    assert "\x1b" not in row
    assert "##[" not in row


def test_the_terminal_gets_no_control_characters() -> None:
    stream = io.StringIO()
    terminal.print_page(read(claim(HOSTILE, told=HOSTILE, says=HOSTILE)), console_for(stream))
    assert "\x1b" not in stream.getvalue()
    assert not any(line.lstrip().startswith("##[") for line in stream.getvalue().splitlines())


def test_versions_stand_in_order_and_what_differs_comes_first() -> None:
    old = read(claim("a"), claim("b"), torch="2.6.0+cu124")
    new = read(claim("a"), claim("b", Answer.HARMFUL), torch="2.13.0")
    text = markdown.versions([(new, "torch-2.13.md"), (old, "torch-2.6.md")])
    assert text.index("2.6.0") < text.index("2.13.0")
    differing, _, same = text.partition("## The same")
    assert "| b | gloo | true | harmful |" in differing
    assert "| a | gloo | true | true |" in same


def test_where_nothing_was_run_is_told() -> None:
    text = markdown.render(read(claim("a", meant_for=["nccl"]), claim("b")))
    assert "**Not run on nccl**. 1 claim of these" in text
    assert "| a | gloo (told of nccl) |" in markdown.versions(
        [(read(claim("a", meant_for=["nccl"])), "x.md")]
    )
    assert "**Nothing here was run on nccl.**" in markdown.versions([(read(claim()), "x.md")])
    everywhere = read(claim("a"), claim("a", backend="nccl"))
    assert "ot run on" not in markdown.render(everywhere)


def test_only_answers_are_compared() -> None:
    before = read(claim("a"), claim("b"), claim("c"), claim("gone"))
    now = read(claim("a", Answer.NO_EFFECT), claim("b", Answer.UNSTEADY), claim("c"), claim("new"))
    assert [(old.name, new.answer) for old, new in page.changed(before, now)] == [("a", Answer.NO_EFFECT)]


def test_how_many_were_compared_is_told() -> None:
    before, stream = read(claim("a"), claim("b"), torch="2.6.0"), io.StringIO()
    terminal.print_changes(before, read(claim("a"), claim("new")), console_for(stream))
    terminal.print_changes(before, read(claim("new")), console_for(stream))
    text = " ".join(stream.getvalue().split())
    assert "compared with torch 2.6.0: 1 claim, no answer differs" in text
    assert "nothing could be compared" in text


def test_claims_that_were_not_run_for_one_reason_are_told_together() -> None:
    stream, says = io.StringIO(), "not run here: no GPU; no NCCL"
    rows = [claim(name, Answer.NOT_RUN, says=says) for name in ("a", "b", "c")]
    terminal.print_page(read(*rows), console_for(stream))
    assert "3 claims not run: a, b, c" in stream.getvalue()
    assert stream.getvalue().count(says) == 1


def test_a_reason_that_skips_all_runs_is_said_once() -> None:
    stream = io.StringIO()
    progress = ClaimsProgress(console_for(stream))
    for arm in ("one", "two"):
        verdict = Verdict("s", arm, 1, 1, "nccl", arm, Status.SKIPPED, "no GPU")
        progress.arm_ended(ArmId("s", arm, "nccl", 1, 1), verdict)
    assert stream.getvalue().count("no GPU") == 1


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", "[" * 100_000, '{"schema_version": 2}', body(claim(answer=Answer.TRUE, told=5)),
        body(claim()).replace('"true"', '"maybe"'), body(claim()).replace('"cores": 2', '"cores": []'),
    ],
)  # fmt: skip
def test_what_is_no_json_of_claims_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="is no JSON of claims"):
        page.read(text, "x.json")
