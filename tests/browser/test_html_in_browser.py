"""The HTML report in a real browser: nothing fails, nothing is asked for, and it does what it says.

Skipped where there is no browser (Debian: apt-get install chromium). One browser serves all tests.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Iterator
from pathlib import Path

import html_arms
import pytest
from browser.chromium import Chromium, browser, found

from chaoskit import recorded
from chaoskit.arm_record import ArmRecord
from chaoskit.history import Raised
from chaoskit.model import Status
from chaoskit.reports import html
from chaoskit.reports.html import timeline

pytestmark = pytest.mark.skipif(found() is None, reason="no browser here: apt-get install chromium")
CANVAS = "document.querySelector('.tl-area canvas')"
VIEW = "(() => { const d = document.querySelector('figure.timeline').dataset; return [+d.from, +d.to]; })()"
DRAWN = "!!document.querySelector('figure.timeline.drawn')"


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with browser(tmp_path_factory.mktemp("chromium")) as one:
        yield one


def shown(one: Chromium, folder: Path, *arms: ArmRecord, height: int = 900) -> None:
    """Open a report of ``arms`` and wait for its first timeline."""
    stream = io.StringIO()
    html.write(html_arms.judged(*(a.verdict for a in arms)), iter(arms), stream, {"torch": "2.13.0"})
    path = folder / "report.html"
    path.write_text(stream.getvalue(), encoding="utf-8")
    one.open(path, height=height)
    one.evaluate("document.querySelector('figure.timeline').scrollIntoView()")
    one.until(DRAWN)


@pytest.fixture
def opened(chromium: Chromium, tmp_path: Path) -> Iterator[Chromium]:
    """A browser with the report of an arm that hung; what went wrong in it fails the test."""
    shown(chromium, tmp_path, html_arms.arm())
    yield chromium
    chromium.media("light")
    assert chromium.said == []
    assert chromium.asked == [(tmp_path / "report.html").as_uri()]


def texts(one: Chromium, selector: str) -> list[str]:
    found: list[str] = one.evaluate(f"[...document.querySelectorAll({selector!r})].map((e) => e.textContent)")
    return found


def test_each_rank_has_a_row_and_the_culprit_is_marked(opened: Chromium) -> None:
    assert texts(opened, ".tl-name") == ["rank 0victim", "rank 1culprit", "rank 2victim", "rank 3victim"]
    assert texts(opened, ".tl-names .tl-host") == ["host0", "host1"]
    assert texts(opened, ".tl-ends .tl-end") == ["ended by chaoskit"] * 4
    assert texts(opened, ".tl-legend > span")[0] == "all_reduce"
    assert {"waiting for others", "stopped", "injection", "guard fired", "signal"} <= set(
        texts(opened, ".tl-legend > span")
    )


def pixels(one: Chromium, row: int) -> list[str]:
    """The colours of the middle of a row, from left to right."""
    return one.evaluate(  # type: ignore[no-any-return]
        f"""(() => {{
          const canvas = {CANVAS}, ratio = canvas.width / canvas.clientWidth;
          const names = document.querySelector('.tl-body').getBoundingClientRect();
          const label = document.querySelectorAll('.tl-name')[{row}].getBoundingClientRect();
          const y = Math.round((label.top - names.top + label.height / 2) * ratio);
          const copy = new OffscreenCanvas(canvas.width, 1).getContext('2d', {{ willReadFrequently: true }});
          copy.drawImage(canvas, 0, -y);
          const d = copy.getImageData(0, 0, canvas.width, 1).data;
          return Array.from({{ length: canvas.width }}, (_, x) => [...d.slice(x * 4, x * 4 + 3)].join());
        }})()"""
    )


def test_rows_are_drawn_as_long_as_their_ranks_live(opened: Chromium) -> None:
    waiting, working = pixels(opened, 2), pixels(opened, 1)
    # Rank 2 waits in the last operation until the deadline, rank 1 is outside of operations.
    right = slice(len(waiting) // 4, len(waiting) * 4 // 5)
    assert len(set(waiting[right])) > 3
    assert len(set(working[right])) <= len(set(waiting[right]))
    assert working[-1] != working[len(working) // 2]


def place(one: Chromium, row: int, share: float) -> tuple[float, float]:
    """Where on the screen a row is, at a share of its length."""
    x, y = one.evaluate(
        f"""(() => {{
          const area = {CANVAS}.getBoundingClientRect();
          const label = document.querySelectorAll('.tl-name')[{row}].getBoundingClientRect();
          return [area.left + area.width * {share}, label.top + label.height / 2];
        }})()"""
    )
    return x, y


TIP = "(document.querySelector('.tip > div')?.textContent ?? '')"


def test_pointing_at_an_operation_tells_all_of_it(opened: Chromium) -> None:
    opened.mouse("mouseMoved", *place(opened, 2, 0.6))
    opened.until(f"{TIP} !== ''")
    lines = texts(opened, ".tip > div")
    assert lines[0] == "all_reduce #20, never ended"
    assert lines[1] == "rank 2, group default, step 20"
    assert any(line.startswith("waiting for others 3.6") for line in lines)
    assert "train.py:31" in lines
    assert lines[-1].endswith("from the injection")
    opened.mouse("mouseMoved", *place(opened, 1, 0.6))
    opened.until(f"{TIP} !== {lines[0]!r}")
    assert texts(opened, ".tip > div")[:2] == ["rank 1", "stopped"]
    opened.mouse("mouseMoved", 1, 1)
    opened.until("getComputedStyle(document.querySelector('.tip')).display === 'none'")


def settled_view(one: Chromium) -> tuple[float, float]:
    one.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    low, high = one.evaluate(VIEW)
    return low, high


def next_view(one: Chromium, before: tuple[float, float]) -> tuple[float, float]:
    """The view once it is no longer ``before``: on a busy machine an event may take some frames."""
    one.until(f"(([low, high]) => low !== {before[0]!r} || high !== {before[1]!r})({VIEW})")
    return settled_view(one)


def test_buttons_keys_wheel_and_dragging_zoom_and_move(opened: Chromium) -> None:
    low, high = settled_view(opened)
    opened.evaluate("document.querySelector('.tl-zoom [aria-label^=\"Zoom in\"]').click()")
    near = next_view(opened, (low, high))
    assert near[1] - near[0] == pytest.approx((high - low) / 2)
    opened.evaluate(f"{CANVAS}.focus()")
    opened.key("+")
    nearer = next_view(opened, near)
    assert nearer[1] - nearer[0] == pytest.approx((high - low) / 4)
    opened.key("ArrowRight", code="ArrowRight", windowsVirtualKeyCode=39)
    moved = next_view(opened, nearer)
    assert moved[0] > nearer[0]
    x, y = place(opened, 2, 0.5)
    opened.mouse("mouseWheel", x, y, deltaX=0, deltaY=-100, modifiers=2)
    before = next_view(opened, moved)
    assert before[1] - before[0] < nearer[1] - nearer[0]
    opened.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
    opened.mouse("mouseMoved", x - 100, y, button="left", buttons=1)
    opened.mouse("mouseReleased", x - 100, y, button="left")
    dragged = next_view(opened, before)
    assert dragged[0] > before[0]
    opened.key("0")
    assert next_view(opened, dragged) == pytest.approx((low, high))


def test_dark_and_light_follow_the_system(opened: Chromium) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    light, drawn = opened.evaluate(ground), pixels(opened, 2)
    opened.media("dark")
    dark = opened.evaluate(ground)
    assert (light, dark) == ("rgb(255, 255, 255)", "rgb(20, 24, 29)")
    settled_view(opened)
    assert pixels(opened, 2) != drawn


def contrasts(one: Chromium) -> list[tuple[float, str]]:
    """The contrast of each kind of text against its ground, the lowest first."""
    found = one.evaluate(
        """(() => {
          const light = (c) => { const [r, g, b] = c.match(/[\\d.]+/g).map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
          const ground = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (!/, 0\\)$/.test(c)) return c; } return "rgb(255,255,255)"; };
          const seen = new Map();
          for (const e of document.querySelectorAll("body *")) {
            if (!e.offsetParent || ![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
            const [a, b] = [light(getComputedStyle(e).color), light(ground(e))].sort((x, y) => y - x);
            seen.set(`${e.tagName}.${e.className}`, (a + 0.05) / (b + 0.05));
          }
          return [...seen].map(([name, ratio]) => [ratio, name]).sort((x, y) => x[0] - y[0]);
        })()"""  # noqa: E501
    )
    return [(ratio, name) for ratio, name in found]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read(opened: Chromium, scheme: str) -> None:
    opened.media(scheme)
    opened.evaluate("document.querySelectorAll('details').forEach((d) => (d.open = true))")
    assert contrasts(opened)[0] >= (4.5, "")


def test_on_paper_everything_is_open_and_light(opened: Chromium, tmp_path: Path) -> None:
    opened.media("dark")
    opened.pdf(tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").stat().st_size > 20_000
    opened.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert opened.evaluate("document.querySelectorAll('details:not([open])').length") == 0
    assert opened.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert opened.evaluate(f"{CANVAS}.clientWidth") <= 690
    opened.evaluate("dispatchEvent(new Event('afterprint'))")
    assert opened.evaluate("document.querySelectorAll('details:not([open])').length") > 0


def test_nothing_is_wider_than_a_narrow_screen(opened: Chromium, tmp_path: Path) -> None:
    opened.open(tmp_path / "report.html", width=420)
    opened.evaluate("document.querySelector('figure.timeline').scrollIntoView()")
    opened.until(DRAWN)
    assert opened.evaluate("document.documentElement.scrollWidth") <= 420


def test_hostile_names_do_nothing(chromium: Chromium, tmp_path: Path) -> None:
    text = html_arms.HOSTILE
    verdict = dataclasses.replace(
        html_arms.VERDICT, scenario=text, arm=text, cause=text, where=text, rerun=text
    )
    events = [
        dataclasses.replace(e, op=text, group=text, site=text) if type(e).__name__ == "Entered" else e
        for e in html_arms.events(host=text)
    ]
    made = recorded.gathered([*events, Raised(99.0, 0, text, text, "own", text)])
    shown(chromium, tmp_path, html_arms.arm(verdict, recorded=made, problems=(text,)))
    chromium.mouse("mouseMoved", *place(chromium, 2, 0.02))
    chromium.until(f"{TIP} !== ''")
    assert "<img src=x" in "".join(texts(chromium, ".tip > div, .tl-legend"))
    assert chromium.evaluate("window.stolen === undefined && !document.querySelector('img')")
    assert chromium.said == []
    assert len(chromium.asked) == 1
    # What the page forbids itself, were a text ever to become an element.
    chromium.evaluate(
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.stolen = 1\">')"
    )
    chromium.evaluate("new Promise((done) => setTimeout(done))")
    assert chromium.evaluate("window.stolen === undefined")


def test_a_link_opens_a_folded_arm_and_draws_it(chromium: Chromium, tmp_path: Path) -> None:
    passed = dataclasses.replace(html_arms.VERDICT, status=Status.PASS, scenario="fine")
    shown(
        chromium, tmp_path, html_arms.arm(), *[html_arms.arm(passed)] * 9
    )  # of so many the passed are folded
    assert not chromium.evaluate("document.querySelector('#arm-2 > details').open")
    chromium.evaluate("document.querySelector('a[href=\"#arm-2\"]').click()")
    chromium.until("!!document.querySelector('#arm-2 figure.drawn')")
    assert chromium.said == []


def test_many_ranks_have_rows_of_their_own_and_a_sum_for_what_is_dense(
    chromium: Chromium, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline, "BARS_MAX", 2000)
    made = recorded.gathered(html_arms.events(64, 200))
    shown(chromium, tmp_path, html_arms.arm(recorded=made, findings=()))
    chromium.until(DRAWN)
    assert len(texts(chromium, ".tl-name")) == 64
    chromium.mouse("mouseMoved", *place(chromium, 5, 0.3))
    chromium.until(f"{TIP} !== ''")
    assert any("summed up over" in line for line in texts(chromium, ".tip > div"))
    gaps = chromium.evaluate(
        """(() => {
          const names = [...document.querySelectorAll('.tl-name')].map((e) => e.getBoundingClientRect());
          return names.slice(1).map((r, n) => r.top - names[n].bottom);
        })()"""
    )
    assert min(gaps) >= 0  # no row lies over another
    assert chromium.said == []
