"""Each rule: what it has to find, and what it must leave alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chaoskit.checking import Finding, Level, Setting, Subject, Target, check
from chaoskit.checking.family import REGISTRY
from chaoskit.checking.rules import unknown_name
from chaoskit.profiles.nccl import nccl_variables
from chaoskit.profiles.variables import VARIABLES

Found = Callable[..., list[Finding]]
GLOO = Target((2, 13), "2.13.0", backend="gloo")
NCCL = Target((2, 13), "2.13.0", backend="nccl")
NEW = Target((2, 15), "2.15.0", backend="nccl")
OLD = Target((2, 6), "2.6.0", backend="nccl")


def told(findings: list[Finding]) -> set[tuple[str, str, str]]:
    return {(f.level.value, f.rule, f.subject) for f in findings}


def test_every_rule_documents_itself() -> None:
    names = REGISTRY.names()
    assert len(names) == 13
    assert all(len(REGISTRY.get(name).__doc__ or "") > 80 for name in names)  # type: ignore[union-attr]
    page = (Path(__file__).parents[2] / "docs" / "profiles.md").read_text(encoding="utf-8")
    assert all(f"| `{name}` |" in page for name in names)


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("name", "level", "hint"),
    [
        ("TORCH_NCCL_ASYNC_ERROR_HANDLNG", "error", "did you mean TORCH_NCCL_ASYNC_ERROR_HANDLING?"),
        ("NCCL_SOKET_IFNAME", "error", "did you mean NCCL_SOCKET_IFNAME?"),
        ("torch_nccl_blocking_wait", "error", "did you mean TORCH_NCCL_BLOCKING_WAIT?"),
        ("NCCL_HIGH_PRIORITY", "error", "did you mean TORCH_NCCL_HIGH_PRIORITY?"),
        ("TORCH_NCCL_DEBUG", "error", "did you mean NCCL_DEBUG?"),
        ("GLOO_SOCKET_IFNAMES", "error", "did you mean GLOO_SOCKET_IFNAME?"),
        ("PYTHONFAULTHANDLR", "warning", "did you mean PYTHONFAULTHANDLER?"),
        ("NCCL_TIMEOUT", "warning", "pass timeout= to init_process_group, or use the guard timeouts"),
        ("TORCH_NCCL_ZZZ", "warning", "remove it"),
        ("NCCL_ZZZ_OF_MY_PLUGIN", "note", ""),
        ("NCCL_IB_EXT_DISABLE", "note", "is NCCL_IB_DISABLE meant?"),
        ("NCCL_SHARD_DISABLE", "note", "is NCCL_SHM_DISABLE meant?"),  # another word, not a slip
        ("NCCL_IBDISABLE", "error", "did you mean NCCL_IB_DISABLE?"),
    ],
)
def test_names_that_nobody_reads(found: Found, name: str, level: str, hint: str) -> None:
    (finding,) = found({name: "1"})
    assert (finding.level.value, finding.rule, finding.hint) == (level, "unknown-name", hint)


@pytest.mark.parametrize(
    "name",
    [
        "PATH", "HOME", "HIP_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "OPENBLAS_NUM_THREADS",
        "NUMEXPR_NUM_THREADS", "NCCL_VERSION", "NCCL_FASTRAK_USE_SNAP", "NCCL_HOME",
        "TORCH_HOME", "TORCH_LOGS", "TORCHINDUCTOR_CACHE_DIR", "OMP_PROC_BIND", "OFI_NCCL_PROTOCOL",
        "MY_TORCH_NCCL_BLOCKING_WAIT_OF_OLD", "RANK", "MASTER_ADDR", "X",
        "NCCL_IBEXT_DISABLE", "NCCL_SHARP_DISABLE", "OFI_NCCL_PROTOCOL_X", "NCCL_GPUDIRECTTCPX_CTRL_DEV",
        "NCCL_NVLS_ENABLE", "NCCL_NET_GDR_LEVEL", "TORCH_CUDA_ARCH_LIST", "CUDA_HOME", "PYTHONPATH",
    ],
)  # fmt: skip
def test_names_of_others_are_left_alone(found: Found, name: str) -> None:
    assert found({name: "1"}, kind="environment") == []


def test_a_newer_torch_than_is_known_may_read_a_new_name(found: Found) -> None:
    assert found({"TORCH_NCCL_ZZZ": "1"}, target=Target((2, 16), "2.16.0", backend="nccl")) == []


def test_old_names(found: Found) -> None:
    assert told(found({"NCCL_BLOCKING_WAIT": "0"}, target=NCCL)) == {
        ("note", "old-name", "NCCL_BLOCKING_WAIT")
    }
    both = {"NCCL_ASYNC_ERROR_HANDLING": "1", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "3"}
    assert told(found(both, target=NCCL)) == {("warning", "old-name", "NCCL_ASYNC_ERROR_HANDLING")}
    # the torch of then knows no other name
    assert found({"TORCH_NCCL_TRACE_BUFFER_SIZE": "2000"}, target=OLD) == []
    (finding,) = found({"TORCH_FR_BUFFER_SIZE": "2000"}, target=OLD)
    assert (finding.rule, finding.hint) == ("no-effect", "write TORCH_NCCL_TRACE_BUFFER_SIZE for this torch")


def test_given_twice(found: Found) -> None:
    lines = (("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG", "WARN"), ("NCCL_ALGO", "Ring"), ("NCCL_ALGO", "Ring"))
    (finding,) = found(lines, kind="env-file")
    assert (finding.rule, finding.line) == ("given-twice", 1)


def test_what_differs_from_rank_to_rank(found: Found) -> None:
    assert told(found({"RANK": "0", "WORLD_SIZE": "4"}, kind="env-file")) == {
        ("error", "of-launcher", "RANK")
    }
    assert found({"RANK": "0"}, kind="environment") == []
    in_a_profile = found({"RANK": "0", "WORLD_SIZE": "4", "MASTER_ADDR": "a"}, kind="profile")
    assert told(in_a_profile) == {
        ("error", "of-launcher", name) for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR")
    }
    assert {f.hint for f in in_a_profile} == {"remove it from the profile"}


# ---------------------------------------------------------------- settings against one another


@pytest.mark.parametrize("handling", ["TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ASYNC_ERROR_HANDLING"])
@pytest.mark.parametrize("waiting", ["TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT"])
def test_blocking_wait_and_async_error_handling(found: Found, waiting: str, handling: str) -> None:
    wrong = ("error", "exclusive", waiting)
    for target in (None, NCCL, NEW):
        assert wrong in told(found({waiting: "1", handling: "1"}, target=target))
    assert wrong not in told(found({waiting: "1", handling: "0"}, target=NCCL))
    assert wrong not in told(found({waiting: "0", handling: "1"}, target=NCCL))
    assert wrong not in told(found({waiting: "1", handling: "1"}, target=GLOO))


def test_what_belongs_to_the_watchdog_under_blocking_wait(found: Found) -> None:
    env = {"TORCH_NCCL_BLOCKING_WAIT": "1", "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": "300"}
    cancelled = ("warning", "cancelled", "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC")
    assert cancelled in told(found(env, target=NCCL))
    assert cancelled not in told(found({**env, "TORCH_NCCL_BLOCKING_WAIT": "0"}, target=NCCL))


def test_a_heartbeat_whose_monitor_only_logs(found: Found) -> None:
    env = {"TORCH_NCCL_ENABLE_MONITORING": "0", "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": "300"}
    assert told(found(env, target=NCCL)) == {("warning", "cancelled", "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC")}
    assert found({**env, "TORCH_NCCL_ENABLE_MONITORING": "true"}, target=NCCL) == []


def test_a_dump_of_a_recorder_that_is_off(found: Found) -> None:
    cancelled = {("warning", "cancelled", "TORCH_NCCL_DUMP_ON_TIMEOUT")}
    assert told(found({"TORCH_NCCL_DUMP_ON_TIMEOUT": "1"}, target=OLD)) == cancelled
    assert found({"TORCH_NCCL_DUMP_ON_TIMEOUT": "1"}, target=NCCL) == []
    assert found({"TORCH_NCCL_DUMP_ON_TIMEOUT": "1", "TORCH_NCCL_TRACE_BUFFER_SIZE": "99"}, target=OLD) == []
    off = {"TORCH_NCCL_DUMP_ON_TIMEOUT": "1", "TORCH_FR_BUFFER_SIZE": "0"}
    assert told(found(off, target=NCCL)) == cancelled


# ---------------------------------------------------------------- no effect


def test_no_effect_by_backend(found: Found) -> None:
    note = ("note", "no-effect", "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC")
    env = {"TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": "500"}
    assert told(found(env, target=GLOO)) == {note}
    assert found(env) == found(env, target=NCCL) == found(env, target=NEW) == []
    assert told(found({"GLOO_SOCKET_IFNAME": "eth0"}, target=NCCL)) == {
        ("note", "no-effect", "GLOO_SOCKET_IFNAME")
    }


def test_no_effect_by_what_nccl_resolves_to(found: Found) -> None:
    env = {"TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": "300"}
    warning = {("warning", "no-effect", "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC")}
    assert told(found(env, target=NEW)) == told(found(env, target=Target((2, 15), "2.15.0"))) == warning
    assert found({**env, "TORCH_DIST_USE_NCCL2": "0"}, target=NEW) == []
    assert found(env, target=Target((2, 15), "2.15.0", backend="nccl-legacy")) == []
    # 2.14 opts in
    assert found(env, target=Target((2, 14), "2.14.0", backend="nccl")) == []
    opted = {**env, "TORCH_DIST_USE_NCCL2": "1"}
    assert told(found(opted, target=Target((2, 14), "2.14.0", backend="nccl"))) == warning
    # what is not known of a torch is not said of it
    assert found(env, target=Target((2, 16), "2.16.0", backend="nccl")) == []


def test_no_effect_by_version(found: Found) -> None:
    assert told(found({"TORCH_GLOO_LAZY_INIT": "1"}, target=Target((2, 7), "2.7", backend="gloo"))) == {
        ("warning", "no-effect", "TORCH_GLOO_LAZY_INIT")
    }
    gone = found({"TORCH_NCCL_AVOID_RECORD_STREAMS": "1"}, target=NEW)
    assert told(gone) == {("warning", "no-effect", "TORCH_NCCL_AVOID_RECORD_STREAMS")}
    assert told(found({"TORCH_DIST_USE_NCCL2": "1"}, target=NCCL)) == {
        ("warning", "no-effect", "TORCH_DIST_USE_NCCL2")
    }
    assert told(found({"TORCH_DIST_USE_NCCL2": "1"}, target=NEW)) == {
        ("note", "no-effect", "TORCH_DIST_USE_NCCL2")
    }


def test_no_effect_by_the_version_of_nccl(found: Found) -> None:
    env = {"NCCL_MULTI_RANK_GPU_ENABLE": "1"}
    warning = {("warning", "no-effect", "NCCL_MULTI_RANK_GPU_ENABLE")}
    assert told(found(env, target=Target((2, 13), "2.13.0", (2, 29), "nccl"))) == warning
    assert found(env, target=Target((2, 14), "2.14.0", (2, 30), "nccl")) == []
    assert found(env, target=NCCL) == []  # its NCCL is not known
    assert told(found({"NCCL_LL_THRESHOLD": "1"}, target=NCCL)) == {
        ("warning", "no-effect", "NCCL_LL_THRESHOLD")
    }


def test_without_a_torch_nothing_is_said_of_it(found: Found) -> None:
    env = {"TORCH_FR_BUFFER_SIZE": "1", "TORCH_NCCL_TRACE_BUFFER_SIZE": "1", "TORCH_DIST_USE_NCCL2": "1"}
    assert found(env, target=Target()) == []


# ---------------------------------------------------------------- harm


@pytest.mark.parametrize("torch", [(2, 13), (2, 14), (2, 15)])
def test_detail_on_the_torches_whose_jobs_it_ends(found: Found, torch: tuple[int, int]) -> None:
    env = {"TORCH_DISTRIBUTED_DEBUG": "detail"}
    wrong = {("error", "harmful", "TORCH_DISTRIBUTED_DEBUG")}
    assert told(found(env, target=Target(torch, "x", backend="gloo"))) == wrong
    assert told(found(env, target=Target(torch, "x"))) == wrong
    assert found(env, target=Target(torch, "x", backend="nccl")) == []


def test_detail_where_it_does_no_harm(found: Found) -> None:
    env = {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}
    assert found(env, target=Target((2, 6), "2.6.0", backend="gloo")) == []
    assert found({"TORCH_DISTRIBUTED_DEBUG": "INFO"}, target=GLOO) == []


@pytest.mark.parametrize(
    ("env", "target", "level"),
    [
        ({"TORCH_NCCL_BLOCKING_WAIT": "1"}, NCCL, "warning"),
        ({"TORCH_NCCL_BLOCKING_WAIT": "1"}, OLD, None),
        ({"TORCH_NCCL_ASYNC_ERROR_HANDLING": "0"}, NCCL, "warning"),
        ({"TORCH_NCCL_ASYNC_ERROR_HANDLING": "2"}, NCCL, "note"),
        ({"TORCH_NCCL_ASYNC_ERROR_HANDLING": "3"}, NCCL, None),
        ({"TORCH_NCCL_RETHROW_CUDA_ERRORS": "0"}, NCCL, "warning"),
        ({"TORCH_NCCL_RETHROW_CUDA_ERRORS": "1"}, NCCL, None),
        ({"NCCL_IB_TIMEOUT": "0"}, NCCL, "error"),
        ({"NCCL_IB_TIMEOUT": "32"}, NCCL, "error"),
        ({"NCCL_IB_TIMEOUT": "22"}, NCCL, None),
    ],
)
def test_settings_that_do_harm(found: Found, env: dict[str, str], target: Target, level: str | None) -> None:
    assert [f.level.value for f in found(env, target=target)] == ([] if level is None else [level])


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("1000", "1000 is cut to 8 bits, which is 232"),
        ("276", "276 is cut to 8 bits, which is 20"),
        ("256", "0 is no timeout at all"),
        ("40", "40 is outside the timeouts of InfiniBand"),
    ],
)
def test_what_becomes_of_a_timeout_of_infiniband(found: Found, value: str, words: str) -> None:
    (finding,) = found({"NCCL_IB_TIMEOUT": value}, target=NCCL)
    assert words in finding.message


# ---------------------------------------------------------------- values that are no text of a process


def test_a_nul_in_a_value(found: Found) -> None:
    assert told(found({"NCCL_DEBUG": "INFO\0", "MY_OWN": "a\0b"}, target=NCCL)) == {
        ("error", "value", "NCCL_DEBUG"), ("error", "value", "MY_OWN"),
    }  # fmt: skip


@pytest.mark.parametrize(("kind", "level"), [("profile", "warning"), ("env-file", "note")])
def test_what_a_shell_would_expand_is_not_judged(kind: str, level: str) -> None:
    given = Setting("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "$T", 1, to_expand=True)
    (finding,) = check(Subject(kind, "mine", (given,)), NCCL)  # type: ignore[arg-type]
    assert (finding.level.value, finding.rule) == (level, "not-expanded")


def test_the_search_for_slips_is_bounded(found: Found, monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []
    monkeypatch.setattr(unknown_name, "_meant", lambda name: searched.append(name) or "")
    names = {f"OF_SOMEBODY_ELSE_{at}": "1" for at in range(5_000)}
    findings = found({**names, "NCCL_SOKET_IFNAME": "eth0"}, kind="env-file")
    assert len(searched) == unknown_name._SEARCHES_MAX
    assert searched[0] == "NCCL_SOKET_IFNAME"
    assert any("only 300 of them were searched" in f.message for f in findings)


# ---------------------------------------------------------------- timeouts in order


@pytest.mark.parametrize(
    ("guards", "level", "words"),
    [
        ({"timeouts": {"collective_s": 300.0}, "progress_watchdog": {"timeout_s": 300.0, "start_s": 9e3}},
         "error",
         "timeouts.collective (5m) must be less than progress_watchdog.timeout (5m)"),
        ({"timeouts": {"collective_s": 60.0}, "oom_exit": {"idle_s": 90.0}}, "warning",
         "oom_exit.idle (90s)"),
        ({"progress_watchdog": {"timeout_s": 300.0}, "step_heartbeat": {"timeout_s": 240.0}}, "warning",
         "progress_watchdog.timeout (5m) should be less than step_heartbeat.timeout (4m)"),
        ({"timeouts": {"init_s": 300.0, "collective_s": 5.0}, "progress_watchdog": {"timeout_s": 200.0}},
         "warning",
         "timeouts.init (5m) should be less than progress_watchdog.timeout (200s)"),
        ({"sigterm_exit": {"grace_s": 20.0}, "sidecar": {"sigterm_wait_s": 10.0}}, "warning",
         "sigterm_exit.grace (20s)"),
        ({"timeouts": {"init_s": 300.0, "collective_s": 5.0}, "census": {"wait_s": 60.0}}, "note",
         "timeouts.init (5m) should be at most census.wait (60s)"),
    ],
)  # fmt: skip
def test_timeouts_in_the_wrong_order(found: Found, guards: dict[str, object], level: str, words: str) -> None:
    (finding,) = found(guards=guards)
    assert (finding.level.value, finding.rule) == (level, "order")
    assert words in finding.message
    assert finding.line >= 50
    assert finding.hint.startswith("give ")


def test_a_grace_after_a_failure_may_be_shorter_than_one_of_an_orderly_end(found: Found) -> None:
    guards = {"sigterm_exit": {"grace_s": 10.0}, "group_kill": {"on_failure": True, "grace_s": 2.0}}
    assert found(guards=guards) == []


def test_torchruns_grace_is_said_once(found: Found) -> None:
    guards = {"sigterm_exit": {"grace_s": 40.0}}
    (finding,) = found(guards=guards, target=Target((2, 13), launcher="torchrun"))
    assert "less than torchrun's own grace (30s)" in finding.message


def test_the_end_of_a_job_against_its_launcher_and_scheduler(found: Found) -> None:
    guards = {"sigterm_exit": {"grace_s": 20.0}}

    def on(**target: object) -> set[str]:
        return {f.message.partition(":")[0] for f in found(guards=guards, target=Target((2, 13), **target))}  # type: ignore[arg-type]

    assert on() == on(launcher_grace_s=25.0, scheduler_grace_s=30.0) == on(launcher="torchrun") == set()
    assert on(launcher_grace_s=10.0) == {"sigterm_exit.grace (20s) must be less than --launcher-grace (10s)"}
    assert on(scheduler_grace_s=15.0) == {"sigterm_exit.grace (20s) must be less than --kill-wait (15s)"}
    assert on(launcher_grace_s=30.0, scheduler_grace_s=30.0) == {
        "--launcher-grace (30s) must be less than --kill-wait (30s)"
    }


def test_a_rule_that_the_launcher_does_not_follow_has_no_grace(found: Found) -> None:
    def on(launcher: str | None, **rule: object) -> list[str]:
        target = Target((2, 13), launcher=launcher, scheduler_grace_s=30.0)  # type: ignore[arg-type]
        given: dict[str, dict[str, object]] = {"group_kill": {"on_failure": True, "grace_s": 30.0, **rule}}
        return [f.message.split(" must")[0] for f in found(guards=given, target=target) if f.rule == "order"]

    assert on(None) == on("mpirun") == ["group_kill.grace (30s)"]
    assert on("mpirun", on_stopped=True) == []
    assert on("srun") == on("kubernetes") == on("none") == on("srun", on_failure=False) == []
    assert on("torchrun") == ["torchrun's own grace (30s)"]


@pytest.mark.parametrize("launcher", ["srun", "kubernetes", "none"])
def test_what_no_launcher_bounds_is_bounded_by_the_scheduler(found: Found, launcher: str) -> None:
    guards = {"sigterm_exit": {"grace_s": 20.0}, "sidecar": {"sigterm_wait_s": 25.0}}

    def on(kill_wait_s: float) -> list[tuple[str, str]]:
        target = Target((2, 13), launcher=launcher, scheduler_grace_s=kill_wait_s)  # type: ignore[arg-type]
        every = found(guards=guards, target=target)
        return [(f.level.value, f.message.split(" (")[0]) for f in every if f.rule == "order"]

    assert on(30.0) == []
    assert on(25.0) == [("warning", "sidecar.sigterm_wait")]
    assert on(20.0) == [("error", "sigterm_exit.grace"), ("warning", "sidecar.sigterm_wait")]


@pytest.mark.parametrize(
    ("torch", "launcher", "grace_s", "hint"),
    [
        ((2, 13), "srun", None,
         "give KillWait in slurm.conf (before a time limit also: --signal=TERM@SECONDS) more than 40s, "
         "or sigterm_exit.grace less than 20s"),
        ((2, 13), "kubernetes", None,
         "give terminationGracePeriodSeconds of the pod more than 40s, or sigterm_exit.grace less than 20s"),
        ((2, 13), "torchrun", None,
         "give TORCH_ELASTIC_SHUTDOWN_TIMEOUT in torchrun's environment more than 40s, "
         "or sigterm_exit.grace less than 30s"),
        ((2, 11), "torchrun", None, "give sigterm_exit.grace less than 30s"),
        ((2, 13), "mpirun", 20.0,
         "give what the launcher gives between SIGTERM and SIGKILL more than 40s, "
         "or sigterm_exit.grace less than 20s"),
    ],
)  # fmt: skip
def test_a_hint_names_what_the_cluster_knows(
    found: Found, torch: tuple[int, int], launcher: str, grace_s: float | None, hint: str
) -> None:
    target = Target(torch, launcher=launcher, launcher_grace_s=grace_s, scheduler_grace_s=20.0)  # type: ignore[arg-type]
    hints = {f.hint for f in found(guards={"sigterm_exit": {"grace_s": 40.0}}, target=target)}
    assert hint in hints
    assert not any("--kill-wait" in h or "--launcher-grace" in h for h in hints)


def test_a_torchrun_that_does_not_read_its_timeout_has_its_own(found: Found) -> None:
    guards, env = {"sigterm_exit": {"grace_s": 40.0}}, {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "60"}

    def on(torch: tuple[int, int]) -> set[tuple[str, str, str]]:
        return told(found(env, guards, target=Target(torch, launcher="torchrun")))

    assert on((2, 12)) == set()
    assert on((2, 11)) == {
        ("warning", "no-effect", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"), ("error", "order", "sigterm_exit.grace"),
    }  # fmt: skip


def test_what_the_watchdog_of_nccl_adds(found: Found) -> None:
    guards = {"timeouts": {"collective_s": 120.0, "init_s": 1.0}, "progress_watchdog": {"timeout_s": 150.0}}
    (finding,) = found(guards=guards, target=NCCL)
    assert "(3m)" in finding.message  # 120 s + 4 × 15 s
    assert found({"TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": "500"}, guards, target=NCCL) == []
    assert found(guards=guards, target=GLOO) == found(guards=guards, target=NEW) == []


# ---------------------------------------------------------------- needs


def test_rules_that_a_launcher_does_not_follow(found: Found) -> None:
    guards = {"group_kill": {"on_failure": True, "on_stopped": True}}

    def on(launcher: str | None, **more: dict[str, object]) -> set[tuple[str, str, str]]:
        return told(found(guards={**guards, **more}, target=Target((2, 13), launcher=launcher)))  # type: ignore[arg-type]

    assert on(None) == set()
    assert on("torchrun") == {("warning", "needs", "group_kill")}
    assert on("torchrun", sidecar={}) == {("note", "needs", "group_kill"), ("note", "needs", "sidecar")}


def test_ranks_that_end_alone(found: Found) -> None:
    guards: dict[str, dict[str, object]] = {"oom_exit": {}}
    kubernetes, torchrun = Target((2, 13), launcher="kubernetes"), Target((2, 13), launcher="torchrun")
    assert told(found(guards=guards, target=kubernetes)) == {("warning", "needs", "oom_exit")}
    assert found(guards=guards, target=torchrun) == []
    assert found(guards={**guards, "timeouts": {"collective_s": 900.0}}, target=kubernetes) == []


# ---------------------------------------------------------------- whatever stands in a file

NAMES = st.one_of(st.sampled_from([*VARIABLES, *nccl_variables()]), st.text(max_size=40))
TARGETS = st.builds(
    Target,
    st.one_of(st.none(), st.tuples(st.just(2), st.integers(4, 17))),
    st.just("2.x"),
    st.one_of(st.none(), st.tuples(st.just(2), st.integers(18, 31))),
    st.sampled_from([None, "gloo", "nccl", "nccl-legacy", "nccl2"]),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.lists(st.tuples(NAMES, st.text(max_size=12)), max_size=6), TARGETS)
def test_no_settings_break_a_rule(pairs: list[tuple[str, str]], target: Target) -> None:
    lines = tuple(Setting(name, value, at) for at, (name, value) in enumerate(pairs, 1))
    found = check(Subject("env-file", "mine", lines), target)
    assert all(f.level in Level and f.message and f.rule for f in found)
    assert list(found) == sorted(found, key=lambda f: f.level.weight)
