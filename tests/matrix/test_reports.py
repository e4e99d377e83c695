"""The reports of a matrix: short on a terminal, whole in the files; what is a text stays one."""

from __future__ import annotations

import dataclasses
import io
import json
import re
from collections.abc import Callable
from html import unescape
from html.parser import HTMLParser

import pytest
from rich.console import Console

from chaoskit.errors import ExitCode
from chaoskit.matrix.values import (
    NONE,
    PROFILE,
    Broken,
    Cell,
    Column,
    Effort,
    Gap,
    Mark,
    Matrix,
    Row,
    Smallest,
    Tried,
)
from chaoskit.model import Verdict
from chaoskit.reports.matrix import json_output, markdown, page
from chaoskit.reports.matrix.exit_code import exit_code
from chaoskit.reports.matrix.progress import MatrixProgress
from chaoskit.reports.matrix.text import LINES_MAX, print_matrix
from chaoskit.reports.matrix.words import LATE_SIGN, SIGNS, faster, fitted, reasons, sign
from chaoskit.request import ArmId

MakeRow, MakeMatrix = Callable[..., Row], Callable[..., Matrix]
PARTS = ("timeouts", "fail_fast", "group_kill")
HOSTILE = "</script><img src=x onerror=alert(1)>\x1b[31m\u202e|`@team\n::error::x"


def text_of(found: Matrix) -> list[str]:
    stream = io.StringIO()
    print_matrix(found, Console(file=stream, width=120), ["a.html", "a.md", "a.json"])
    return stream.getvalue().splitlines()


@pytest.fixture
def large(row: MakeRow, matrix: MakeMatrix) -> Matrix:
    """100 scenarios × 40 columns, with everything that can be said."""
    parts = tuple(f"guard_{n}" for n in range(19))
    marks = [Mark.HELD, Mark.NOT_HELD, Mark.UNSTEADY, Mark.INCONCLUSIVE, Mark.NOT_APPLICABLE, Mark.NOT_RUN]
    rows = [
        row(
            f"scenario-{n}",
            {p: marks[(n + i) % len(marks)] for i, p in enumerate(parts)},
            {p: marks[(n * i) % len(marks)] for i, p in enumerate(parts)},
            parts=parts,
            healthy=n >= 80,
            profile=Mark.NOT_HELD if n < 9 else Mark.HELD,
        )
        for n in range(100)
    ]
    gaps = tuple(Gap(f"scenario-{n}", "late", (f"guard_{n}",), own_profile="strict") for n in range(9))
    found = Smallest(parts[:5], (Tried(parts[:5], scenarios=91),), ((parts[0], "scenario-9"),), parts[1:5], 7)
    made: Matrix = matrix(*rows, parts=parts, smallest=found, gaps=gaps, effort=Effort(60, 600, 900, 3, 2, 1))
    return made


def test_the_terminal_has_no_more_than_25_lines(large: Matrix) -> None:
    for found in (large, dataclasses.replace(large, interrupted=True)):
        lines = text_of(found)
        assert len(lines) <= LINES_MAX
        assert lines[0].startswith("100 scenarios × 40 columns: profile mine on gloo")
        told = any("600 s in sum, 10.0 × faster" in line for line in lines)
        assert told != found.interrupted
    assert "go on with: chaoskit matrix --resume runs/matrix/1" in lines[-1]


def test_a_set_is_called_confirmed_only_where_it_was_run(large: Matrix) -> None:
    said = "\n".join(text_of(large))
    assert "smallest set: guard_0 + guard_1 + guard_2 + guard_3 + guard_4 (confirmed: run over" in said
    tried = Smallest(
        None, (Tried(("guard_0",), ("scenario-9",), (), 91),), why_not="no set that was run holds it"
    )
    said = "\n".join(text_of(dataclasses.replace(large, smallest=tried)))
    assert "none found" in said and "guard_0, does not hold scenario-9" in said and "confirmed" not in said


def test_the_page_is_self_contained_and_has_every_cell(large: Matrix) -> None:
    html = page.render(large)
    seen = _Seen()
    seen.feed(html)
    assert seen.cells == 100 * 40
    assert not seen.outside, "nothing is loaded from anywhere"
    assert "default-src 'none'" in unescape(html) and "prefers-color-scheme: dark" in html
    data = json.loads(seen.data)
    assert len(data) == 100 and {len(line) for line in data} == {40}
    assert len(html) < 3_000_000


class _Seen(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.cells, self.outside, self.tags, self.data, self._in_data = 0, [], set(), "", False
        self._row = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        self.tags.add(tag)
        self._row = told.get("class") == "row" if tag == "tr" else self._row
        self.cells += tag == "td" and self._row
        self.outside += [v for k, v in attrs if k in ("src", "href")]
        self._in_data = told.get("id") == "data"

    def handle_data(self, data: str) -> None:
        self.data += data if self._in_data else ""


def hostile(row: MakeRow, matrix: MakeMatrix) -> Matrix:
    bad = row(HOSTILE, parts=(HOSTILE,))
    cells = tuple(
        dataclasses.replace(c, reason=HOSTILE, culprits=(HOSTILE,), folder=HOSTILE, rerun=HOSTILE)
        for c in bad.cells
    )
    made = dataclasses.replace(bad, cells=cells, summary=HOSTILE, family=HOSTILE, profile=HOSTILE)
    gap = Gap(HOSTILE, HOSTILE, (HOSTILE,), alarms=((HOSTILE, HOSTILE),))
    found: Matrix = matrix(made, parts=(HOSTILE,), gaps=(gap,), notes=(HOSTILE,))
    return dataclasses.replace(found, origin=dataclasses.replace(found.origin, profile=HOSTILE))


def test_what_is_hostile_stays_a_text(row: MakeRow, matrix: MakeMatrix) -> None:
    found = hostile(row, matrix)
    seen = _Seen()
    html = page.render(found)
    seen.feed(html)
    assert "img" not in seen.tags
    assert not re.search(r"[\x1b\u202e]", html + markdown.render(found) + "\n".join(text_of(found)))
    assert not re.search(r"(?<!\\)<img", markdown.render(found))
    assert "\n::error" not in "\n".join(text_of(found))
    assert "\n::error" not in markdown.render(found)
    table = [line for line in markdown.render(found).splitlines() if line.startswith("|")]
    assert len({line.replace("\\|", "").count("|") for line in table[-3:]}) == 1


def test_json_holds_all_and_is_json(large: Matrix) -> None:
    body = json.loads(json_output.render(large))
    assert body["schema_version"] == 1 and body["exit_code"] == 1
    assert len(body["rows"]) == 100 and len(body["columns"]) == 40
    assert body["rows"][0]["cells"][0]["mark"] == "bites"
    assert body["effort"]["wall_s"] == 60 and body["faster_than_in_a_row"] == 10.0


def test_a_cell_that_ended_in_time_has_a_sign_of_its_own() -> None:
    assert sign(Cell(PROFILE, Mark.NOT_HELD, ended=True)) == LATE_SIGN
    assert sign(Cell(PROFILE, Mark.NOT_HELD)) == SIGNS[Mark.NOT_HELD]
    assert sign(Cell(PROFILE, Mark.HELD, ended=True)) == SIGNS[Mark.HELD]


@pytest.mark.parametrize(
    ("base", "profile", "code"),
    [
        (Mark.BITES, Mark.HELD, ExitCode.OK),
        (Mark.NOT_NEEDED, Mark.NOT_NEEDED, ExitCode.OK),
        (Mark.BITES, Mark.NOT_HELD, ExitCode.NOT_HELD),
        (Mark.BITES, Mark.UNSTEADY, ExitCode.INCONCLUSIVE),
        (Mark.UNSTEADY, Mark.INCONCLUSIVE, ExitCode.INCONCLUSIVE),
        (Mark.SKIPPED, Mark.SKIPPED, ExitCode.INCONCLUSIVE),
        (Mark.BITES, Mark.NOT_RUN, ExitCode.INCONCLUSIVE),
    ],
)
def test_exit_codes(row: MakeRow, matrix: MakeMatrix, base: Mark, profile: Mark, code: ExitCode) -> None:
    assert exit_code(matrix(row("a", base=base, profile=profile))) is code


def test_exit_codes_of_more(row: MakeRow, matrix: MakeMatrix) -> None:
    good = row("a", {"timeouts": Mark.NOT_HELD}, {"timeouts": Mark.UNSTEADY})
    assert exit_code(matrix(good)) is ExitCode.OK, "a single guard is no verdict on the profile"
    assert exit_code(matrix(good, row("t", healthy=True, profile=Mark.FALSE_ALARM))) is ExitCode.NOT_HELD
    assert exit_code(matrix()) is ExitCode.INCONCLUSIVE
    assert exit_code(matrix(good, interrupted=True)) is ExitCode.INTERRUPTED


def test_markdown_has_each_row_in_both_tables(row: MakeRow, matrix: MakeMatrix) -> None:
    found = markdown.render(matrix(row("a-b"), row("twin", healthy=True)))
    assert found.count("| a\\-b |") == 2 and found.count("| twin |") == 1


def test_progress_survives_a_reader_that_goes_away() -> None:
    stream = io.StringIO()
    shown = MatrixProgress(Console(file=stream, width=100), every_s=1000.0)
    with shown:
        shown.batch_started("no guard", 4, 2)
        stream.close()
        shown.batch_ended(1.0)


def test_of_what_was_not_run_nothing_is_counted(row: MakeRow, matrix: MakeMatrix) -> None:
    unrun = row("late", base=Mark.BITES, profile=Mark.NOT_RUN)
    found = matrix(unrun, interrupted=True)
    for said in ("\n".join(text_of(found)), markdown.render(found), page.render(found)):
        assert "not known yet" in said and "0 of" not in said
    both = matrix(unrun, row("a"), interrupted=True)
    said = text_of(both)
    assert said[1] == "profile: holds 1 of 1 fault that bites, 1 scenario not known yet"
    assert "  not run yet: 1: late" in said


def test_counts_are_of_what_there_is(row: MakeRow, matrix: MakeMatrix) -> None:
    found = matrix(row("a"), row("b", base=Mark.NOT_NEEDED, profile=Mark.NOT_NEEDED))
    for said in ("\n".join(text_of(found)), markdown.render(found), page.render(found)):
        assert "twin" not in said.split("Heat map")[0]
        assert "1 faults" not in said


def test_the_legend_has_the_marks_that_occur(row: MakeRow, matrix: MakeMatrix) -> None:
    held = dict.fromkeys(PARTS, Mark.HELD)
    good = markdown.render(matrix(row("a", held)))
    assert LATE_SIGN not in good and "not run" not in good and "not held" not in good.split("##")[-2]
    keys = re.findall(r'<li><i class="sq ([a-z-]+)', page.render(matrix(row("a", held))))
    assert keys == ["bites", "held", "who-yes", "who-verdict", "who-no"]
    keys = re.findall(
        r'<li><i class="sq ([a-z-]+)', page.render(matrix(row("a", {"timeouts": Mark.NOT_RUN})))
    )
    assert keys[:4] == ["bites", "held", "not-held", "not-run"]


def test_names_are_whole_and_as_many_as_fit() -> None:
    names = [f"TORCH_NCCL_VARIABLE_{n}" for n in range(9)]
    line = fitted("never matter: ", names, 80)
    assert line == f"never matter: {names[0]}, {names[1]} and 7 more"
    assert fitted("x: ", names, 1000).endswith("_8")
    assert fitted("x: ", names, 5) == f"x: {names[0]} and 8 more"


def test_what_replaces_each_other_is_no_never(row: MakeRow, matrix: MakeMatrix) -> None:
    found = matrix(row("a", without={"group_kill": Mark.NOT_HELD}))
    for said in ("\n".join(text_of(found)), markdown.render(found), page.render(found)):
        assert "ever matter" not in said
        assert re.search(r"[Ee]ach can be replaced by another.*: timeouts, fail", said)
    assert json.loads(json_output.render(found))["replaceable"] == ["timeouts", "fail_fast"]


def test_what_is_not_kept_is_said(row: MakeRow, matrix: MakeMatrix) -> None:
    found = matrix(row("a"), not_kept=("a: not kept: it is too large",))
    for said in ("\n".join(text_of(found)), markdown.render(found), page.render(found)):
        assert "too large" in said


def test_a_long_batch_is_never_silent_for_much_longer_than_it_may_be(verdict: Callable[..., Verdict]) -> None:
    """After its first line by nearly that time again at most: the clock stands, and the thread is ours. A
    count that stays the same is said less often."""
    stream, now = io.StringIO(), [0.0]
    shown = MatrixProgress(Console(file=stream, width=100), every_s=5.0, clock=lambda: now[0])
    arm = ArmId("a", "none", "gloo", 1, 1)

    class Over:
        def wait(self, timeout_s: float) -> bool:
            now[0] += timeout_s
            if round(now[0], 1) in (3.9, 9.9):
                shown.cell_started(arm, 9.0)
                shown.cell_ended(arm, verdict())
            return now[0] > 75.0

    shown.batch_started("no guard", 4, 2)
    now[0] = 0.9  # out of step with the line
    shown._over = Over()  # type: ignore[assignment]
    shown._beat()
    assert [line for line in stream.getvalue().splitlines() if " of 4 after" in line] == [
        "  1 of 4 after 5.9 s",
        "  2 of 4 after 10.9 s",
        "  2 of 4 after 40.9 s",
        "  2 of 4 after 70.9 s",
    ]


def test_nothing_in_the_head_of_the_heat_map_is_cut(row: MakeRow, matrix: MakeMatrix) -> None:
    (groups,) = re.findall(r"#map \.groups > \* \{(.*?)\}", page.render(matrix(row("a"))))
    assert "hidden" not in groups and "max-width" not in groups


def test_of_a_program_that_does_not_complete_nothing_is_said(row: MakeRow, matrix: MakeMatrix) -> None:
    why = "the program does not complete without any fault (failed): it raised"
    bad = row("a", base=Mark.INCONCLUSIVE, profile=Mark.INCONCLUSIVE)
    found = matrix(bad, worth=(), broken=(Broken("train.py", why, "/runs/matrix/1/" + "x" * 150),))
    for said in ("\n".join(text_of(found)), markdown.render(found).replace("\\", ""), page.render(found)):
        assert f"not known: {why}" in said and "x" * 150 in said
        assert "not needed" not in said and "none found" not in said and "no fault" not in said
        assert "needed for" not in said
    body = json.loads(json_output.render(found))
    assert body["not_known"] == why and body["counts"] is None and body["worth"] == []
    assert body["broken"][0]["folder"].endswith("x" * 150)
    others = dataclasses.replace(found, rows=(*found.rows, row("b")))
    assert others.not_known == "" and "profile: holds 1 of 1 fault that bites" in text_of(others)
    assert any(why in line for line in text_of(others))


def test_a_program_that_changed_meanwhile_decides_the_exit_code(row: MakeRow, matrix: MakeMatrix) -> None:
    for one in (row("a"), row("a", profile=Mark.NOT_HELD)):
        found = dataclasses.replace(matrix(one), edited=("train.py",))
        assert exit_code(found) is ExitCode.INCONCLUSIVE
        assert "profile: not known: train.py changed while the matrix ran" in "\n".join(text_of(found))
        assert json.loads(json_output.render(found))["edited"] == ["train.py"]


def test_where_all_is_skipped_nothing_is_said_of_the_profile(row: MakeRow, matrix: MakeMatrix) -> None:
    names = ("a", "b")
    found = matrix(*(row(name, base=Mark.SKIPPED, profile=Mark.SKIPPED) for name in names), worth=())
    for said in ("\n".join(text_of(found)), markdown.render(found).replace("\\", ""), page.render(found)):
        assert "not known: 2 scenarios skipped, none run" in said
        assert "no fault that bites" not in said


def test_why_something_is_not_held_is_told_without_pointing_at_a_cell(
    row: MakeRow, matrix: MakeMatrix
) -> None:
    def reasoned(one: Row, why: str) -> Row:
        return dataclasses.replace(one, cells=tuple(dataclasses.replace(c, reason=why) for c in one.cells))

    why = "no rank ended within 5 s"
    bad, late = (reasoned(row(name, profile=Mark.NOT_HELD), why) for name in ("bad", "late"))
    skipped = reasoned(row("gpu", base=Mark.SKIPPED, profile=Mark.SKIPPED), "needs a <GPU>")
    found = matrix(skipped, row("good"), bad, late)
    body = page.render(found).partition("and why</h2>")[2].partition("</table>")[0]
    told = reasons(found)
    assert told == [("not held", why, ("bad", "late")), ("skipped", "needs a <GPU>", ("gpu",))]
    assert "bad, late" in body and why in body and "good" not in body and "needs a &lt;GPU&gt;" in body
    assert f"| bad, late | not held | {why} |" in markdown.render(found)


def test_a_guard_of_which_no_cell_ran_is_not_known(row: MakeRow, matrix: MakeMatrix) -> None:
    unrun = dict.fromkeys(PARTS, Mark.NOT_RUN)
    idle = {**unrun, "group_kill": Mark.NOT_APPLICABLE}
    late = row("late", idle, idle, base=Mark.NOT_RUN, profile=Mark.NOT_RUN)
    said = markdown.render(matrix(late, interrupted=True))
    assert "| timeouts | not known yet |" in said and "| group\\_kill | no effect here |" in said
    assert "holds 0 alone" not in said
    both = matrix(late, row("a", {"timeouts": Mark.HELD}, unrun), interrupted=True)
    assert "| timeouts | holds 1 alone, needed for 0, unclear in 1 |" in markdown.render(both)


def test_after_an_interruption_no_figure_of_speed_is_given(row: MakeRow, matrix: MakeMatrix) -> None:
    assert faster(matrix(row("a"))) == 4.0
    found = matrix(row("a"), interrupted=True)
    assert "faster" not in "\n".join(text_of(found)) + markdown.render(found) + page.render(found)
    assert json.loads(json_output.render(found))["faster_than_in_a_row"] is None


def test_the_program_and_what_has_to_be_given_again(row: MakeRow, matrix: MakeMatrix) -> None:
    found = matrix(row("a"), interrupted=True)
    origin = dataclasses.replace(
        found.origin, program="train.py --steps 8 (launcher torchrun)",
        resume="chaoskit matrix --resume X -- ARGS",
        resume_note="ARGS: give them again",
    )  # fmt: skip
    found = dataclasses.replace(found, origin=origin)
    text = text_of(found)
    for said in ("\n".join(text), markdown.render(found).replace("\\", ""), page.render(found)):
        assert "rogram" in said and "train.py --steps 8 (launcher torchrun)" in said
        assert "give them again" in said and "--resume X -- ARGS" in said
    assert text[-1].endswith(": chaoskit matrix --resume X -- ARGS")


def test_cells_that_cannot_be_run_are_not_counted_as_they_go(verdict: Callable[..., Verdict]) -> None:
    stream = io.StringIO()
    shown = MatrixProgress(Console(file=stream, width=100), every_s=1000.0)
    shown.batch_started("no guard", 1, 0)
    shown.cell_ended(ArmId("skipped", "none", "gloo", 1, 1), verdict())
    assert shown._done == 0
    shown.cell_started(ArmId("a", "none", "gloo", 1, 1), 9.0)
    shown.cell_ended(ArmId("a", "none", "gloo", 1, 1), verdict())
    assert shown._done == 1


def test_columns_have_names_to_type() -> None:
    assert [c.name for c in (NONE, PROFILE, Column("alone", "timeouts"))] == [
        "none",
        "profile",
        "alone-timeouts",
    ]
