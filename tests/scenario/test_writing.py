"""Scenario → YAML → Scenario."""

from __future__ import annotations

import dataclasses

import generated
import library
import pytest
from hypothesis import HealthCheck, given, settings

from chaoskit.model import Scenario
from chaoskit.scenario import dump, parse


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
@given(generated.scenarios())
def test_what_is_written_is_read_back_equal(scenario: Scenario) -> None:
    assert parse(dump(scenario)) == scenario


@pytest.mark.parametrize("scenario", library.scenarios(), ids=lambda s: s.name)
def test_the_library_is_read_back_equal(scenario: Scenario) -> None:
    assert dataclasses.replace(parse(dump(scenario)), file=scenario.file) == scenario


@pytest.mark.parametrize(
    "text",
    ["1_000", "a: b", "# x", "<<", "yes: [", "\x1b[31m", "2026-01-01", "'", '"\\"', "é\u2028x", "~", "?µ"],
)
def test_awkward_texts_survive(text: str) -> None:
    scenario = dataclasses.replace(library.scenarios()[0], file="", summary=text, seen_in=(text,))
    assert parse(dump(scenario)) == scenario
