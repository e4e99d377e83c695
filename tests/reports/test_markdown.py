"""The Markdown summary: what it says, what it leaves out, and that hostile text stays text.

A real parser with tables decides what is a link, an HTML tag, a heading.
"""

from __future__ import annotations

import dataclasses
import html
import re
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from chaoskit.model import Outcome, Result, ScenarioResult, Status, Verdict
from chaoskit.reports import markdown
from chaoskit.reports.judged import Judged
from chaoskit.reports.wording import safe
from chaoskit.request import WATCH
from chaoskit.verdict import Sureness

PARSER = MarkdownIt("commonmark").enable("table")
NASTY = "@team #1 [x](http://x) <img src=x> `a` ``b`` | * _ ~ \\ \n# h\r\n\n</details>&amp; \\| https://x.y"


def tokens(text: str) -> Iterator[Token]:
    for token in PARSER.parse(text):
        yield token
        yield from token.children or ()


def test_the_whole(
    verdict: Callable[..., Verdict], result: Callable[..., ScenarioResult], judged: Callable[..., Judged]
) -> None:
    failed = verdict(
        scenario="rank-stopped", status=Status.FAIL, outcome=Outcome.HUNG, latency_s=None,
        reason="rank 2 hung", cause="rank 1 was killed", sureness=Sureness.CERTAIN,
        evidence=("it ended with SIGKILL",),
    )  # fmt: skip
    said = markdown.render(judged(result(verdict()), result(failed, result=Result.NOT_HELD)))
    assert (
        said
        == """\
### chaoskit: 1 held, 1 not held

2 scenarios, 2 arms in 1.23 s.

| scenario | result | arm | outcome | latency of bound | culprit |
|---|---|---|---|---|---|
| `rank-stopped [gloo]` | ❌ not held | `hardened` | hung (fail) | bound 2 s | `rank 1 killed` |
| `rank-killed [gloo]` | ✅ held | `hardened` | failed | 87 ms of 2 s | `rank 1 killed` |

<details><summary><code>rank-stopped / hardened</code></summary>

```text
status: fail
outcome: hung
culprit: rank 1 killed
reason: rank 2 hung
cause (certain): rank 1 was killed
evidence: it ended with SIGKILL
where: train.py:31
suffered from it: ranks 0, 2, 3
latency: bound 2 s
backend: gloo
profile: recommended
rerun: chaoskit run rank-killed --arm hardened --seed 7
```

</details>

`seed 7, torch 2.13.0`, run directory `runs/20260101-7`
"""
    )


def test_a_skipped_scenario_says_why_and_an_interrupted_run_so(
    result: Callable[..., ScenarioResult], judged: Callable[..., Judged]
) -> None:
    said = markdown.render(judged(result(result=Result.SKIPPED, reason="no cgroup here"), interrupted=True))
    assert "| ➖ skipped |  |  |  | `no cgroup here` |" in said
    assert "Interrupted: what was not finished is not judged." in said
    assert markdown.render(judged()).startswith("### chaoskit: nothing was judged\n")


@settings(deadline=None, max_examples=200)
@given(
    text=st.one_of(
        st.text(max_size=80),
        st.text(alphabet=st.sampled_from("`|\\ \n<>@#[]()*_~!-=:&;a/"), max_size=60),
        st.just(NASTY),
    )
)
def test_hostile_text_stays_text(
    text: str, verdict: Callable[..., Verdict], result: Callable[..., ScenarioResult],
    judged: Callable[..., Judged],
) -> None:  # fmt: skip
    bad = verdict(
        scenario=text, arm=text, status=Status.FAIL, reason=text, where=text, cause=text, evidence=(text,),
        rerun=text, profile=text, notes=(text,),
    )  # fmt: skip
    said = markdown.render(judged(result(bad, result=Result.NOT_HELD, reason=text, name=text)))
    found = list(tokens(said))
    kinds = {t.type for t in found}
    assert not kinds & {"link_open", "image", "html_inline", "em_open", "strong_open", "code_block"}
    assert sum(t.type == "heading_open" for t in found) == 1
    assert sum(t.type == "table_open" for t in found) == 1
    assert sum(t.type == "td_open" for t in found) == 6
    assert sum(t.type == "fence" for t in found) == 1
    blocks = [t.content.strip() for t in found if t.type == "html_block"]
    assert len(blocks) == 2
    assert re.fullmatch(r"<details><summary><code>[^<>]*</code></summary>", blocks[0])
    assert blocks[1] == "</details>"
    assert not [t for t in found if t.type == "text" and ("@" in t.content or "//" in t.content)]
    (block,) = (t.content for t in found if t.type == "fence")
    assert f"reason: {safe(text, longest=600)}\n" in block or not text
    assert html.unescape(blocks[0]).count("</code>") >= 1


def test_of_too_much_the_failures_stand_first_and_the_rest_is_counted(
    verdict: Callable[..., Verdict], result: Callable[..., ScenarioResult], judged: Callable[..., Judged]
) -> None:
    long = "y" * 3000
    held = [result(verdict(scenario=f"held-{n}-{long}")) for n in range(400)]
    bad = verdict(status=Status.FAIL, reason=long, evidence=(long,) * 50, notes=(long,) * 50)
    failed = [result(bad, result=Result.NOT_HELD, name=f"bad-{n}") for n in range(40)]
    said = markdown.render(judged(*held, *failed))
    assert len(said) <= markdown.CHARACTERS_MAX
    assert said.index("`bad-0 [gloo]`") < said.index("bad-39") < said.index("held-0")
    left = re.search(r"(\d+) more rows left out\.", said)
    assert left is not None
    assert int(left[1]) + said.count("\n| `") == 440
    hidden = re.search(r"Details of (\d+) more arms left out\.", said)
    assert hidden is not None
    assert int(hidden[1]) + said.count("<details>") == 40
    assert said.count("<details>") == said.count("</details>")
    assert "more lines left out)" in said


@pytest.mark.parametrize("count", [1, 50])
def test_equal_repeats_are_one_row(
    count: int, verdict: Callable[..., Verdict], result: Callable[..., ScenarioResult],
    judged: Callable[..., Judged],
) -> None:  # fmt: skip
    said = markdown.render(judged(result(*(verdict(repeat=n + 1) for n in range(count)))))
    assert said.count("`hardened`") == 1
    assert ("×50" in said) is (count == 50)


def test_a_watched_program_has_no_scenario(
    verdict: Callable[..., Verdict], result: Callable[..., ScenarioResult], judged: Callable[..., Judged]
) -> None:
    bad = verdict(scenario=WATCH, arm=WATCH, status=Status.FAIL, outcome=Outcome.HUNG, latency_s=None)
    said = markdown.render(judged(result(bad, result=Result.NOT_HELD)))
    assert said.startswith("### chaoskit: 1 fail\n")
    of = judged(result(bad, result=Result.NOT_HELD))
    said = markdown.render(dataclasses.replace(of, programs=("loop.py",)))
    assert "| `loop.py [gloo]` | ❌ fail | `watch` | hung (fail) |" in said
    assert "<summary><code>loop.py</code></summary>" in said
