"""The exit code of a run, from its results alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chaoskit.errors import ExitCode
from chaoskit.model import Result, ScenarioResult
from chaoskit.reports.exit_code import exit_code

H, NH, NN, I, S = (  # noqa: E741
    Result.HELD, Result.NOT_HELD, Result.NOT_NEEDED, Result.INCONCLUSIVE, Result.SKIPPED,
)  # fmt: skip


@pytest.mark.parametrize(
    ("results", "code"),
    [
        ([H], ExitCode.OK),
        ([NN], ExitCode.OK),
        ([H, S, NN], ExitCode.OK),
        ([H, NH], ExitCode.NOT_HELD),
        ([I, NH, S], ExitCode.NOT_HELD),
        ([H, I], ExitCode.INCONCLUSIVE),
        ([S, S], ExitCode.INCONCLUSIVE),
        ([], ExitCode.INCONCLUSIVE),
    ],
)
def test_the_worst_result_decides(
    results: list[Result], code: ExitCode, result: Callable[..., ScenarioResult]
) -> None:
    assert exit_code(result(result=r) for r in results) is code


def test_an_interrupted_run_is_130_whatever_it_found(result: Callable[..., ScenarioResult]) -> None:
    assert exit_code([result(result=NH)], interrupted=True) is ExitCode.INTERRUPTED
