"""The built-in profiles: none has an error but folklore, which has those that are known."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from chaoskit.checking import Level, Target, check, read_subject
from chaoskit.checking.target import launchers
from chaoskit.scenario import profile_names

README = Path(__file__).parents[2] / "README.md"


@pytest.mark.parametrize("backend", [None, "gloo", "nccl", "nccl-legacy"])
@pytest.mark.parametrize("torch", [(2, 4), (2, 13), (2, 15)])
@pytest.mark.parametrize("name", [name for name in profile_names() if name != "folklore"])
def test_the_built_in_profiles_are_clean(name: str, torch: tuple[int, int], backend: str | None) -> None:
    subject, read = read_subject(name)
    target = Target(torch, ".".join(map(str, torch)), backend=backend)  # type: ignore[arg-type]
    found = (*read, *check(subject, target))
    assert [f for f in found if f.level is not Level.NOTE] == []


def test_folklore_has_its_known_errors() -> None:
    subject, _ = read_subject("folklore")
    found = check(subject, Target((2, 13), "2.13.0"))
    assert {(f.rule, f.subject) for f in found if f.level is Level.ERROR} == {
        ("exclusive", "TORCH_NCCL_BLOCKING_WAIT"),
        ("order", "folklore_init.timeout"),
    }
    assert {f.subject for f in found if f.level is Level.WARNING} == {
        "folklore_init", "folklore_oom_handler", "folklore_watchdog", "TORCH_NCCL_BLOCKING_WAIT",
    }  # fmt: skip
    assert {(f.rule, f.subject) for f in found if f.level is Level.NOTE} == {
        ("old-name", "NCCL_ASYNC_ERROR_HANDLING")
    }
    assert all(f.line > 0 for f in found)


@pytest.mark.parametrize("launcher", launchers())
@pytest.mark.parametrize("name", [*profile_names(), "README"])
def test_no_error_is_contradicted_under_any_launcher(name: str, launcher: str, tmp_path: Path) -> None:
    if name == "README":
        (example,) = re.findall(r"```yaml\n(name: our-cluster\n.*?)```", README.read_text("utf-8"), re.DOTALL)
        name = str(tmp_path / "our-cluster.yaml")
        Path(name).write_text(example)
    subject, read = read_subject(name)
    assert read == ()
    for kill_wait_s in (None, 1.0, 10.0, 30.0, 60.0):
        for torch in ((2, 4), (2, 13)):
            found = check(subject, Target(torch, launcher=launcher, scheduler_grace_s=kill_wait_s))  # type: ignore[arg-type]
            undone = {
                f.subject for f in found if f.rule == "no-effect" or f.message.startswith("not provided by")
            }
            for finding in found:
                if finding.rule == "order":
                    assert not undone & set(re.findall(r"\w+", finding.message)), finding
                    assert "--kill-wait" not in finding.hint
