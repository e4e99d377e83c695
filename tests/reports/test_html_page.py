"""The page as text: whole without files, small whatever comes, and nothing in it is more than text."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import html as markup
import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import html_arms
import pytest

from chaoskit import recorded
from chaoskit.arm_record import ArmRecord
from chaoskit.evidence.findings import RankFindings, ThreadStack
from chaoskit.history import GuardFired, Identity, Raised, Started
from chaoskit.model import Contract, Culprit, Outcome, Profile, Status, Verdict
from chaoskit.reports import html
from chaoskit.reports.html import page as page_module
from chaoskit.reports.html.level import PAGE_BYTES
from chaoskit.request import WATCH

PASSED = dataclasses.replace(html_arms.VERDICT, status=Status.PASS, cause="", scenario="fine")


def page(*arms: ArmRecord, verdicts: tuple[Verdict, ...] = ()) -> str:
    stream = io.StringIO()
    judged = html_arms.judged(*(verdicts or [a.verdict for a in arms]))
    html.write(judged, iter(arms), stream, {"torch": "2.13.0", "python": "3.11"})
    return stream.getvalue()


class Parts(HTMLParser):
    """The elements of a page with their attributes, and what stands in scripts and elsewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self.words = ""
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag
        self.words += " "

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts.append(data)
        elif self._inside == "style":
            self.styles.append(data)
        else:
            self.words += data


def words(text: str) -> str:
    return " ".join(Parts(text).words.split())


def test_the_page_says_what_happened_without_any_script() -> None:
    said = words(page(html_arms.arm()))
    for part in (
        "rank 1 stopped before all_reduce #20; the others wait in it",
        "rank 1 frozen, certain",
        "ranks 0, 2, 3: failed or waited for want of another",
        "its process is stopped",
        "nothing: chaoskit ended it at the deadline",
        "bound ~80 s (extrapolated, not measured)",
        "outcome failed hung ✗ broken",
        "left behind nothing nothing ✓ kept",
        "the fault stop fires before all_reduce #20",
        "3 ranks here: ranks 0, 2, 3 waiting",
        "1 rank here: rank 1 stopped",
        "2 outermost frames that all have in common",
        "chaoskit run rank-stopped --arm hardened --seed 7",
        "torch 2.13.0",
        "time scale 0.025 of the production durations",
        "TORCH_NCCL_BLOCKING_WAIT=1",
    ):
        assert part in said, part


def test_the_page_asks_for_nothing_and_forbids_itself_the_rest() -> None:
    text = page(html_arms.arm())
    parts = Parts(text)
    for tag, attributes in parts.elements:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base")
        assert not {"src", "style", "action", "srcset", "background"} & set(attributes), (tag, attributes)
        assert not [name for name in attributes if name.startswith("on")]
        assert (attributes.get("href") or "#").startswith("#")
    assert not re.search(r"url\(|@import|https?://", "".join(parts.styles))
    policy = next(a["content"] for _, a in parts.elements if a.get("http-equiv"))
    assert policy is not None
    for body, kind in ((parts.scripts[-1], "script"), (parts.styles[0], "style")):
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")


def hostile_arm(text: str = html_arms.HOSTILE) -> ArmRecord:
    """An arm in which every text is ``text``."""
    verdict = dataclasses.replace(
        html_arms.VERDICT,
        scenario=text, arm=text, profile=text, reason=text, cause=text, where=text, rerun=text,
        evidence=(text,), notes=(text,), ended_by=(text,), not_applicable=(text,),
        culprits=(Culprit("host", text),),
    )  # fmt: skip
    contract = Contract(Outcome.FAILED, culprits=(Culprit("nic", text),), says=text)
    plan = html_arms.plan(
        scenario=text, contract=contract, profile=Profile(text, text, (), ((text, text),)), rerun=text
    )
    members = (0, 1)
    events = [
        Started(1.0, 0, 5),
        Identity(1.1, 0, 0, 0, 2, text, 5, text, text, text, (text,), (text,)),
        *(dataclasses.replace(e, op=text, group=text, site=text, shape=text, dtype=text, members=members)
          for e in html_arms.events() if type(e).__name__ == "Entered"),
        GuardFired(20.0, 0, text, 84, text),
        Raised(21.0, 0, text, text, "own", text, (text,)),
    ]  # fmt: skip
    stack = ThreadStack(text, 1, True, (f"{text} ({text}:1)", text), text)
    other = dataclasses.replace(stack, main=False)
    findings = (RankFindings(0, text, (stack, other), text, (text,)), RankFindings(1, "S"))
    return ArmRecord(
        Path(text.replace("\0", "").replace("/", "")), verdict, plan, recorded.gathered(events), findings,
        {"rank 0": (text,), "launcher": (text,)}, (text,),
    )  # fmt: skip


def test_hostile_texts_stay_texts() -> None:
    calm, hostile = Parts(page(hostile_arm("calm"))), Parts(page(hostile_arm()))
    assert [tag for tag, _ in hostile.elements] == [tag for tag, _ in calm.elements]
    assert [sorted(a) for _, a in hostile.elements] == [sorted(a) for _, a in calm.elements]
    assert "<img src=x" in hostile.words  # seen as what it is
    assert "\\u202e" in hostile.words


def test_no_character_of_the_page_hides_or_reorders_others() -> None:
    text = page(hostile_arm())
    for char in "\u202e\u2028\x1b\x00":
        assert char not in text
        assert f"&#{ord(char)};" not in text


def test_the_data_of_a_timeline_is_json_whatever_the_names_are() -> None:
    scripts = Parts(page(hostile_arm())).scripts
    data = json.loads(scripts[0])
    assert "<img src=x" in data["forms"][0][1]


@pytest.mark.parametrize(
    "changes",
    [
        {"plan": None},
        {"findings": ()},
        {"recorded": recorded.Recorded()},
        {"plan": None, "findings": (), "recorded": recorded.Recorded()},
        {"recorded": recorded.gathered([e for e in html_arms.events() if e.slot < 0])},
        {"recorded": recorded.gathered(e for e in html_arms.events() if type(e).__name__ == "Entered")},
    ],
)
def test_what_is_missing_is_said_and_the_rest_is_shown(changes: dict[str, object]) -> None:
    said = words(page(html_arms.arm(problems=("its history is cut off",), **changes)))
    assert (
        "This arm's files are not whole. What follows is what they still say. its history is cut off" in said
    )
    assert "rank 1 stopped before all_reduce #20" in said
    assert "chaoskit run rank-stopped" in said


def test_arms_without_a_record_are_shown_by_their_verdict() -> None:
    said = words(page(html_arms.arm(), verdicts=(html_arms.VERDICT, PASSED)))
    assert "the files of this arm are not there" in said


@pytest.mark.parametrize(("arms", "passed_is"), [(8, " open"), (9, "")])
def test_few_arms_are_open_of_many_those_that_passed_are_folded(arms: int, passed_is: str) -> None:
    text = page(html_arms.arm(), *[html_arms.arm(PASSED)] * (arms - 1))
    first, *others = re.findall(r'<section class="arm \w+"[^>]*>\s*<details( open)?>', text)
    assert (first, {*others}) == (" open", {passed_is})


def test_a_watched_program_has_its_name_and_fails() -> None:
    bad = dataclasses.replace(html_arms.VERDICT, scenario=WATCH, arm=WATCH)
    stream = io.StringIO()
    judged = dataclasses.replace(html_arms.judged(bad), programs=("loop.py",))
    html.write(judged, iter([html_arms.arm(bad)]), stream, {})
    assert "<title>chaoskit: loop.py</title>" in stream.getvalue()
    said = words(stream.getvalue())
    assert "✗ 1 fail" in said
    assert "loop.py / watched" in said
    assert "not held" not in said


def test_frames_of_chaoskit_are_folded_and_a_box_with_victims_is_not_red() -> None:
    frames = (
        "fire (/x/chaoskit/faults/stop.py:3)",
        "around (/x/chaoskit/rank/tap.py:9)",
        "main (/a/train.py:3)",
    )
    found = [RankFindings(n, "S", (ThreadStack("MainThread", 1, True, frames),), "py-spy") for n in (0, 1)]
    arm = dataclasses.replace(html_arms.arm(), findings=tuple(found))
    said = words(page(arm))
    assert "2 frames of chaoskit" in said
    assert "ranks 0, 1 (culprit: rank 1; victims: rank 0)" in said
    assert 'class="stack culprit"' not in page(arm)


def test_on_paper_a_timeline_is_drawn_for_the_paper() -> None:
    style = Parts(page(html_arms.arm())).styles[0]
    assert ".tl-area canvas { width: 100% !important; }" in style
    assert ":root.paper .tl-ends { display: block; }" in style


def test_arms_are_read_one_at_a_time() -> None:
    held: list[int] = []

    def arms() -> Iterator[ArmRecord]:
        for n in range(3):
            held.append(n)
            yield html_arms.arm()

    class Stream(io.StringIO):
        def write(self, text: str) -> int:
            seen.append(len(held))
            return super().write(text)

    seen: list[int] = []
    html.write(html_arms.judged(*[html_arms.VERDICT] * 3), arms(), Stream(), {})
    assert seen == [0, 1, 2, 3, 3]


def size(text: str) -> int:
    return len(text.encode())


def test_one_huge_arm_fits() -> None:
    noise = [Raised(20.0 + n, n % 4, "E", f"{n}" * 500, "own") for n in range(2500)]
    made = html_arms.arm(
        recorded=recorded.gathered([*html_arms.events(operations=13_000), *noise]),
        output={f"rank {n}": ("x" * 500,) * 20 for n in range(4)},
    )
    text = page(made)
    assert size(text) <= PAGE_BYTES
    assert "of 51999 operations one by one" in words(text)


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> int:
    """Pages of a megabyte: their limit is reached with fewer arms."""
    monkeypatch.setattr(page_module, "PAGE_BYTES", 1 << 20)
    monkeypatch.setattr(page_module, "SUMMARY_BYTES", 1 << 18)
    return 1 << 20


def test_many_arms_fit_and_all_are_there_failed_ones_with_more(small_pages: int) -> None:
    long = recorded.gathered(html_arms.events(operations=200))
    names = [f"scenario-{n}" for n in range(58)]
    verdicts = [
        dataclasses.replace(html_arms.VERDICT if n % 29 == 0 else PASSED, scenario=name)
        for n, name in enumerate(names)
    ]
    text = page(*(html_arms.arm(v, recorded=long) for v in verdicts))
    assert size(text) <= small_pages
    assert all(f'id="arm-{n + 1}"' in text for n in range(58))
    assert text.count('<figure class="timeline"') == 58
    arms = re.split(r'<section class="arm', text.partition("<h2>Profiles")[0])[1:]
    whole = ["the others summed up" not in arm for arm in arms]
    assert all(w for w, v in zip(whole, verdicts, strict=True) if v.status is Status.FAIL)
    assert not whole[1]


def test_hundreds_of_hostile_arms_fit_and_what_is_left_out_is_counted(small_pages: int) -> None:
    verdict = dataclasses.replace(
        html_arms.VERDICT, scenario=html_arms.HOSTILE * 3, reason="&" * 3000, evidence=("<" * 3000,) * 50
    )
    made = html_arms.arm(verdict, recorded=recorded.Recorded(), findings=())
    text = page(*[made] * 300)
    assert size(text) <= small_pages
    assert "the page would be too large" in text


def test_jinja_is_not_loaded_by_the_command_line() -> None:
    script = "import sys, chaoskit.cli, chaoskit.cli.reporting; sys.exit('jinja2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_the_scripts_and_templates_are_beside_the_package() -> None:
    folder = Path(html.__file__).parent / "templates"
    found = {p.name for p in folder.iterdir()}
    assert found >= {"arm.html", "draw.js", "decode.js", "report.css"}
    assert markup.escape("<") == "&lt;"  # this `html` is the package, that one the standard library's
