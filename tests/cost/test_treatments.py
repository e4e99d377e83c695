"""What the user typed → one side of a comparison; what would show nothing is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaoskit.cost import cases, treatments
from chaoskit.cost.named_settings import SETTINGS
from chaoskit.cost.request import Model
from chaoskit.cost.treatments import treatment
from chaoskit.errors import InvalidInput
from chaoskit.model import Backend

DDP = cases.ddp(Model())
(ALL_REDUCE,) = cases.collectives(["all_reduce"], [8])


@pytest.mark.parametrize(
    ("text", "env", "guards"),
    [
        ("recommended", None, None),
        ("guard:consistency", (), ("consistency",)),
        ("consistency:7", (), ("consistency",)),
        ("collective-check", (), ("collective_check",)),
        ("progress-watchdog", (), ("progress_watchdog",)),
        ("flight-recorder:0", (("TORCH_FR_BUFFER_SIZE", "0"),), ()),
        ("debug-detail", (("TORCH_DISTRIBUTED_DEBUG", "DETAIL"),), ()),
        ("async-error-handling:2", (("TORCH_NCCL_ASYNC_ERROR_HANDLING", "2"),), ()),
        ("A=b=c", (("A", "b=c"),), ()),
        ("A=", (("A", ""),), ()),
    ],
)
def test_each_form_is_read(
    text: str, env: tuple[tuple[str, str], ...] | None, guards: tuple[str, ...] | None
) -> None:
    found = treatment(text)
    assert found.name == text
    if env is not None:
        assert found.profile.env == env
    if guards is not None:
        assert tuple(guard.name for guard in found.profile.guards) == guards


def test_arguments_of_settings_arrive() -> None:
    assert treatment("monitored-barrier:3").every == 3
    assert treatment("monitored-barrier").every == 10
    (guard,) = treatment("consistency:7").profile.guards
    assert getattr(guard, "every", None) == 7


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("recomended", "did you mean recommended?"),
        ("guard:consistncy", "did you mean consistency?"),
        ("serialised-wait", "did you mean serialised-waits?"),
        ("monitored-barrier:0", "write monitored-barrier[:N]"),
        ("monitored-barrier:", "nothing stands behind the colon"),
        ("monitored-barrier:²", "whole number"),
        ("serialised-waits:3", "nothing can stand behind a colon"),
        ("async-error-handling", "expected a mode"),
        ("async-error-handling:9", "write async-error-handling:MODE"),
        ("RANK=3", "set by the launcher"),
        ("1X=3", "no name of a variable"),
        ("./nothing.yaml", "nothing.yaml"),
        ("./nothing.env", "no such file"),
        ("", "neither a profile"),
    ],
)
def test_what_means_nothing_is_told_with_what_was_meant(text: str, said: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        treatment(text)
    assert said in str(raised.value)


def test_a_secret_is_given_and_never_shown() -> None:
    found = treatment("MY_API_TOKEN=hunter2hunter2")
    assert found.profile.env == (("MY_API_TOKEN", "hunter2hunter2"),)
    assert "hunter2" not in found.name + found.says + found.profile.name


@pytest.mark.parametrize("text", ["blocking-wait", "TORCH_NCCL_BLOCKING_WAIT=1"])
def test_there_is_no_blocking_wait_on_gloo(text: str) -> None:
    problem = treatments.unfit(treatment(text), "gloo")
    assert problem is not None
    assert "no blocking wait on gloo" in problem.message
    assert "serialised-waits" in problem.hint
    assert treatments.unfit(treatment(text), "nccl") is None
    assert treatments.is_blocking_wait(treatment(text))


def test_only_what_is_for_nccl_speaks_of_blocking_wait() -> None:
    for setting in SETTINGS.values():
        text = f"{setting.name}:1" if setting.argument else setting.name
        if "blocking wait" in treatment(text).says:
            assert setting.backends == ("nccl",)


@pytest.mark.parametrize(
    ("text", "backend", "said"),
    [
        ("monitored-barrier", "nccl", "is for gloo"),
        ("async-error-handling:1", "gloo", "is for nccl"),
        ("TORCH_NCCL_DUMP_ON_TIMEOUT=1", "gloo", "no effect in the ranks on gloo"),
        ("guard:group_kill", "gloo", "acts in the launcher"),
        ("torchrun-policy", "gloo", ""),
        ("torch-defaults", "gloo", ""),
        ("folklore", "gloo", ""),
        ("serialised-waits", "nccl", ""),
    ],
)
def test_what_has_no_effect_on_the_backend_is_refused(text: str, backend: Backend, said: str) -> None:
    problem = treatments.unfit(treatment(text), backend)
    assert (problem is None) == (said == "")
    assert problem is None or said in problem.message


def test_what_is_not_in_the_figures_is_told() -> None:
    said = treatments.not_counted(treatment("recommended"), "gloo")
    assert "group_kill acts in the launcher" in said
    assert "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC is read by ProcessGroupNCCL only" in said
    assert not treatments.not_counted(treatment("guard:consistency"), "gloo")


def test_a_case_that_would_show_nothing_is_refused() -> None:
    assert "bare collective" in treatments.unfit_for(treatment("consistency"), ALL_REDUCE)
    assert not treatments.unfit_for(treatment("consistency"), DDP)
    assert "saves nothing" in treatments.unfit_for(treatment("guard:checkpoint"), DDP)
    program = cases.Case("program", "train.py")
    assert "left as it is" in treatments.unfit_for(treatment("serialised-waits"), program)
    assert not treatments.unfit_for(treatment("recommended"), ALL_REDUCE)


def test_an_environment_file_is_a_whole_one(tmp_path: Path) -> None:
    file = tmp_path / "ours.env"
    file.write_text("# ours\nexport TORCH_FR_BUFFER_SIZE=20  # entries\n\nTORCH_GLOO_LAZY_INIT='1'\n")
    found = treatment(str(file))
    assert found.profile.env == (("TORCH_FR_BUFFER_SIZE", "20"), ("TORCH_GLOO_LAZY_INIT", "1"))
    assert treatments.is_whole(found)
    assert not treatments.is_whole(treatment("debug-info"))


def test_every_problem_of_an_environment_file_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "bad.env"
    file.write_text("A=1\nRANK=0\nwhat\n")
    with pytest.raises(InvalidInput) as raised:
        treatment(str(file))
    assert [problem.line for problem in raised.value.problems] == [2, 3]
    (tmp_path / "empty.env").write_text("# nothing\n")
    with pytest.raises(InvalidInput, match="holds no variable"):
        treatment(str(tmp_path / "empty.env"))


def test_of_a_name_that_is_given_twice_the_last_counts(tmp_path: Path) -> None:
    file = tmp_path / "twice.env"
    file.write_text("OMP_NUM_THREADS=1\nA=x\nOMP_NUM_THREADS=2\n")
    assert treatment(str(file)).profile.env == (("OMP_NUM_THREADS", "2"), ("A", "x"))


@pytest.mark.parametrize("backend", ["gloo", "nccl"])
@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("TORCH_NCL_BLOCKING_WAIT=1", "did you mean TORCH_NCCL_BLOCKING_WAIT?"),
        ("NCCL_BUFSIZE=1", "did you mean NCCL_BUFFSIZE?"),
        ("NCCL_TIMEOUT=30", "use the guard timeouts"),
    ],
)
def test_what_nobody_reads_is_refused_as_such(text: str, meant: str, backend: Backend) -> None:
    problem = treatments.unfit(treatment(text), backend)
    assert problem is not None
    assert meant in problem.message
    assert "by NCCL only" not in problem.message


def test_a_misspelt_name_of_a_file_is_not_called_one_of_nccl(tmp_path: Path) -> None:
    file = tmp_path / "ours.env"
    file.write_text("TORCH_NCL_BLOCKING_WAIT=1\nOMP_NUM_THREADS=1\n")
    said = treatments.not_counted(treatment(str(file)), "gloo")
    assert "did you mean TORCH_NCCL_BLOCKING_WAIT?" in said
    assert "only" not in said


def test_a_variable_of_the_user_s_own_is_for_a_script_of_theirs() -> None:
    own = treatment("MY_VAR=1")
    assert treatments.unfit(own, "gloo") is None
    assert "nothing but a script of yours can read MY_VAR" in treatments.unfit_for(own, DDP)
    assert not treatments.unfit_for(own, cases.Case("program", "train.py"))
    for read in ("MALLOC_ARENA_MAX=1", "OMP_NUM_THREADS=1", "LD_PRELOAD=x", "recommended"):
        assert not treatments.unfit_for(treatment(read), DDP)


def test_what_a_variable_does_wrong_is_told_with_its_name() -> None:
    for said in treatments.doubts(treatment("debug-detail"), "gloo"):
        assert said.startswith("TORCH_DISTRIBUTED_DEBUG: ")
    assert not treatments.doubts(treatment("strict"), "gloo")


def test_each_is_given_once_and_all_that_is_wrong_is_told() -> None:
    found, problems = treatments.all_of(["strict", "strict", "nope", "guard:nope"])
    assert [one.name for one in found] == ["strict"]
    assert len(problems) == 3
