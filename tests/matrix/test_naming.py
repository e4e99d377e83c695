"""Did the job itself name who did it? Lines as guards and launchers write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaoskit.event_lines import to_line
from chaoskit.events import ArmStarted, GuardFired, GuardNoticed, Signalled
from chaoskit.matrix.naming import Speaker, names, said_in
from chaoskit.model import Culprit

RANK_1, RANK_4 = Culprit("rank", "1"), Culprit("rank", "4")


def fired(message: str, slot: int = 0, *, local: bool = False, blames: tuple[str, ...] = ()) -> Speaker:
    return GuardFired(1.0, slot, "census", 80, message, local, blames)


def noticed(*blames: str) -> Speaker:
    return GuardNoticed(1.0, 0, "nic_check", "it is slow", blames)


@pytest.mark.parametrize(
    ("wanted", "said", "expected"),
    [
        ((RANK_4,), [fired("rank 4 of 5 has not come within 3 s (ranks 0-3 are here)")], True),
        ((RANK_1,), [fired("RANK 1 is claimed by 2 processes: pid 7 on vm, pid 8 on vm")], True),
        ((RANK_1,), [fired("an operation timed out; look for the rank that failed first")], False),
        ((RANK_1,), [fired("out of memory", 1, local=True)], True),
        ((RANK_1,), [fired("out of memory", 2, local=True)], False),
        ((RANK_1,), [Signalled(1.0, 0, 15, "group_kill", "process 1 ended with exit code 1")], True),
        ((RANK_1,), [fired("rank 1 left"), fired("rank 2 left")], False),
        ((RANK_1, Culprit("rank", "2")), [fired("rank 1 left"), fired("rank 2 left")], True),
        ((Culprit("nic", "hostB eth0"),), [fired("rank 0 cannot", blames=("nic hostB eth0",))], True),
        ((Culprit("nic", "hostB eth0"),), [noticed("nic hostA eth0")], False),
        ((), [fired("rank 1 left")], None),
        (None, [fired("rank 1 left")], None),
        ((RANK_1,), None, None),
        ((RANK_1,), [], False),
        (tuple(Culprit("rank", str(n)) for n in (2, 3, 5)), [fired("ranks 2-3, and 5 are missing")], True),
    ],
)  # fmt: skip
def test_who_is_named(
    wanted: tuple[Culprit, ...] | None, said: list[Speaker] | None, expected: bool | None
) -> None:
    assert names(wanted, said) is expected


def test_the_lines_of_a_history(tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    events = [ArmStarted(0.5, -1, True), fired("rank 1 left"), Signalled(2.0, 0, 15, "group_kill", "because")]
    history.write_text("".join(to_line(e) + "\n" for e in events))
    assert said_in(history) == tuple(events[1:])


@pytest.mark.parametrize("text", ['{"kind":"GuardFired","t_s":', '{"kind":"GuardFired"}\n'])
def test_of_a_damaged_history_nothing_is_told(tmp_path: Path, text: str) -> None:
    history = tmp_path / "history.jsonl"
    history.write_text(text)
    assert said_in(history) is None
    assert said_in(tmp_path / "missing") is None
