"""The command that runs an arm again: the real command line reads it, and makes the same plan of it."""

from __future__ import annotations

import dataclasses
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chaoskit import api, codec, engine, filing
from chaoskit.agenda import Agenda, plan_to_watch
from chaoskit.claims import reading
from chaoskit.claims import running as claims_running
from chaoskit.cli import chaoskit, plan_options, run_options, watch_options
from chaoskit.cli import claims as claims_command
from chaoskit.cli.option_values import library
from chaoskit.cost import detection
from chaoskit.cost.treatments import treatment
from chaoskit.faults.environment import Environment
from chaoskit.faults.kill import Kill
from chaoskit.guards.group_kill import GroupKill
from chaoskit.guards.timeouts import Timeouts
from chaoskit.matrix import batch, columns
from chaoskit.matrix.values import NONE, PROFILE, Column
from chaoskit.model import Injection, Plan, Profile, Trigger, Workload
from chaoskit.plan import make_plan
from chaoskit.redacting import Redactor
from chaoskit.request import RunRequest, RunResult
from chaoskit.scenario import dump, load, load_profile, select
from chaoskit.scenario.survey import Issued, Survey

KILLED = "rank-killed-mid-all-reduce"
SECRET = "hf_" + "x7Qz" * 8
SURVEY = Survey({slot: (Issued("all_reduce", "default", 9, 3, True),) for slot in range(8)}, 5, 0, 9.0, 2.0)
"""Of a program that is slow: the automatic time scale follows its pace, here 2 s."""
FILE = """\
name: mine
summary: Ours.
workload: {workload}
faults:
  - kill: {{rank: 1}}
    when: {{op: all_reduce, nth: 2, phase: during}}
arms:
  control: {{profile: torch-defaults, expect: {{outcome: failed}}}}
  hardened: {{profile: recommended, expect: {{outcome: failed, within: 3s}}}}
  "- other's": {{profile: ./a profile.yaml, expect: {{outcome: failed, within: 3s}}}}
"""
PROFILE_FILE = "name: strict\nguards:\n  timeouts: {init: 70s, collective: 70s, store: 70s}\n"


class _Asked(Exception):
    """The request that a command makes of the engine."""

    def __init__(self, request: RunRequest) -> None:
        self.request = request


def typed(line: str) -> tuple[str, dict[str, object]]:
    """What the command line reads in ``line``, pasted into a shell."""
    program, name, *words = shlex.split(line)
    assert program == "chaoskit"
    command = chaoskit.get_command(click.Context(chaoskit), name)
    assert command is not None
    with command.make_context(name, words) as context:
        return name, dict(context.params)


def plans(line: str) -> list[Plan]:
    """The plans of the arms that the command would run; users' programs are known to do what SURVEY says."""
    name, options = typed(line)
    match name:
        case "run":
            return of(run_options.read(run_options.RunOptions(**options), library()).request)  # type: ignore[arg-type]
        case "watch":
            watched = watch_options.read(watch_options.WatchOptions(**options), library()).request  # type: ignore[arg-type]
            assert watched.seed is not None
            return [plan_to_watch(watched, watched.seed, None)]
        case "plan":
            return [plan_options.read(plan_options.PlanOptions(**options), library()).plan]  # type: ignore[arg-type]
        case _:
            asked = claims_command.read(claims_command.Options(**options)).request  # type: ignore[arg-type]
            return of(of_claims(asked))


def of_claims(asked: claims_running.ClaimsRequest) -> RunRequest:
    def stop(request: RunRequest, observer: object) -> RunResult:
        raise _Asked(request)

    with pytest.raises(_Asked) as raised:
        claims_running.run(asked, stop)
    return raised.value.request


def of(request: RunRequest) -> list[Plan]:
    assert request.seed is not None
    own = [s.workload for s in request.scenarios] + ([request.program] if request.program else [])
    surveys = {program: SURVEY for program in own if not program.is_built_in}
    items = Agenda(request, request.seed, isolated=True, surveys=surveys).items()
    return [plan for item in items for plan in item.plans.values()]


def same(plan: Plan, **ignored: object) -> Plan:
    """The plan, but for what its profile is called and which repeat it is."""
    profile = dataclasses.replace(plan.profile, name="", summary="", file="")
    return dataclasses.replace(plan, profile=profile, repeat=1, rerun="", **ignored)  # type: ignore[arg-type]


def check(first: Plan) -> None:
    assert first.rerun
    (again,) = plans(first.rerun)
    assert same(again) == same(first)
    assert again.rerun == first.rerun


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which a user types and pastes."""
    folder = tmp_path / "my folder"
    folder.mkdir()
    (folder / "train it.py").write_text("")
    (folder / "a profile.yaml").write_text(PROFILE_FILE)
    (folder / "start").write_text("#!/bin/sh\n")
    (folder / "start").chmod(0o700)
    (folder / "built-in.yaml").write_text(FILE.format(workload="all-reduce-loop"))
    (folder / "own script.yaml").write_text(FILE.format(workload="{script: train it.py, args: [-x, 'a b']}"))
    command = "{command: [torchrun, --nproc-per-node=4, train it.py]}"
    (folder / "own command.yaml").write_text(FILE.format(workload=command))
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}")
    return folder


# ---------------------------------------------------------------- what was typed


@pytest.mark.parametrize(
    "line",
    [
        f"{KILLED} rank-stopped --backend nccl",
        f"{KILLED} --ranks 3 --repeat 2",
        f"{KILLED} --gpu-sharing multi-rank --profile strict",
        f"{KILLED} --profile torch-defaults",  # which is that of the control, too
        f"{KILLED} --profile './a profile.yaml'",  # which calls itself as a built-in one
        f"{KILLED} --time-scale 0.3333333333333333 --timeout 12.3456789012s",
        "./built-in.yaml --profile folklore",
        "./built-in.yaml",
        "'./own script.yaml' --launcher torchrun --within 4s",
        "'./own script.yaml' --profile strict",
        "'./own command.yaml'",
        f"{KILLED} --script 'train it.py' --launcher torchrun -- --epochs 1 -- '' --api 'a b'",
        f"{KILLED} --script 'train it.py' --time-scale 0.5",
        f"{KILLED} ./built-in.yaml --module json.tool --within 30s -- --sort-keys",
        f"{KILLED} --launcher command -- torchrun --nproc-per-node 3 'train it.py'",
        f"{KILLED} --launcher command --ranks 4 -- start 'train it.py'",
    ],
)
def test_the_line_of_a_run_makes_the_plan_again(line: str) -> None:
    made = plans(f"chaoskit run --seed 7 {line}")
    assert len(made) > 1
    for plan in made:
        check(plan)


def test_the_arm_of_a_file_keeps_its_own_profile() -> None:
    (other,) = (plan for plan in plans("chaoskit run --seed 7 ./built-in.yaml") if "other" in plan.arm)
    assert other.profile.guards and "--profile" not in other.rerun and "--arm='- other" not in other.rerun
    assert shlex.split(other.rerun)[3] == "--arm=- other's"


@pytest.mark.parametrize(
    "line",
    [
        "'train it.py' --ranks 2 -- --lr 0.1",
        "-m json.tool --profile './a profile.yaml' --within 9s --timeout 1m",
        "'train it.py' --launcher torchrun --profile strict",
        "-- torchrun --nproc-per-node 2 'train it.py' --x",
    ],
)
def test_the_line_of_a_watched_program_makes_the_plan_again(line: str) -> None:
    (plan,) = plans(f"chaoskit watch --seed 3 {line}")
    check(plan)


@pytest.mark.parametrize(
    "line",
    [
        f"{KILLED} --arm hardened",
        f"{KILLED} --arm hardened --script 'train it.py' --ranks 8 --profile './a profile.yaml' -- -e 1",
        "'own script.yaml' --arm control --time-scale 0.1 --within 20s --timeout 50s",
        "--script 'train it.py' --ranks 2 --profile strict",
    ],
)
def test_the_line_of_a_plan_makes_it_again(line: str) -> None:
    made = plans(f"chaoskit plan --seed 3 --output x/plan.json {line}")
    check(made[0])


def test_a_plan_is_made_again_with_its_survey(monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    asked: list[Path] = []
    monkeypatch.setattr(plan_options, "surveyed", lambda path: asked.append(path) or SURVEY)
    line = f"{KILLED} --arm hardened --script 'train it.py' --survey 'runs/a b' -o x/plan.json"
    check(plans(f"chaoskit plan --seed 3 {line}")[0])
    assert asked == [Path("runs/a b"), here / "runs/a b"]


def test_a_number_of_ranks_that_does_not_fit_is_no_arm_to_run_again() -> None:
    made = plans("chaoskit run --seed 7 --ranks 2 rank-killed-mid-all-reduce duplicate-rank")
    lines = {plan.scenario: plan.rerun for plan in made}
    assert lines[KILLED] and not lines["duplicate-rank"]


ARGUMENTS = st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8))
WORDS = st.text(st.sampled_from("ab -'\"$`\\é\n;*"), min_size=1, max_size=8)
ARMS = WORDS.filter(str.isprintable)


@settings(
    max_examples=8, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(
    folder=WORDS, arm=ARMS, args=ARGUMENTS, scale=st.floats(1e-9, 1000.0), timeout_s=st.floats(1e-3, 1e5),
    ranks=st.integers(2, 9), seed=st.integers(0, 2**63 - 1), tested=st.sampled_from(["", "strict", "x"]),
    backend=st.sampled_from(["gloo", "nccl"]), launcher=st.sampled_from([None, "torchrun"]),
)  # fmt: skip
def test_whatever_is_chosen_and_however_it_is_called(
    here: Path, folder: str, arm: str, args: list[str], scale: float, timeout_s: float, ranks: int, seed: int,
    tested: str, backend: str, launcher: str | None,
) -> None:  # fmt: skip
    place = here / "hostile" / f"{folder}."
    place.mkdir(parents=True, exist_ok=True)
    script, file, profile = place / "-train.py", place / "-mine.yaml", place / "x.yaml"
    script.write_text("")
    profile.write_text(PROFILE_FILE)
    (read,) = load([here / "built-in.yaml"])
    arms = (*read.arms[:2], dataclasses.replace(read.arms[1], name=arm))
    file.write_text(dump(dataclasses.replace(read, arms=arms)))
    (scenario,) = load([file])
    request = RunRequest(
        (scenario,), backend=backend, ranks=ranks, seed=seed, timeout_s=timeout_s, time_scale=scale,  # type: ignore[arg-type]
        program=Workload("-train.py", kind="script", target=str(script), args=tuple(args)),
        launcher=launcher, stall_s=timeout_s / 3,  # type: ignore[arg-type]
        profile=load_profile(str(profile) if tested == "x" else tested) if tested else None,
    )  # fmt: skip
    for plan in of(request):
        check(plan)


# ---------------------------------------------------------------- what exists in memory only


def filed(request: RunRequest, folder: Path) -> RunRequest:
    return filing.filed(request, folder, Redactor())


def test_the_line_of_every_arm_of_a_matrix_makes_the_plan_again(here: Path) -> None:
    """The profile under test is not the file's own: bounds are reckoned by another one."""
    tested = load_profile("./a profile.yaml")
    tested = dataclasses.replace(tested, guards=(*tested.guards, GroupKill()), env=(("A_B", "1"),))
    names, scenarios = batch._Names(), []
    for scenario in (*select(["rank-stopped"]), *load(["built-in.yaml"])):
        made = {NONE: batch.bare(), PROFILE: tested}
        made |= {Column("alone", part): columns.alone(tested, part) for part in columns.parts_of(tested)}
        made |= {Column("set", "1"): columns.subset(tested, ("group_kill", "A_B"), 1)}
        wanted = [batch.Wanted(scenario, column, profile) for column, profile in made.items()]
        wanted = wanted[1:] if scenario.name == "mine" else wanted  # its control was run before
        scenarios.append(batch._with_arms(scenario, wanted, tested, names))
    arms = tuple(batch._arm_name(column) for column in made)
    request = RunRequest(tuple(scenarios), profiles=names.profiles, arms=arms, seed=7, ranks=3)
    made_plans = of(filed(request, here / "runs" / "a run"))
    assert len(made_plans) == 2 * 6 - 1
    for plan in made_plans:
        check(plan)
    assert not any(plan.rerun for plan in of(request)), "before there is a file there is no command"


def test_the_line_of_every_arm_of_the_detection_makes_the_plan_again(here: Path) -> None:
    def stop(request: RunRequest, observer: object) -> RunResult:
        raise _Asked(request)

    with pytest.raises(_Asked) as raised:
        detection.detect([treatment("strict")], "gloo", here / "runs", 5, run=stop)
    made = of(filed(raised.value.request, here / "runs/1"))
    assert len(made) == len(detection.SCENARIOS) * 2
    for plan in made:
        check(plan)


def test_the_line_of_every_arm_of_a_claim_makes_the_plan_again(here: Path) -> None:
    text = (reading.TOLD / "timeout-ends-a-hang.yaml").read_text().replace("name: ", "name: our-")
    (here / "a claim.yaml").write_text(text)
    claims = reading.find(["./a claim.yaml", "async-error-handling-2", "async-error-handling-3"])
    asked = claims_running.ClaimsRequest(tuple(claims), ("gloo", "nccl"), 2, seed=3)
    made = of(of_claims(asked))
    assert {plan.seed for plan in made} == {3, 4} and {plan.backend for plan in made} == {"gloo", "nccl"}
    for plan in made:
        assert nameless(plan) in [nameless(one) for one in plans(plan.rerun) if one.arm == plan.arm]


def nameless(plan: Plan) -> Plan:
    """Two claims of one scenario give it two names, and a port goes by the name."""
    ranks = tuple(
        dataclasses.replace(r, env=tuple(v for v in r.env if v[0] != "MASTER_PORT")) for r in plan.ranks
    )
    return same(plan, scenario="", master_port=0, ranks=ranks)


@pytest.fixture
def asked_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., RunRequest]:
    """Call chaoskit.run, and return what it asks of the engine."""

    def stop(request: RunRequest, observer: object) -> RunResult:
        raise _Asked(request)

    monkeypatch.setattr(engine, "run", stop)

    def ask(*given: object, **more: object) -> RunRequest:
        with pytest.raises(_Asked) as raised:
            api.run(*given, **more)  # type: ignore[arg-type]
        return raised.value.request

    return ask


def test_objects_of_python_are_run_again_from_files(asked_of: Callable[..., RunRequest], here: Path) -> None:
    (known,) = select([KILLED])
    changed = dataclasses.replace(known, injections=(Injection(Kill((2,)), Trigger("step", step=3)),))
    mine = Profile(
        "My own: profile!", guards=(Timeouts(50.0, 50.0, 50.0), GroupKill()), env=(("OMP_X", "a b"),)
    )
    relative = dataclasses.replace(load(["built-in.yaml"])[0], file="")
    kinds: list[tuple[object, object]] = [
        (known, None), (changed, None), (changed, mine), (relative, "a profile.yaml"),
        ("./built-in.yaml", mine),
        (dataclasses.replace(changed, file=""), load_profile("strict")),
    ]  # fmt: skip
    for number, (scenario, profile) in enumerate(kinds):
        request = filed(asked_of(scenario, profile=profile, seed=4, ranks=3), here / f"run {number}")
        made = of(request)
        assert len(made) >= 2
        for plan in made:
            check(plan)
    assert not (here / "run 0").exists(), "what the library has needs no file"
    assert load_profile(here / "run 2/again/profiles/my-own-profile.yaml").guards == mine.guards


def test_a_moved_run_still_has_its_arms(here: Path) -> None:
    (known,) = select([KILLED])
    (here / "runs").mkdir()
    own = Profile("own", guards=(GroupKill(),))
    arms = tuple(dataclasses.replace(a, profile="own") if a.name == "hardened" else a for a in known.arms)
    request = RunRequest((dataclasses.replace(known, arms=arms, file=""),), profiles=(own,), seed=1)
    filed(request, here / "runs" / "1")
    (here / "runs").rename(here / "elsewhere")
    (moved,) = load([here / "elsewhere" / "1" / "again" / f"{KILLED}.yaml"])
    assert load_profile(moved.arms[1].profile).guards == own.guards


@pytest.mark.parametrize("what", ["variable", "value", "fault", "unknown name", "no disk"])
def test_what_may_not_or_cannot_be_written_has_no_command(here: Path, what: str) -> None:
    (known,) = select([KILLED])
    profile = Profile("p", guards=(Timeouts(50.0, 50.0, 50.0),))
    scenario = dataclasses.replace(known, file="")
    if what == "variable":
        profile = dataclasses.replace(profile, env=(("DB_PASSWORD", "abc"),))
    elif what == "value":
        profile = dataclasses.replace(profile, env=(("LOGIN", SECRET),))
    elif what == "fault":
        fault = Environment((1,), set=(("DB_PASSWORD", "abc"),))
        scenario = dataclasses.replace(scenario, injections=(Injection(fault, Trigger("launch")),))
    elif what == "unknown name":
        scenario = dataclasses.replace(scenario, name="../../no slug")
    else:
        (here / "run").write_text("a file where the folder should be")
    request = filed(RunRequest((scenario,), profile=profile, seed=2), here / "run")
    lines = {plan.arm: plan.rerun for plan in of(request)}
    assert lines["hardened"] == "" and lines["control"] == ""
    written = [p.read_text() for p in here.rglob("*.yaml")]
    assert not any(SECRET in text or "DB_PASSWORD" in text for text in written)
    assert not list(here.parent.glob("*slug*"))


def test_a_profile_in_memory_names_no_command() -> None:
    (scenario,) = select([KILLED])
    loose = Profile("strict", guards=(GroupKill(),))
    plan = make_plan(scenario, "hardened", profile=loose, hardened_profile=loose, seed=1)
    assert plan.rerun == "", "the built-in one of that name is another"


# ---------------------------------------------------------------- pasted into a shell

PYTHON = """
import dataclasses, chaoskit
from chaoskit.guards.group_kill import GroupKill
from chaoskit.model import Profile
from chaoskit.scenario import select
(known,) = select(["rank-killed-mid-all-reduce"])
mine = Profile("Mine!", guards=(GroupKill(),), env=(("OMP_X", "a b"),))
chaoskit.run(dataclasses.replace(known, name="mine"), profile=mine, ranks=2, seed=3)
"""
CLAIM = """
name: ours
told: Another type on one rank ends the job.
source: [a test]
with: {env: {TORCH_NCCL_BLOCKING_WAIT: 1}}
try: [{scenario: dtypes-differ, expect: {outcome: failed, within: 20s}}]
"""
CHECK = "name: check\nguards: {collective_check: {hold: 20s, settle: 5s, exit_wait: 30s}}\n"
TRAIN = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
for _ in range(20):
    dist.all_reduce(torch.ones(2))
dist.barrier()
"""


def arms(folder: Path, but: tuple[Path, ...] = ()) -> list[tuple[Path, Plan]]:
    """The arms that ran below ``folder``, each with its plan."""
    found = sorted({p.parent for p in folder.rglob("verdict.json")} - set(but))
    return [(p, codec.load_plan((p / "plan.json").read_text())) for p in found if "survey" not in p.parts]


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("chaoskit run rank-killed-mid-all-reduce --script 'train it.py' -- --epochs ''", "hardened"),
        ("chaoskit run './own script.yaml' --profile './a profile.yaml'", "hardened"),
        ("chaoskit watch 'train it.py' --ranks 2 --profile './a profile.yaml'", "watch"),
        (
            "chaoskit matrix dtypes-differ --profile './a check.yaml' --column alone --ranks 3",
            "alone-collective_check",
        ),
        ("chaoskit claims ./claim.yaml --backend gloo --repeat 1", "ours"),
        ("python mine.py", "hardened"),
    ],
    ids=["script", "file", "watch", "matrix", "claims", "python"],
)
def test_a_printed_line_runs_the_arm_again(line: str, wanted: str, here: Path) -> None:
    (here / "train it.py").write_text(TRAIN)
    (here / "mine.py").write_text(PYTHON)
    (here / "claim.yaml").write_text(CLAIM)
    (here / "a check.yaml").write_text(CHECK)
    subprocess.run(["sh", "-c", line], cwd=here, timeout=300)
    first = arms(here / "runs")
    folder, plan = next((folder, plan) for folder, plan in first if plan.arm == wanted)
    verdict = codec.load_verdict((folder / "verdict.json").read_text())
    assert verdict.rerun == plan.rerun != ""
    done = subprocess.run(["sh", "-c", verdict.rerun], cwd=here, timeout=300, capture_output=True, text=True)
    assert done.returncode in (0, 1, 2), done.stderr
    second = [one for one in arms(here / "runs", tuple(f for f, _ in first)) if one[1].arm == wanted]
    ((again, made),) = second
    assert nameless(made) == nameless(plan)
    came = codec.load_verdict((again / "verdict.json").read_text())
    assert (came.status, came.outcome, came.culprits) == (verdict.status, verdict.outcome, verdict.culprits)
