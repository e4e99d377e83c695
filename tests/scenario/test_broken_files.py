"""Files broken in every way that hypothesis finds: problems with lines, never a traceback."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chaoskit.errors import InvalidInput
from chaoskit.scenario import load_profile, parse
from chaoskit.scenario.listing import library_files
from chaoskit.scenario.profile_file import BUILT_IN
from chaoskit.scenario.source import parse_document

SCENARIOS = [path.read_text() for path in library_files()]
PROFILES = [path.read_text() for path in sorted(BUILT_IN.glob("*.yaml"))]
WORDS = [
    "1",
    "-1",
    "0",
    "1.5",
    "1_0",
    "~",
    "true",
    "[]",
    "{}",
    "''",
    "all",
    "x",
    "[1, 2]",
    "{a: b}",
    "9999999999999999999",
    "1e400",
    "2026-01-01",
    "&a 1",
    "*a",
    "!!set {}",
    "rank 1",
    "2s",
    "forever",
    "launch",
    "init",
    "{op: x}",
    "{timeout: init}",
    "nonzero",
    '"\\u0000"',
    "hung",
    "[rank 9]",
    "{1: 2}",
    "[[[[1]]]]",
    "null",
    "<<",
    "é",
    "-",
    ":",
    "./x.yaml",
    "..",
    "/dev/zero",
    "strict",
]


@st.composite
def broken(draw: st.DrawFn, texts: list[str]) -> str:
    """A good file with a few pieces replaced, removed, doubled or moved."""
    text = draw(st.sampled_from(texts))
    for _ in range(draw(st.integers(1, 4))):
        lines = text.split("\n")
        number = draw(st.integers(0, len(lines) - 1))
        line = lines[number]
        match draw(st.sampled_from(["value", "word", "drop", "double", "indent", "cut", "insert"])):
            case "value" if ":" in line:
                lines[number] = line[: line.rindex(":") + 1] + " " + draw(st.sampled_from(WORDS))
            case "word":
                words = line.split(" ")
                words[draw(st.integers(0, len(words) - 1))] = draw(st.sampled_from(WORDS))
                lines[number] = " ".join(words)
            case "drop":
                del lines[number]
            case "double":
                lines.insert(draw(st.integers(0, len(lines))), line)
            case "indent":
                lines[number] = draw(st.sampled_from(["", " ", "  ", "      ", "\t"])) + line.strip()
            case "cut":
                lines[number] = line[: draw(st.integers(0, len(line)))]
            case _:
                at = draw(st.integers(0, len(line)))
                lines[number] = line[:at] + draw(st.text(max_size=3)) + line[at:]
        text = "\n".join(lines)
    return text


def assert_told(error: InvalidInput, file: str) -> None:
    assert error.problems
    for problem in error.problems:
        assert problem.message
        if problem.file == file:
            assert problem.line >= 1, problem


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(broken(SCENARIOS))
def test_a_broken_scenario_is_read_or_told(text: str) -> None:
    try:
        parse(text, "f.yaml")
    except InvalidInput as error:
        assert_told(error, "f.yaml")


@settings(max_examples=60, deadline=None)
@given(text=broken(PROFILES))
def test_a_broken_profile_is_read_or_told(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("profile") / "f.yaml"
    path.write_text(text, encoding="utf-8", errors="replace")
    try:
        load_profile(path)
    except InvalidInput as error:
        assert_told(error, str(path))


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.floats(-2, 2), st.sampled_from(WORDS)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                [
                    "name",
                    "arms",
                    "faults",
                    "kill",
                    "when",
                    "op",
                    "rank",
                    "expect",
                    "outcome",
                    "control",
                    "x",
                    "workload",
                    "within",
                ]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(
            [
                "name",
                "summary",
                "workload",
                "arms",
                "faults",
                "known",
                "topology",
                "tags",
                "healthy",
                "requires",
                "backends",
                "family",
                "seen_in",
                "zzz",
            ]
        ),
        json_values,
        max_size=14,
    )
)
def test_any_values_in_the_places_of_a_scenario_are_read_or_told(values: dict[str, object]) -> None:
    import json

    text = json.dumps(values)  # JSON is YAML
    assert parse_document(text or "{}", "f.yaml") is not None
    with pytest.raises(InvalidInput) as caught:
        parse(text, "f.yaml")
    assert_told(caught.value, "f.yaml")
