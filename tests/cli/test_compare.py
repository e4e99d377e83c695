"""``chaoskit compare``: two runs from their files, also damaged ones, and what is said of them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import chaoskit.cli.compare
from chaoskit import codec
from chaoskit.cli import main
from chaoskit.cli.judge import files_of_a_run
from chaoskit.cli.schema import comparison_schema
from chaoskit.compare.comparison import ArmChange, Comparison, Said, ScenarioChange, compare
from chaoskit.compare.latencies import Condition, Latencies, Ratio
from chaoskit.compare.side import Side
from chaoskit.model import Outcome, Plan, Result, ScenarioResult, Status, Verdict
from chaoskit.plan import make_plan
from chaoskit.reports import compare_markdown, compare_sections
from chaoskit.scenario import load_profile, select

Printed = pytest.CaptureFixture[str]
HOSTILE = "evil\x1b[31m\u202e`@team <img src=x>\n::error::x"


def plan_of(name: str, arm: str, seed: int) -> Plan:
    strict, bare = load_profile("strict"), load_profile("torch-defaults")
    profile = bare if arm == "control" else strict
    return make_plan(select([name])[0], arm, profile=profile, hardened_profile=strict, seed=seed)


def run_of(folder: Path, statuses: dict[str, Status], seed: int = 1) -> Path:
    """A run whose arms were skipped, or came to nothing: that needs no history."""
    for name, status in statuses.items():
        for arm in ("control", "hardened"):
            plan = plan_of(name, arm, seed)
            made = folder / name / arm
            made.mkdir(parents=True)
            (made / "plan.json").write_text(codec.dump_plan(plan))
            verdict = Verdict(name, arm, 1, 1, "gloo", plan.profile.name, status, f"said {status}")
            (made / "verdict.json").write_text(codec.dump_verdict(verdict))
    record = {
        "seed": seed,
        "versions": {"torch": f"2.{seed}", "python": "3.11"},
        "environment": {"NCCL_DEBUG": "x"},
    }
    (folder / "run.json").write_text(json.dumps(record))
    return folder


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    a = {"rank-killed-mid-all-reduce": Status.SKIPPED, "dtypes-differ": Status.SKIPPED}
    b = {"rank-killed-mid-all-reduce": Status.SKIPPED, "uncaught-exception": Status.INCONCLUSIVE}
    return run_of(tmp_path / "a", a), run_of(tmp_path / "b", b, seed=2)


def test_what_differs_is_told(two: tuple[Path, Path], capsys: Printed) -> None:
    assert main(["compare", *map(str, two)]) == 0
    told = capsys.readouterr().out
    assert "1 scenario the same (1 skipped)" in told
    assert "only in A (1)\n  dtypes-differ: skipped" in told
    assert "only in B (1)\n  uncaught-exception: inconclusive" in told
    assert "torch: 2.1 → 2.2" in told
    assert "seed: 1 → 2" in told
    assert "python" not in told
    assert "nothing was held in A, so nothing can be lost" in told


def test_a_run_compared_with_itself_takes_less_than_a_screen(two: tuple[Path, Path], capsys: Printed) -> None:
    assert main(["compare", str(two[0]), str(two[0])]) == 0
    told = capsys.readouterr().out.splitlines()
    assert "2 scenarios the same (2 skipped)" in told
    assert len(told) < 8


def test_the_json_is_as_its_schema_says(two: tuple[Path, Path], capsys: Printed) -> None:
    assert main(["compare", *map(str, two), "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    schema = comparison_schema()
    assert set(document) == set(schema["required"]) == set(schema["properties"])
    assert document["schema_version"] == 1
    assert document["summary"] == {"broke": 0, "lost_sight_of": 0, "now_failing": 0, "exit_code": 0}
    assert {"of": "record", "name": "torch", "a": "2.1", "b": "2.2"}.items() <= document["differences"][
        0
    ].items()
    for name in ("scenarios", "differences", "latencies", "arms", "same_results"):
        described = schema["properties"][name]["items"]["properties"]
        assert all(set(item) == set(described) for item in document[name])


def test_markdown_is_written_beside(two: tuple[Path, Path], tmp_path: Path, capsys: Printed) -> None:
    target = tmp_path / "c.md"
    assert main(["compare", *map(str, two), "--markdown", str(target)]) == 0
    assert target.read_text().startswith("## ❔ nothing was held in A, so nothing can be lost")
    assert f"written: {target}" in capsys.readouterr().out
    assert main(["compare", *map(str, two), "--markdown", str(tmp_path)]) == 64


@pytest.mark.parametrize("place", ["nothing", "file", "empty"])
def test_what_is_no_run_is_wrong_usage(
    place: str, two: tuple[Path, Path], tmp_path: Path, capsys: Printed
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    assert main(["compare", str(two[0]), str(tmp_path / place)]) == 64
    assert place in capsys.readouterr().err


def test_a_folder_of_several_runs_is_wrong_usage(two: tuple[Path, Path], capsys: Printed) -> None:
    assert main(["compare", str(two[0].parent), str(two[1])]) == 64
    assert "holds several runs" in capsys.readouterr().err


@pytest.mark.parametrize(
    "damage",
    [
        lambda run: (run / "run.json").write_text('{"versions": {"torch"'),
        lambda run: (run / "run.json").write_text(
            '{"versions": [1], "environment": 3, "cores": {}, "seed": "x"}'
        ),
        lambda run: (run / "run.json").unlink(),
        lambda run: next(run.rglob("verdict.json")).write_text('{"schema'),
        lambda run: next(run.rglob("plan.json")).write_bytes(b"\xff\xfe{"),
        lambda run: next(run.rglob("plan.json")).write_text("{}"),
    ],
)
def test_a_damaged_run_is_told_without_a_traceback(
    damage: Callable[[Path], object], two: tuple[Path, Path], capsys: Printed
) -> None:
    damage(two[1])
    assert main(["compare", *map(str, two)]) == 0
    said = capsys.readouterr()
    assert "Traceback" not in said.out + said.err
    assert "nothing was held in A" in said.out


def test_what_was_held_and_is_not_gives_1(
    two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    def judged(
        name: str, backend: str, healthy: bool, verdicts: Sequence[Verdict], completes: bool
    ) -> object:
        a = verdicts[0].reason == "said skipped"
        return ScenarioResult(name, "gloo", Result.HELD if a else Result.NOT_HELD, "told", tuple(verdicts))

    how = dataclasses.replace(files_of_a_run(), scenario=judged)  # type: ignore[arg-type]
    monkeypatch.setattr(chaoskit.cli.compare, "files_of_a_run", lambda: how)
    unclear = run_of(two[0].parent / "c", {"rank-killed-mid-all-reduce": Status.INCONCLUSIVE})
    assert main(["compare", str(two[0]), str(unclear)]) == 1
    told = capsys.readouterr().out
    assert "rank-killed-mid-all-reduce: held → not held (told)" in told
    assert "dtypes-differ: held → not in B" in told
    assert main(["compare", str(two[0]), str(unclear), "--format", "json"]) == 1
    summary = json.loads(capsys.readouterr().out)["summary"]
    assert summary == {"broke": 1, "lost_sight_of": 1, "now_failing": 0, "exit_code": 1}
    assert main(["compare", str(unclear), str(two[0])]) == 0


@pytest.mark.nightly
def test_a_real_run_of_another_profile(
    finished: object, tmp_path: Path, run: Callable[..., object], capsys: Printed
) -> None:
    before = finished.result.run_dir  # type: ignore[attr-defined]
    after = run("dtypes-differ", profile=load_profile("recommended"), seed=9).run_dir  # type: ignore[attr-defined]
    assert main(["compare", str(before), str(after)]) == 1
    told = capsys.readouterr().out
    assert "dtypes-differ: held → not held" in told
    assert "profile: strict → recommended" in told
    assert "1 scenario was held and is not held now" in told
    assert "nobody can tell now" in told, "scenarios that the second run did not have"


# ---------------------------------------------------------------- words


def held(name: str, reason: str = "") -> ScenarioResult:
    verdict = Verdict(name, "hardened", 1, 1, "gloo", "strict", Status.PASS, "", Outcome.FAILED)
    return ScenarioResult(name, "gloo", Result.HELD, reason, (verdict,))


def apart(*pairs: tuple[Result | None, Result | None], name: str = "s", reason: str = "why") -> Comparison:
    found = compare(Side("a", ()), Side("b", ()))
    changes = tuple(
        ScenarioChange(f"{name}{n}", "gloo", a, b, reason, reason) for n, (a, b) in enumerate(pairs)
    )
    return dataclasses.replace(found, scenarios=changes)


def test_what_was_held_stands_first() -> None:
    found = apart(
        (None, Result.HELD),
        (Result.HELD, None),
        (Result.HELD, Result.NOT_HELD),
        (Result.SKIPPED, Result.HELD),
    )
    assert [s.title for s in compare_sections.sections(found)] == [
        "held in A, not held in B (1)", "held in A, and nobody can tell in B (1)",
        "held in B, and not in A (1)", "only in B (1)",
    ]  # fmt: skip
    told = compare_sections.conclusion(dataclasses.replace(found, held_in_a=2))
    assert told == "1 scenario was held and is not held now; of 1 scenario that held nobody can tell now"


@pytest.mark.parametrize(
    ("ratio", "said", "words"),
    [
        (Ratio(1.4, 1.2, 1.6, 0.001), "slower", "slower by 1.4× [1.2, 1.6]"),
        (Ratio(0.5, 0.4, 0.8, 0.001), "faster", "faster by 2× [1.2, 2.5]"),
        (Ratio(1.0, 0.8, 1.3, 0.9), "no_difference", "no difference measurable [0.8, 1.3]"),
        (None, "too_few", "no statement (3 repeats, 5 needed on each side)"),
    ],
)
def test_latencies_in_words(ratio: Ratio | None, said: str, words: str) -> None:
    pair = Latencies("s", "gloo", "hardened", 0.1, 0.14, 6, 3, ratio, said)  # type: ignore[arg-type]
    found = dataclasses.replace(apart(), latencies=(pair,))
    (section,) = compare_sections.sections(found)
    assert section.lines == (f"s hardened: 100 ms → 140 ms, {words}",)


def test_latencies_of_another_time_scale_are_numbers_only() -> None:
    conditions = (Condition("time scale", "0.025", "0.01"), Condition("ranks", "4", "2"))
    pair = Latencies(
        "s", "gloo", "hardened", 0.1, 3.0, 6, 6, None, "not_comparable", conditions, 122.0, 302.0
    )
    (section,) = compare_sections.sections(dataclasses.replace(apart(), latencies=(pair,)))
    assert section.lines == (
        "s hardened: 100 ms → 3 s, not comparable: time scale 0.025 → 0.01, ranks 4 → 2;"
        " allowed in production 122 s → 302 s",
    )


NOTHING = "nothing was held in A, so nothing can be lost"
KEPT = "nothing that was held is not held now"
FAILS_NOW = ArmChange(
    "x", "gloo", "hardened", (Said(Status.PASS, None, None, ()),), (Said(Status.FAIL, None, None, ()),), False
)


@pytest.mark.parametrize(
    ("pairs", "held_in_a", "arms", "mark", "told"),
    [
        ((), 0, (FAILS_NOW,), "⚠️", f"{NOTHING}; 1 arm passed before and fails now"),
        ((), 0, (), "❔", NOTHING),
        ((), 1, (FAILS_NOW,) * 2, "⚠️", f"{KEPT}; 2 arms passed before and fail now"),
        (((Result.HELD, None),), 1, (), "❔", "of 1 scenario that held nobody can tell now"),
        ((), 1, (), "✅", KEPT),
        (
            ((Result.HELD, Result.NOT_HELD),), 1, (FAILS_NOW,), "❌",
            "1 scenario was held and is not held now; 1 more arm passed before and fails now",
        ),
    ],
)  # fmt: skip
def test_only_what_is_kept_is_green(
    pairs: tuple[tuple[Result | None, Result | None], ...],
    held_in_a: int,
    arms: tuple[ArmChange, ...],
    mark: str,
    told: str,
) -> None:
    found = dataclasses.replace(apart(*pairs), held_in_a=held_in_a, arms=arms)
    assert compare_markdown.render(found).splitlines()[0] == f"## {mark} {told}"


def test_a_gate_without_anything_held_says_so(two: tuple[Path, Path], capsys: Printed) -> None:
    assert main(["compare", *map(str, two), "--format", "json"]) == 0
    assert "nothing is held in A, so no exit code" in capsys.readouterr().err


def test_many_arms_without_a_statement_are_one_line() -> None:
    pair = Latencies("s", "gloo", "hardened", 0.1, 0.14, 1, 1)
    found = dataclasses.replace(apart(), latencies=(pair,) * 204)
    (section,) = compare_sections.sections(found)
    assert section.lines == ("204 arms: no statement, as that takes 5 repeats on each side",)


def test_names_of_a_file_command_nothing(two: tuple[Path, Path], capsys: Printed) -> None:
    record = {"versions": {HOSTILE: HOSTILE}, "environment": {HOSTILE * 1000: "y"}, "started": HOSTILE}
    (two[1] / "run.json").write_text(json.dumps(record))
    assert main(["compare", *map(str, two)]) == 0
    told = capsys.readouterr().out
    assert not {c for c in told if c < " " and c != "\n"}
    assert "\u202e" not in told
    assert not [line for line in told.splitlines() if line.lstrip().startswith("::")]


def test_markdown_of_hostile_text_is_code_and_bounded() -> None:
    found = apart(*[(Result.HELD, Result.NOT_HELD)] * 3000, name=HOSTILE, reason=HOSTILE)
    text = compare_markdown.render(found)
    assert len(text) <= compare_markdown.CHARACTERS_MAX
    assert "more lines are left out" in text
    lines = [line for line in text.splitlines() if "evil" in line]
    assert lines
    assert all(line.startswith("- ``") and line.endswith("``") for line in lines)
