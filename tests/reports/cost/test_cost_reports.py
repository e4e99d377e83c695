"""The reports of a cost: all that was measured, and nothing of what a name holds."""

from __future__ import annotations

import base64
import dataclasses
import io
import json
import re
import xml.etree.ElementTree as ET
from html import unescape
from pathlib import Path

import pytest
from rich.console import Console

from chaoskit.cost import cases
from chaoskit.cost.request import Model
from chaoskit.cost.values import Case, Comparison, CostReport, Detection, Estimate
from chaoskit.model import Outcome, Status, Verdict
from chaoskit.reports.console import ReportConsole
from chaoskit.reports.cost import html, json_output, markdown, plots, text
from chaoskit.reports.cost.progress import CostProgress, Expected
from chaoskit.reports.cost.rows import AGAIN, notes, step
from chaoskit.request import ArmId

DDP = cases.ddp(Model())
SIZES = cases.collectives(["all_reduce", "reduce_scatter"], cases.sizes("8B..256MiB*512").nbytes)
HOSTILE = "_x$\\frac{1}$\x1b[31m\u202e</svg><script>alert(1)</script>|`@team`[a](b)"


def estimate(ratio: float) -> Estimate:
    return Estimate(ratio, ratio - 0.01, ratio + 0.01, 0.0123456, 0.0123456 * ratio, 1234, 12)


def comparison(name: str, case: Case, found: Estimate | None, problem: str = "") -> Comparison:
    bandwidth = (1.23456e9, 1.1e9) if case.kind == "collective" and found else None
    proofs = ((f"plain {HOSTILE}",), (f"{name} is on",))
    return Comparison(name, name, "torch-defaults", case, "process", found, problem, proofs, bandwidth)


def detection(name: str, scenario: str, production: float | None) -> Detection:
    measured = None if production is None else 3.4
    return Detection(name, scenario, measured, production, 10, 0.01, "hung" if measured is None else "failed")


def report(name: str = "strict") -> CostReport:
    compared = [comparison(name, DDP, estimate(1.031))]
    compared += [comparison(name, case, estimate(3.0 if case.nbytes < 100 else 1.1)) for case in SIZES]
    compared += [comparison(f"{name}2", DDP, None, f"rank 0 was ended by SIGSEGV; rank 0 said: {HOSTILE}")]
    compared += [comparison(f"{name}2", case, estimate(1.0)) for case in SIZES[:4]]
    seen = [
        detection(who, scenario, None if (who, scenario) == ("torch-defaults", "rank-stopped") else seconds)
        for scenario in ("rank-stopped", "rank0-skips-barrier")
        for who, seconds in (("torch-defaults", 1800.0), (name, 120.0), (f"{name}2", 30.0))
    ]
    return CostReport("gloo", 2, "2.13.0", "2 cores", 7, tuple(compared), tuple(seen), 61.0,
                      notes=(f"note {HOSTILE}",), run_dir=f"runs/{HOSTILE}")  # fmt: skip


def printed(found: CostReport, limit: float | None = 0.02, encoding: str = "utf-8", width: int = 160) -> str:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    console: Console = ReportConsole(file=stream, width=width, markup=False, emoji=False, highlight=False)
    text.print_report(found, limit, console)
    stream.flush()
    return raw.getvalue().decode(encoding)


@pytest.mark.parametrize("name", ["strict", HOSTILE, "n" * 300])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_the_terminal_gets_lines_of_100_columns_that_command_nothing(name: str, encoding: str) -> None:
    told = printed(report(name), encoding=encoding)
    assert max(map(len, told.splitlines())) <= 100
    assert "\x1b" not in told
    assert "\u202e" not in told
    assert "3.00" in told
    assert "not timed: rank 0 was ended by SIGSEGV" in told


def test_the_table_has_prices_bandwidths_and_times() -> None:
    told = printed(report())
    assert re.search(r"ddp 8 × 1 MiB +12\.3 ms +12\.7 ms +\+3\.1 % +\[2\.1, 4\.1\] +above", told)
    assert re.search(r"all_reduce 8 B .*3\.00 × +\[2\.99, 3\.01\] +1\.23 → 1\.1 +above", told)
    assert re.search(r"a stopped rank +did not end +about 2 min +about 30 s", told)
    assert "Limit 2.0 %: " in told


def few_starts(found: CostReport) -> CostReport:
    """The same, interrupted in its second start."""
    comparisons = tuple(
        dataclasses.replace(c, estimate=dataclasses.replace(c.estimate, launches=1))
        if c.estimate is not None and c.case == DDP
        else c
        for c in found.comparisons
    )
    return dataclasses.replace(found, comparisons=comparisons, interrupted=True)


def test_of_too_few_starts_no_report_tells_a_figure() -> None:
    whole = report()
    found = few_starts(dataclasses.replace(whole, comparisons=whole.comparisons[:1]))
    said = "too few starts to say anything (1 of at least 3)"
    pages = [printed(found, width=100), markdown.render(found, 0.02), html.render(found, 0.02)]
    for page in pages:
        assert said in " ".join(page.split())
        assert "12.7 ms" not in page
        assert "[2.1, 4.1]" not in page
    (row, *_) = json.loads(json_output.render(found, 0.02))["comparisons"]
    assert (row["estimate"], row["bus_bytes_s"], row["untold"]) == (None, None, said)
    assert row["limit"] == "unclear"
    for told in pages:
        assert re.search(
            rf"{re.escape(said)}`?(; limit: |[ |]+|</td> <td><[^>]*>)unclear", " ".join(told.split())
        )
    assert plots.plots(found) == ()


def test_what_is_too_noisy_is_no_point_of_the_frontier() -> None:
    noisy = dataclasses.replace(estimate(1.1), low=0.7, high=1.5)
    one = dataclasses.replace(report(), comparisons=(comparison("strict", DDP, noisy),))
    assert plots.plots(one) == ()
    assert "**+10 %**" not in markdown.render(one)
    assert "too noisy to say anything (± 40 %)" in " ".join(printed(one).split())


def test_notes_are_alike_in_all_formats() -> None:
    compared = tuple(
        comparison("a", Case("ddp", f"ddp {n}"), dataclasses.replace(estimate(1.1), steps=1000 + n))
        for n in range(5)
    )
    found = CostReport("gloo", 2, "2.13", "m", 1, compared, interrupted=True, notes=("own",))
    told = notes(found)
    assert any("5 intervals at 95 %: one in twenty misses" in note for note in told)
    assert any("less often than once in 1000 steps" in note for note in told)
    assert any("interrupted" in note for note in told)
    assert json.loads(json_output.render(found))["notes"] == list(told)
    pages = [" ".join(page.split()) for page in (printed(found), markdown.render(found), html.render(found))]
    for note in told:
        assert all(note in page for page in pages)
    assert not [n for n in notes(dataclasses.replace(found, comparisons=compared[:4])) if "twenty" in n]


def test_the_json_holds_everything_and_no_number_that_is_none() -> None:
    document = json.loads(json_output.render(report(HOSTILE), 0.02))
    assert document["schema_version"] == 1
    assert len(document["comparisons"]) == len(report().comparisons)
    assert document["comparisons"][0]["limit"] == "above"
    assert document["comparisons"][0]["case"]["kind"] == "ddp"
    assert document["detections"][1]["extrapolated"] is True
    assert [one["treatment"] for one in document["sentences"]] == [HOSTILE, f"{HOSTILE}2"]


def test_markdown_is_a_table_in_which_names_are_code() -> None:
    told = markdown.render(report(HOSTILE), 0.02)
    table = [line for line in told.splitlines() if line.startswith("| ")]
    widths = {len(re.split(r"(?<!\\)\|", line)) for line in table[: len(report().comparisons) + 2]}
    assert len(widths) == 1
    outside = re.sub(r"(`+).*?\1", "", told)
    for evil in ("<script>", "@team", "](b)"):
        assert evil not in outside.replace("\\", "") or f"\\{evil[0]}" in outside
    assert "<script>" not in outside


def test_page_markdown_and_json_tell_how_to_measure_again() -> None:
    found = dataclasses.replace(report(), rerun="chaoskit cost --seed 7 strict", folder="/srv/a/<b>")
    page, told, data = html.render(found), markdown.render(found), json_output.render(found)
    for said in (re.sub("</?span[^>]*>", "", page), told, data):
        assert "chaoskit cost --seed 7 strict" in said
    assert "Measured again, in <code>/srv/a/&lt;b&gt;</code>, by <code>chaoskit cost" in page
    assert "Measured again, in `/srv/a/<b>`, by `chaoskit cost --seed 7 strict`" in told
    assert json.loads(data)["folder"] == "/srv/a/<b>"
    nowhere = dataclasses.replace(found, folder="")
    assert all("in the folder where it was typed, by" in r.render(nowhere) for r in (html, markdown))
    assert AGAIN in html.render(found) and AGAIN in markdown.render(found)
    assert AGAIN not in html.render(report()) and AGAIN not in markdown.render(report())


def test_an_option_is_not_parted_on_the_page_and_names_stay_escaped() -> None:
    shown = html.unbroken("a longer --budget <b>helps</b>, not a--budget\u202e")
    assert shown.startswith('a longer <span class="option">--budget</span> &lt;b&gt;helps')
    assert shown.count("<span") == 1 and "\u202e" not in shown


def test_a_long_markdown_is_cut_and_says_so() -> None:
    many = tuple(comparison("s" * 200, case, estimate(1.1)) for case in SIZES) * 30
    told = markdown.render(CostReport("gloo", 2, "2.13", "m", 1, many))
    assert len(told) < 65_000
    assert "more lines are left out" in told


def test_the_page_loads_nothing_and_runs_nothing(tmp_path: Path) -> None:
    page = html.render(report(HOSTILE), 0.02)
    assert "default-src 'none'" in unescape(page)
    assert "<script" not in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert not re.search(r"(?:src|href|srcset)=\"(?!data:image/svg\+xml;base64,)", page)
    pictures = re.findall(r"data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)", page)
    assert len(pictures) == 2 * 3  # light and dark
    assert len(set(pictures)) == len(pictures)
    for picture in pictures:
        assert b"<script" not in base64.b64decode(picture)


def test_plots_are_svg_the_same_each_time() -> None:
    found = plots.plots(report(HOSTILE))
    again = plots.plots(report(HOSTILE))
    assert [plot.name for plot in found] == ["size-all_reduce", "size-reduce_scatter", "frontier-1"]
    for plot in found:
        root = ET.fromstring(plot.svg)
        assert root.tag.endswith("svg")
        assert not [
            node for node in root.iter() if node.tag.endswith("}image") or node.tag.endswith("}script")
        ]
    assert [plot.svg for plot in again] == [plot.svg for plot in found]


def test_nothing_is_drawn_of_one_size_without_detection() -> None:
    one = CostReport("gloo", 2, "2.13", "m", 1, (comparison("a", DDP, estimate(1.1)),))
    assert plots.plots(one) == ()
    assert "<picture>" not in html.render(one)
    nothing = CostReport("gloo", 2, "2.13", "m", 1, (), interrupted=True)
    assert "interrupted" in printed(nothing)
    assert html.render(nothing)
    assert markdown.render(nothing)


def test_the_frontier_is_what_nothing_beats_in_both() -> None:
    points = [
        plots._Point("a", 10.0, 99.0, 98.0, 100.0),
        plots._Point("b", 20.0, 98.0, 97.0, 99.0),  # later and slower than a
        plots._Point("c", 30.0, 100.0, 100.0, 100.0),
        plots._Point("never", None, 101.0, 101.0, 101.0),
    ]
    assert [point.name for point in plots._best(points)] == ["a", "c"]


def test_times_of_a_step_are_short_and_exact() -> None:
    assert [step(s) for s in (12.3e-6, 4.564e-3, 1.2345, 0.9999, 123.4, 0.0)] == [
        "12.3 µs", "4.56 ms", "1.23 s", "1 s", "123 s", "0 µs",
    ]  # fmt: skip


class Gone(io.StringIO):
    """A reader that goes away."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


def progress(stream: io.StringIO) -> CostProgress:
    console = ReportConsole(file=stream, width=120, markup=False, emoji=False, highlight=False)
    return CostProgress(console, Expected(2, 30.0, 1, 30.0, ("torch-defaults", "b")), live=False)


def test_progress_is_a_line_for_each_comparison_and_for_detection() -> None:
    stream = io.StringIO()
    with progress(stream) as shown:
        shown.started(Path("runs/7"), 7, 2)
        shown.comparison_started(HOSTILE, DDP)
        shown.timed(1.0, None)
        shown.timed(2.0, estimate(1.1))
        shown.comparison_ended(comparison(HOSTILE, DDP, estimate(1.1)))
        shown.comparison_started("b", DDP)
        shown.comparison_ended(comparison("b", DDP, None, "broke"))
        shown.started(Path("runs/8"), 7, 1)  # the next model: said already
        arm = ArmId("rank-stopped", "t2-1", "gloo", 1, 1)
        shown.run_started(Path("runs/9"), 7, (arm,))
        shown.arm_ended(arm, Verdict("rank-stopped", "t2-1", 1, 1, "gloo", "p", Status.PASS, "",
                                     Outcome.FAILED, latency_s=1.0))  # fmt: skip
    lines = stream.getvalue().splitlines()
    assert lines[0] == (
        "2 comparisons of up to 30 s and 1 arm with a fault, about 90 s of timing (starts of"
        " ranks come on top), seed 7, run directory runs/7"
    )
    assert lines[1].startswith("[1/2] ")
    assert lines[1].endswith("10 % [9.0, 11], 12.3 ms → 13.6 ms")
    assert lines[2] == "[2/2] b, ddp 8 × 1 MiB: not timed: broke"
    assert lines[3] == "detection: 1 arm with a fault, run directory runs/9"
    assert lines[4] == "detection [1/1] a stopped rank under b: 1 s"
    assert "\x1b" not in stream.getvalue()


def test_the_heartbeat_of_detection_tells_nothing_of_the_last_comparison() -> None:
    stream = io.StringIO()
    with progress(stream) as shown:
        shown.comparison_started("b", DDP)
        shown.timed(40.2, None)
        shown.run_started(Path("runs/9"), 7, (ArmId("rank-stopped", "t2-1", "gloo", 1, 1),))
        shown._still_running(167.0)
    assert stream.getvalue().splitlines()[-1] == "after 167 s: detection: 0 of 1 arms ended"


def test_a_reader_that_goes_away_ends_no_measurement() -> None:
    with progress(Gone()) as shown:
        shown.started(Path("runs/7"), 7, 2)
        shown.comparison_started("a", DDP)
        shown.comparison_ended(comparison("a", DDP, estimate(1.1)))
