"""A user's program as it is: who is named for its bug, and who must not be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from chaoskit.judging import judge_again
from chaoskit.model import Culprit, Kind, Outcome, Status, Verdict, Workload
from chaoskit.request import WatchRequest

pytestmark = [pytest.mark.timeout(300), pytest.mark.slow]

PROGRAMS = Path(__file__).parent / "programs"
STALL_S = 5.0

# bug: outcome, culprits, kind
FAILS: dict[str, tuple[Outcome, set[int], Kind]] = {
    "hang": (Outcome.HUNG, {1}, Kind.NEVER_ENTERED),
    "raise": (Outcome.FAILED, {1}, Kind.EXCEPTION),
    "leave": (Outcome.FAILED, {1}, Kind.LEFT_EARLY),
    "quit": (Outcome.FAILED, {1}, Kind.LEFT_EARLY),
    "text": (Outcome.FAILED, {2}, Kind.EXITED),
    "diverge": (Outcome.CORRUPTED, {3}, Kind.DIVERGED),
    "skip": (Outcome.FAILED, {1}, Kind.OTHER_COLLECTIVE),
    "alone": (Outcome.HUNG, {0}, Kind.OTHER_COLLECTIVE),
    "decide": (Outcome.FAILED, {2}, Kind.NEVER_ENTERED),
    "swallow": (Outcome.FAILED, {1}, Kind.OTHER_COLLECTIVE),
    "before-init": (Outcome.HUNG, {1}, Kind.EXCEPTION),
}
PASSES = ("ok", "keep", "straggler", "chdir", "binary")


def script(name: str, *args: str) -> Workload:
    return Workload(name, kind="script", target=str(PROGRAMS / name), args=args)


Watch = Callable[[Workload], Verdict]


@pytest.fixture
def watch(shared_servers: None, tmp_path: Path) -> Watch:
    from chaoskit import engine

    def watch(program: Workload) -> Verdict:
        asked = WatchRequest(program, stall_s=STALL_S, runs_dir=tmp_path / "runs", seed=5)
        return engine.watch(asked).verdicts[0]

    return watch


def ranks(culprits: tuple[Culprit, ...]) -> set[int]:
    return {int(c.id) for c in culprits}


@pytest.mark.parametrize("bug", FAILS)
def test_the_rank_with_the_bug_is_named_and_no_other(bug: str, watch: Watch, tmp_path: Path) -> None:
    outcome, culprits, kind = FAILS[bug]
    verdict = watch(script("buggy.py", bug))
    assert verdict.status is Status.FAIL, verdict.reason
    assert (verdict.outcome, ranks(verdict.culprits)) == (outcome, culprits), verdict.reason
    assert not verdict.ambiguous, verdict.reason
    assert verdict.kind is kind, verdict.reason
    if bug in ("hang", "raise"):
        assert verdict.where.startswith(f"{PROGRAMS / 'buggy.py'}:")
    if bug == "diverge":
        assert "after step 4" in verdict.reason
        assert "first in 0.weight (1 of 4 parameters differs)" in verdict.reason
        (arm,) = (path.parent for path in tmp_path.glob("**/history.jsonl"))
        assert judge_again(arm).reason == verdict.reason
        lines = (arm / "history.jsonl").read_text().splitlines(keepends=True)
        (arm / "history.jsonl").write_text("".join(x for x in lines if '"ParameterSum"' not in x))
        assert judge_again(arm).reason == verdict.reason, "the ranks' files tell it as well"


@pytest.mark.parametrize("program", PASSES)
def test_a_healthy_program_passes_however_odd_it_is(program: str, watch: Watch, tmp_path: Path) -> None:
    verdict = watch(script("buggy.py", program))
    assert (verdict.status, verdict.outcome) == (Status.PASS, Outcome.COMPLETED), verdict.reason
    assert "replicas equal" in verdict.reason
    assert not verdict.culprits
    assert not any('"ParameterSum"' in path.read_text() for path in tmp_path.glob("**/history.jsonl"))
    if program == "straggler":
        assert ranks(verdict.stragglers) == {2}


def test_a_program_without_a_process_group_proves_nothing(watch: Watch) -> None:
    verdict = watch(script("buggy.py", "no-init"))
    assert verdict.status is Status.INCONCLUSIVE
    assert "init_process_group" in verdict.reason


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (script("not_python.txt"), "SyntaxError"),
        (script("not_there.py"), "FileNotFoundError"),
        (Workload("no.such", kind="module", target="no.such"), "No module named"),
    ],
)
def test_what_cannot_be_run_at_all_is_said_in_pythons_words(
    program: Workload, words: str, watch: Watch
) -> None:
    verdict = watch(program)
    assert verdict.status is Status.FAIL
    assert words in verdict.reason
    assert ranks(verdict.culprits) == {0, 1, 2, 3}


@pytest.mark.nightly
def test_a_program_that_starts_its_own_ranks_is_no_rank(watch: Watch) -> None:
    verdict = watch(script("spawns.py"))
    assert verdict.status is not Status.PASS
    assert "own ranks" in verdict.reason or "spawn" in verdict.reason, verdict.reason
