"""The engine on real gloo ranks: what it runs, judges and keeps."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import shutil
import signal
import stat
import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from real_runs import (
    SCENARIOS,
    SEED,
    Finished,
    Heard,
    Run,
    folder_of,
    last,
    last_attempts,
    load,
    signature,
)

from chaoskit import codec, engine, history, judging, schedule
from chaoskit.errors import InvalidInput, LaunchFailed
from chaoskit.evidence import findings
from chaoskit.history import ArmEnded, Ended, Event, Injected, Malfunction, Sampled, Started
from chaoskit.judge import condensing, contract
from chaoskit.launchers.forkserver import ServerPool
from chaoskit.model import Culprit, Fault, Outcome, Result, Scenario, Status
from chaoskit.plan import make_plan
from chaoskit.request import RunRequest
from chaoskit.scenario import load_profile, select

pytestmark = pytest.mark.timeout(300)

ARMS = [(name, arm) for name in SCENARIOS for arm in ("control", "hardened")]


def only(name: str) -> Scenario:
    return select([name])[0]


def read(folder: Path) -> history.History:
    found, problems = history.read(folder / "history.jsonl")
    assert problems == []
    return found


# ---------------------------------------------------------------- one run, looked at from all sides


def test_the_results_are_those_that_the_files_promise(finished: Finished) -> None:
    assert {s.name: s.result for s in finished.result.scenarios} == {
        "rank-killed-mid-all-reduce": Result.NOT_NEEDED,
        "dtypes-differ": Result.HELD,
        "uncaught-exception": Result.NOT_NEEDED,
        "rank-stopped": Result.HELD,
    }
    assert [s.name for s in finished.result.scenarios] == list(SCENARIOS), "in the order asked for"
    assert {v.status for v in finished.verdicts} == {Status.PASS}
    assert not finished.result.interrupted


def test_the_culprit_of_every_arm_is_the_rank_that_was_hit(finished: Finished) -> None:
    hit = {"uncaught-exception": "2"}
    for verdict in finished.verdicts:
        assert verdict.culprits == (Culprit("rank", hit.get(verdict.scenario, "1")),), verdict
        assert not verdict.ambiguous


def test_what_the_controls_do_without_guards(finished: Finished) -> None:
    controls = {v.scenario: v.outcome for v in finished.verdicts if v.arm == "control"}
    assert controls == {
        "rank-killed-mid-all-reduce": Outcome.FAILED,
        "dtypes-differ": Outcome.CORRUPTED,
        "uncaught-exception": Outcome.FAILED,
        "rank-stopped": Outcome.HUNG,
    }


def test_a_hang_has_no_latency_and_an_end_is_within_its_bound(finished: Finished) -> None:
    for verdict in finished.verdicts:
        assert verdict.bound_s is not None
        if verdict.outcome is Outcome.HUNG:
            assert verdict.latency_s is None
            assert {r.exit_code for r in verdict.ranks} == {None}
        else:
            assert verdict.latency_s is not None
            assert 0 < verdict.latency_s <= verdict.bound_s


@pytest.mark.parametrize("arm", ARMS, ids="/".join)
def test_every_arm_has_its_files(arm: tuple[str, str], finished: Finished) -> None:
    folder = finished.arms[arm]
    plan = codec.load_plan((folder / "plan.json").read_text())
    assert (plan.scenario, plan.arm) == arm
    assert codec.load_verdict((folder / "verdict.json").read_text()) == finished.verdict(*arm)
    found = read(folder)
    assert [e.slot for e in found.all(Started)] == [r.slot for r in plan.ranks]
    assert sorted(e.slot for e in found.all(Ended)) == [r.slot for r in plan.ranks]
    assert isinstance(found.events[-1], ArmEnded)
    for rank in plan.ranks:
        names = {p.name for p in (folder / f"rank{rank.slot}").iterdir()}
        assert names >= {"stdout.log", "stderr.log"}
    assert not (folder / "error.txt").exists()


@pytest.mark.parametrize("arm", ARMS, ids="/".join)
def test_the_plan_is_there_before_the_launch_and_the_verdict_last(
    arm: tuple[str, str], finished: Finished
) -> None:
    folder = finished.arms[arm]
    written = {
        name: (folder / name).stat().st_mtime_ns for name in ("plan.json", "history.jsonl", "verdict.json")
    }
    first_output = min((folder / "rank0" / f"{s}.log").stat().st_mtime_ns for s in ("stdout", "stderr"))
    assert written["plan.json"] <= first_output <= written["history.jsonl"] <= written["verdict.json"]


@pytest.mark.parametrize("arm", ARMS, ids="/".join)
def test_judged_again_from_the_files_alone_it_is_the_same(arm: tuple[str, str], finished: Finished) -> None:
    assert engine.judge_again(finished.arms[arm]) == finished.verdict(*arm)


@pytest.mark.parametrize("arm", ARMS, ids="/".join)
def test_judged_as_a_large_history_it_is_the_same(
    arm: tuple[str, str], finished: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With room for the last few operations of each rank, and what is unsettled."""
    monkeypatch.setattr(judging, "SURELY_SMALL", 0)
    monkeypatch.setattr(condensing, "LARGE", 0)
    monkeypatch.setattr(condensing, "ROOM", condensing.Room(newest=8, unsettled=1000, around=8, block=2))
    found = engine.judge_again(finished.arms[arm])
    assert dataclasses.replace(found, notes=()) == dataclasses.replace(finished.verdict(*arm), notes=())


def test_nobody_else_can_read_a_run(finished: Finished) -> None:
    assert stat.S_IMODE(finished.result.run_dir.stat().st_mode) == 0o700
    for path in finished.result.run_dir.rglob("*"):
        assert not path.stat().st_mode & 0o022, f"{path} can be written by others"


def test_run_json_tells_how_it_was_asked(finished: Finished) -> None:
    told = json.loads((finished.result.run_dir / "run.json").read_text())
    assert (told["command"], told["seed"], told["interrupted"]) == ("a test", SEED, False)
    assert told["wall_s"] == pytest.approx(finished.result.wall_s, abs=1.0)


def test_an_observer_hears_everything_in_order(finished: Finished) -> None:
    heard = finished.heard
    assert heard.run_dir == finished.result.run_dir
    assert [(a.scenario, a.arm) for a in heard.announced] == ARMS
    assert sorted(heard.started, key=str) == sorted((a for a, _ in heard.ended), key=str)
    # One that was late, as on a busy machine, is begun once more.
    assert sorted((a for a in heard.started if a.attempt == 1), key=str) == sorted(heard.announced, key=str)
    assert sorted(r.name for r in heard.results) == sorted(SCENARIOS)
    assert heard.order[:2] == ["run", "start"]
    assert heard.order[-1] == "scenario"


def test_the_stacks_of_a_hang_are_kept(finished: Finished) -> None:
    folder = finished.arms["rank-stopped", "control"]
    for slot in range(4):
        told = json.loads((folder / f"rank{slot}" / "stack.json").read_text())
        assert told["state"] == ("T" if slot == 1 else "S")
        assert any("all_reduce_loop.py" in frame for frame in told["frames"]), told
    looks = read(folder).all(Sampled)
    assert min(sum(1 for s in looks if s.slot == slot) for slot in range(4)) >= 3


def test_the_evidence_of_a_hang_is_kept(finished: Finished) -> None:
    found = findings.read_all(finished.arms["rank-stopped", "control"])
    assert [(f.slot, f.state, f.stacks_by) for f in found] == [
        (0, "S", "py-spy"), (1, "T", "py-spy"), (2, "S", "py-spy"), (3, "S", "py-spy")
    ]  # fmt: skip
    assert [f.missing for f in found] == [(), ("flight recorder: the rank is stopped",), (), ()]
    recorded = [json.loads(Path(f.flight_recorder).read_text()) for f in found if f.slot != 1]
    assert {e["profiling_name"] for told in recorded for e in told["entries"]} >= {"gloo:all_reduce"}
    for one in found:
        assert not any("answering.py" in frame for t in one.threads for frame in t.frames)
        assert one.main is not None
        assert one.main.waits_in
        assert "store" in {s.what for s in one.sockets}
    # Each connection is seen from both of its ends, and what was sent to the stopped rank lies with it.
    ends = {(f.slot, s.peer, s.local, s.remote) for f in found for s in f.sockets if s.what == "peer"}
    assert ends == {(peer, slot, remote, local) for slot, peer, local, remote in ends}
    assert {s.peer for s in found[0].sockets if s.what == "peer"} == {1, 2, 3}
    assert sum(s.receive_queue for s in found[1].sockets if s.what == "peer") > 0
    assert sum(s.receive_queue for f in found if f.slot != 1 for s in f.sockets if s.what == "peer") == 0


def test_one_that_ended_by_itself_leaves_no_files_of_evidence(finished: Finished) -> None:
    folder = finished.arms["rank-killed-mid-all-reduce", "control"]
    for one in findings.read_all(folder):
        assert (one.state, one.threads, one.sockets, one.flight_recorder) == ("", (), (), "")
        assert one.last_output
    assert {p.name for p in folder.glob("rank*/*")} <= {"stdout.log", "stderr.log", "parameters.sums"}


def test_a_rank_that_died_mid_all_reduce_is_proved_to_have_been_in_it(finished: Finished) -> None:
    for arm in ("control", "hardened"):
        fired = read(finished.arms["rank-killed-mid-all-reduce", arm]).all(Injected)
        assert [(e.slot, e.op, e.nth, e.phase, e.submitted) for e in fired] == [
            (1, "all_reduce", 8, "during", True)
        ]


def test_the_same_seed_makes_the_same_plan(finished: Finished) -> None:
    scenario = only("rank-stopped")
    strict = load_profile("strict")
    made = make_plan(scenario, "hardened", profile=strict, hardened_profile=strict, seed=SEED)
    made = dataclasses.replace(made, attempt=finished.verdict("rank-stopped", "hardened").attempt)
    assert codec.load_plan((finished.arms["rank-stopped", "hardened"] / "plan.json").read_text()) == made


# ---------------------------------------------------------------- truth


def aimed_at(fault: Fault, rank: int) -> Fault:
    return dataclasses.replace(fault, rank=(rank,))  # type: ignore[type-var]  # every fault is a dataclass


@pytest.mark.parametrize("arm", ARMS, ids="/".join)
def test_a_plan_that_lies_about_the_rank_changes_no_culprit(arm: tuple[str, str], finished: Finished) -> None:
    folder = finished.arms[arm]
    plan = codec.load_plan((folder / "plan.json").read_text())
    for lie in (0, 3):
        hit = [dataclasses.replace(i, fault=aimed_at(i.fault, lie)) for i in plan.injections]
        accused = dataclasses.replace(plan.contract, culprits=(Culprit("rank", str(lie)),))
        false = dataclasses.replace(plan, injections=tuple(hit), contract=accused, hardened_contract=accused)
        verdict = contract.judge(false, read(folder))
        assert verdict.culprits == finished.verdict(*arm).culprits
        assert verdict.status is not Status.PASS


def copied(folder: Path, tmp_path: Path, text: bytes) -> Path:
    copy = tmp_path / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir()
    shutil.copy(folder / "plan.json", copy)
    (copy / "history.jsonl").write_bytes(text)
    return copy


@pytest.mark.parametrize("arm", ARMS, ids="/".join)
def test_a_history_that_ends_too_soon_is_inconclusive(
    arm: tuple[str, str], finished: Finished, tmp_path: Path
) -> None:
    whole = (finished.arms[arm] / "history.jsonl").read_bytes()
    ends = [n + 1 for n, byte in enumerate(whole[:-1]) if byte == ord("\n")]
    within = random.Random(SEED).sample(range(len(whole) - 1), 30)
    for cut in [0, *ends[-20:], *ends[:: len(ends) // 30 + 1], *within]:
        verdict = engine.judge_again(copied(finished.arms[arm], tmp_path, whole[:cut]))
        assert verdict.status is Status.INCONCLUSIVE, f"cut at {cut} of {len(whole)}: {verdict}"
        assert verdict.reason


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=100, deadline=None,
)  # fmt: skip
@given(at=st.floats(0, 0.999), junk=st.binary(min_size=1, max_size=40), over=st.integers(0, 200))
def test_a_damaged_history_never_raises_and_never_passes(
    at: float, junk: bytes, over: int, finished: Finished, tmp_path: Path
) -> None:
    folder = finished.arms["rank-killed-mid-all-reduce", "hardened"]
    whole = (folder / "history.jsonl").read_bytes()
    start = int(at * len(whole))
    damaged = whole[:start] + b"\n" + junk + b'{"kind":]' + whole[start + over :]
    verdict = engine.judge_again(copied(folder, tmp_path, damaged))
    assert verdict.status is Status.INCONCLUSIVE


def test_events_of_the_wrong_types_are_damage(finished: Finished, tmp_path: Path) -> None:
    folder = finished.arms["rank-killed-mid-all-reduce", "hardened"]
    lines = (folder / "history.jsonl").read_text().splitlines()
    for number in range(len(lines)):
        raw = json.loads(lines[number])
        if raw["kind"] not in history.EVENT_TYPES:
            continue  # columns: see test_history.py
        for key in raw.keys() - {"kind"}:
            for wrong in ({"no": "sense"}, None, [[1]], "text" if not isinstance(raw[key], str) else 1):
                with pytest.raises(ValueError, match=key):
                    history.from_line(json.dumps({**raw, key: wrong}))
        if number % 20 == 0:
            text = "\n".join([*lines[:number], json.dumps({**raw, "t_s": "soon"}), *lines[number + 1 :]])
            verdict = engine.judge_again(copied(folder, tmp_path, text.encode()))
            assert verdict.status is Status.INCONCLUSIVE, raw


@pytest.mark.parametrize("missing", ["plan.json", "history.jsonl"])
def test_without_its_files_an_arm_cannot_be_judged(missing: str, finished: Finished, tmp_path: Path) -> None:
    folder = finished.arms["rank-stopped", "hardened"]
    copy = copied(folder, tmp_path, (folder / "history.jsonl").read_bytes())
    (copy / missing).unlink()
    with pytest.raises(InvalidInput):
        engine.judge_again(copy)
    with pytest.raises(InvalidInput):
        engine.judge_again(tmp_path / "nowhere")


def test_a_malfunction_of_our_own_is_judged_again_as_it_was(finished: Finished, tmp_path: Path) -> None:
    folder = finished.arms["rank-stopped", "hardened"]
    events: list[Event] = [*read(folder).events[:-1], Malfunction(1e9, -1, "the warden of this arm died")]
    text = "".join(history.to_line(e) + "\n" for e in events)
    verdict = engine.judge_again(copied(folder, tmp_path, text.encode()))
    assert (verdict.status, verdict.reason) == (Status.INCONCLUSIVE, "the warden of this arm died")


@pytest.mark.nightly
def test_three_repeats_under_load_are_equal(run: Run) -> None:
    """A small version of tests/nightly/test_repeats.py."""
    with load():
        result = run(
            "rank-killed-mid-all-reduce", "uncaught-exception", "dtypes-differ", "shapes-differ", repeat=3
        )
    for scenario in result.scenarios:
        for arm, verdicts in last_attempts(scenario).items():
            assert len(verdicts) == 3
            assert len(set(map(signature, verdicts))) == 1, f"{scenario.name}/{arm}: {verdicts}"
            assert verdicts[0].status is Status.PASS, verdicts[0]
    folders = {p.name for p in (result.run_dir / "dtypes-differ").iterdir()}
    assert folders >= {"control", "control-r2", "control-r3", "hardened", "hardened-r2", "hardened-r3"}
    seeds = [json.loads((result.run_dir / "dtypes-differ" / f / "plan.json").read_text())["seed"]
             for f in ("control", "control-r2", "control-r3")]  # fmt: skip
    assert seeds == [SEED, SEED + 1, SEED + 2]


# ---------------------------------------------------------------- what is asked


def test_a_skip_writes_its_files_and_starts_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object, env: object = ()) -> None:
        raise AssertionError("a server was asked for")

    monkeypatch.setattr(ServerPool, "server", refuse)
    heard = Heard()
    result = run("rank-stopped", backend="nccl", observer=heard)
    scenario = result.scenarios[0]
    assert scenario.result is Result.SKIPPED
    assert scenario.reason.startswith("nccl: ")
    assert heard.started == []
    for verdict in scenario.verdicts:
        folder = result.run_dir / "rank-stopped@nccl" / verdict.arm
        assert engine.judge_again(folder) == verdict
        assert (folder / "plan.json").exists()


@pytest.mark.parametrize("wanted", ["nccl"])
def test_what_is_required_may_not_be_skipped(wanted: str, run: Run) -> None:
    result = run("rank-stopped", backend="nccl", require=(wanted,))
    assert result.scenarios[0].result is Result.INCONCLUSIVE
    assert "required, but nccl: " in result.scenarios[0].reason


def test_a_backend_that_the_file_excludes_is_skipped(run: Run) -> None:
    scenario = dataclasses.replace(only("rank-stopped"), backends=("gloo",))
    result = run(scenario, backend="nccl")
    assert result.scenarios[0].result is Result.SKIPPED
    assert "not for nccl" in result.scenarios[0].reason


def test_a_profile_takes_the_place_of_the_hardened_arms(run: Run) -> None:
    result = run("uncaught-exception", profile=load_profile("torchrun-policy"))
    assert {v.arm: v.profile for v in result.verdicts} == {
        "control": "torch-defaults",
        "hardened": "torchrun-policy",
    }
    for verdict in result.verdicts:
        plan = codec.load_plan((folder_of(result, verdict) / "plan.json").read_text())
        assert plan.profile.name == verdict.profile
        assert engine.judge_again(folder_of(result, verdict)) == verdict


@pytest.mark.parametrize(
    ("arm", "said"), [("hardened", "the control arm was not run"), ("control", "only the control arm")]
)
def test_one_arm_alone_proves_nothing(arm: str, said: str, run: Run) -> None:
    result = run("dtypes-differ", arms=(arm,))
    (verdict,) = last(result.verdicts)
    assert (verdict.arm, verdict.status) == (arm, Status.PASS)
    assert result.scenarios[0].result is Result.INCONCLUSIVE
    assert said in result.scenarios[0].reason


def wrong(scenario: Scenario) -> Scenario:
    """The same with a contract that cannot be kept."""
    arms = [dataclasses.replace(a, expect=dataclasses.replace(a.expect, says="no guard says this"))
            if a.name == "hardened" else a for a in scenario.arms]  # fmt: skip
    return dataclasses.replace(scenario, name="wrong", arms=tuple(arms))


def test_stopping_at_the_first_that_is_not_held(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "LIVE_MAX", 1)  # on a busy machine those that get no core look idle
    many = [dataclasses.replace(only("dtypes-differ"), name=f"later-{n}") for n in range(6)]
    result = run(wrong(only("dtypes-differ")), *many, stop_at_first=True, jobs=1)
    assert result.scenarios[0].result is Result.NOT_HELD
    assert "no guard said" in result.scenarios[0].reason
    assert not result.interrupted
    assert "later-5" not in {s.name for s in result.scenarios}
    assert all(v.status is Status.PASS for s in result.scenarios[1:] for v in s.verdicts)


def test_nothing_of_that_name_to_run_is_wrong_usage(run: Run, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no scenario has an arm of that name"):
        run("dtypes-differ", arms=("hardenedd",))
    assert not (tmp_path / "runs").exists()


def test_all_that_is_wrong_with_one_scenario_is_said_at_once(run: Run, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as raised:
        run("uncaught-exception", ranks=2)
    assert len(raised.value.problems) >= 2
    assert all("rank 2 does not exist" in problem.message for problem in raised.value.problems)
    assert not (tmp_path / "runs").exists()


def test_of_several_those_that_need_more_ranks_are_skipped(run: Run) -> None:
    result = run("one-collective-too-many", "uncaught-exception", ranks=2)
    assert {s.result for s in result.scenarios} == {Result.SKIPPED}
    assert all("rank 2 does not exist" in s.reason for s in result.scenarios)


@pytest.mark.parametrize(
    "wrong",
    [{"repeat": 0}, {"jobs": 0}, {"ranks": 0}, {"timeout_s": -1.0}, {"time_scale": float("nan")}],
    ids=str,
)
def test_a_number_that_makes_no_sense_is_wrong_usage(wrong: dict[str, object], run: Run) -> None:
    with pytest.raises(InvalidInput, match=next(iter(wrong)).removesuffix("_s")):
        run("uncaught-exception", **wrong)


def test_more_ranks_than_the_file_says(run: Run) -> None:
    result = run("dtypes-differ", ranks=6)
    assert {len(v.ranks) for v in result.verdicts} == {6}
    assert result.scenarios[0].result is Result.HELD


def test_only_the_main_thread_may_run(run: Run) -> None:
    raised: list[BaseException] = []

    def elsewhere() -> None:
        try:
            run("dtypes-differ")
        except LaunchFailed as error:
            raised.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert "main thread" in str(raised[0])


# ---------------------------------------------------------------- when something is wrong with us


def test_a_judge_that_raises_is_our_own_fault_and_kept(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("the judge is broken")

    monkeypatch.setattr(contract, "judge", broken)
    result = run("dtypes-differ", arms=("hardened",))
    verdict = result.verdicts[0]
    assert verdict.status is Status.INCONCLUSIVE
    assert verdict.reason == "chaoskit's own fault: ZeroDivisionError: the judge is broken"
    folder = result.run_dir / "dtypes-differ" / "hardened"
    assert "Traceback" in (folder / "error.txt").read_text()
    assert (folder / "history.jsonl").exists()


def test_one_that_was_only_late_is_run_again_alone_and_both_are_told(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contract, "worth_another_try", lambda plan, found, verdict: verdict.arm == "hardened")
    heard = Heard()
    result = run("shapes-differ", "dtypes-differ", observer=heard)
    for scenario in result.scenarios:
        assert [(v.arm, v.attempt) for v in scenario.verdicts] == [
            ("control", 1),
            ("hardened", 1),
            ("hardened", 2),
        ]
        assert scenario.result in (Result.HELD, Result.NOT_NEEDED)
        again = result.run_dir / scenario.name / "hardened-a2"
        assert codec.load_plan((again / "plan.json").read_text()).attempt == 2
        assert engine.judge_again(again) == scenario.verdicts[2]
    assert [a.attempt for a in heard.started] == [1, 1, 1, 1, 2, 2], "last"
    assert heard.order[-5:] == ["end", "scenario", "start", "end", "scenario"], "one after the other"


# ---------------------------------------------------------------- Ctrl-C


def interrupting(count: int, number: int) -> tuple[Heard, list[float]]:
    """An observer that sends ``number`` to this process when arm ``count`` starts, and when it did."""
    heard, sent = Heard(), []

    def on_start(_: object) -> None:
        if len(heard.started) == count:
            sent.append(time.monotonic())
            os.kill(os.getpid(), number)

    heard.on_start = on_start
    return heard, sent


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_all_and_keeps_what_is_known(number: int, run: Run) -> None:
    handlers = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    heard, _ = interrupting(2, number)
    result = run("rank-stopped", "dtypes-differ", jobs=1, observer=heard)
    assert result.interrupted
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert result.verdicts, "what had started is told"
    assert "interrupted" in result.verdicts[-1].reason
    assert {v.status for v in result.verdicts} <= {Status.INCONCLUSIVE, Status.PASS}
    assert {s.result for s in result.scenarios} == {Result.INCONCLUSIVE}
    assert json.loads((result.run_dir / "run.json").read_text())["interrupted"] is True
    for verdict in result.verdicts:
        folder = result.run_dir / verdict.scenario / verdict.arm
        if (folder / "history.jsonl").exists():
            assert engine.judge_again(folder) == verdict


def test_after_an_interrupt_it_runs_again(run: Run) -> None:
    heard, _ = interrupting(1, signal.SIGINT)
    assert run("dtypes-differ", observer=heard).interrupted
    assert run("dtypes-differ").scenarios[0].result is Result.HELD


def test_a_request_is_a_value() -> None:
    assert RunRequest(()) == RunRequest(())
    with pytest.raises(dataclasses.FrozenInstanceError):
        RunRequest(()).seed = 1  # type: ignore[misc]
