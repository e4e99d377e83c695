"""A matrix of which nothing is known says nothing of guards, in any form."""

from __future__ import annotations

import dataclasses
import io
import json
import re
from collections.abc import Callable

import pytest
from rich.console import Console

from chaoskit.matrix.values import Broken, Gap, Mark, Matrix, Row, Smallest, Tried
from chaoskit.reports.matrix import json_output, markdown, page
from chaoskit.reports.matrix.text import print_matrix

MakeRow, MakeMatrix = Callable[..., Row], Callable[..., Matrix]
SAYS_OF_GUARDS = re.compile(
    r"needed in the profile|ever matter|confirmed|sidecar|hold alone|holds? \d|[Nn]ot held\W*: |not needed: |"
    r"\d faults? not needed|be replaced|needed for|does not hold"
)


def text_of(found: Matrix) -> list[str]:
    stream = io.StringIO()
    print_matrix(found, Console(file=stream, width=120))
    return stream.getvalue().splitlines()


@pytest.mark.parametrize("how", ["edited", "broken"])
def test_where_nothing_is_known_no_report_says_anything_of_guards(
    row: MakeRow, matrix: MakeMatrix, how: str
) -> None:
    """Whatever was found by cells that cannot be compared: the heat map stays, below why nothing is known."""
    why: dict[str, dict[str, object]] = {
        "edited": {"edited": ("train.py",)},
        "broken": {"broken": (Broken("train.py", "it raised", "/x"),), "rows": ()},
    }
    one = row("a", {"timeouts": Mark.HELD}, {"timeouts": Mark.NOT_HELD})
    good = matrix(
        one, row("c", profile=Mark.NOT_HELD), row("d", base=Mark.NOT_NEEDED),
        smallest=Smallest(("timeouts",), (Tried(("timeouts",), (), (), 1),), (("timeouts", "a"),)),
        gaps=(Gap("c", "late", helps=("sidecar",)),),
    )  # fmt: skip
    assert len(set(SAYS_OF_GUARDS.findall(markdown.render(good) + "\n".join(text_of(good))))) > 5
    found = dataclasses.replace(good, **why[how])  # type: ignore[arg-type]
    assert found.not_known and (found.worth, found.gaps, found.smallest.confirmed) == ((), (), None)
    above, _, map_and_below = page.render(found).partition("<h2>Heat map")
    above = above.partition("<body")[2]
    below = map_and_below.partition("</table>")[2].partition("<aside")[0]
    tables = markdown.render(found).partition("\n## No guard")[0]
    for said in ("\n".join(text_of(found)), tables, above):
        assert "not known: " in said and not SAYS_OF_GUARDS.search(said), said
    assert not SAYS_OF_GUARDS.search(below)
    body = json.loads(json_output.render(found))
    assert body["never_matter"] == body["worth"] == body["gaps"] == body["replaceable"] == []
    assert body["smallest"]["confirmed"] is None and body["smallest"]["tried"] == []
