"""The pages of docs/claims say what the JSON files beside them say, and the JSON files are whole."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from chaoskit.claims import reading
from chaoskit.claims.values import REPEATS_MIN, Answer
from chaoskit.profiles.torch_any import DETAIL_ENDS_HEALTHY_DDP_SINCE, DETAIL_SEEN
from chaoskit.reports.claims import json_output, page

DOCS = Path(__file__).parents[2] / "docs"
FILES = sorted((DOCS / "claims").glob("torch-*.json"))


def test_the_pages_are_in_step_with_the_json() -> None:
    made = runpy.run_path(str(DOCS / "generate_claims.py"))["pages"]()
    there = {file.name: file.read_text(encoding="utf-8") for file in (DOCS / "claims").glob("*.md")}
    assert there == made, "run `make docs`"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_json_is_of_one_whole_run_of_all_claims(file: Path) -> None:
    made = page.load(file)
    assert file.stem == f"torch-{made.version}"
    assert not made.interrupted
    assert made.repeats >= REPEATS_MIN
    known = {one.stem for one in reading.files()}
    assert {row.name for row in made.rows} == known, "the claims have changed: `make claims TORCH=…`"
    assert not re.search(r'"/(home|root|work|tmp)/', file.read_text(encoding="utf-8"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_answers_follow_from_the_trials(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert json_output.answered_again(text) == text, "run `make docs`"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_profiles_check_says_of_detail_what_was_seen(file: Path) -> None:
    made = page.load(file)
    (row,) = [row for row in made.rows if (row.name, row.backend) == ("debug-detail", "gloo")]
    torch = (int(made.version.split(".")[0]), int(made.version.split(".")[1]))
    assert (row.answer is Answer.HARMFUL) == (torch >= DETAIL_ENDS_HEALTHY_DDP_SINCE)
    assert made.torch.partition("+")[0] in DETAIL_SEEN


def test_the_links_of_the_pages_lead_somewhere() -> None:
    for file in (DOCS / "claims").glob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", file.read_text(encoding="utf-8")):
            assert (file.parent / target).exists(), (file.name, target)
