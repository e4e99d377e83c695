"""What a script declares reaches who listens, and costs nothing where nobody does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from chaoskit import progress


class Listener:
    def __init__(self) -> None:
        self.heard: list[object] = []

    def step_done(self, step: int) -> None:
        self.heard.append(step)

    def phase_begin(self, name: str, allowance_s: float) -> None:
        self.heard.append((name, allowance_s))

    def phase_end(self, name: str) -> None:
        self.heard.append(f"end of {name}")

    def report_result(self, value: float) -> None:
        self.heard.append(value)

    def finished(self) -> None:
        self.heard.append("finished")


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    monkeypatch.setattr(progress, "_declared", progress._Declared())
    listening = Listener()
    progress.subscribe(listening)
    yield listening
    progress.unsubscribe(listening)


def test_nobody_listens_and_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_declared", progress._Declared())
    progress.step_done()
    progress.report_result(1.0)
    progress.finished()
    with progress.phase("checkpoint", 5):
        pass
    assert progress.steps() == 1


def test_steps_are_counted_from_1_or_named_by_the_script(listener: Listener) -> None:
    progress.step_done()
    progress.step_done()
    progress.step_done(100)
    progress.step_done()
    assert listener.heard == [1, 2, 100, 101]


def test_a_phase_ends_also_when_it_raises(listener: Listener) -> None:
    with pytest.raises(KeyError), progress.phase("outer", 5), progress.phase("inner", 2):
        raise KeyError
    assert listener.heard == [("outer", 5), ("inner", 2), "end of inner", "end of outer"]


def test_subscribing_twice_is_once_and_unsubscribing_ends_it(listener: Listener) -> None:
    progress.subscribe(listener)
    progress.finished()
    progress.unsubscribe(listener)
    progress.report_result(2.5)
    assert listener.heard == ["finished"]


def test_optimizer_steps_count_until_the_script_counts_itself(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    from torch.optim import optimizer as torch_optimizer

    monkeypatch.setattr(
        torch_optimizer, "_global_optimizer_post_hooks", type(torch_optimizer._global_optimizer_post_hooks)()
    )
    progress.count_optimizer_steps()
    progress.count_optimizer_steps()
    sgd = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], 0.1)
    sgd.step()
    sgd.step()
    assert listener.heard == [1, 2]
    progress.step_done()  # of the step that the optimizer has just done
    sgd.step()
    progress.step_done()
    assert listener.heard == [1, 2, 3]


def test_it_needs_the_standard_library_alone() -> None:
    code = (
        "import chaoskit.progress, chaoskit.guards, sys; "
        "sys.exit(bool({'torch', 'pydantic', 'ruamel'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
