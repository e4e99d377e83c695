"""The folder of a run: its name, its modes, and that no secret gets into it."""

from __future__ import annotations

import json
import os
import stat
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chaoskit import rundir
from chaoskit.errors import InvalidInput
from chaoskit.request import ArmId
from chaoskit.rundir import RunRecord

RECORD = RunRecord("chaoskit run all", 7, "2.13.0", "2026-01-01T00:00:00+0000")

prefixes = st.sampled_from(["NCCL_", "TORCH_", "SLURM_", "CHAOSKIT_", "PYTHON", "MASTER_", "LD_", ""])
words = st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789", max_size=8)
secret_words = st.sampled_from(
    "TOKEN SECRET PASSWORD PASSWD PASSPHRASE API_KEY APIKEY ACCESS_KEY PRIVATE_KEY CREDENTIALS AUTH COOKIE "
    "SESSION_ID aws_secret_access_key HfToken".split()
)
values = st.from_regex(r"[A-Za-z0-9+/]{12,40}", fullmatch=True).map(lambda text: f"s3cr3t{text}")
secrets = st.dictionaries(st.tuples(prefixes, words, secret_words, words).map("".join), values)
plain = st.dictionaries(
    st.tuples(prefixes, words).map("".join).filter(bool), st.text(max_size=20), max_size=10
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(secrets, plain)
def test_no_value_of_a_secret_looking_variable_survives(secret: dict[str, str], rest: dict[str, str]) -> None:
    shown = rundir.redacted({**rest, **secret})
    told = json.dumps(shown)
    assert not [value for value in secret.values() if value in told]
    assert set(shown) <= {*rest, *secret}


login = st.tuples(
    st.sampled_from(["http", "https", "redis", "tcp"]),
    st.from_regex(r"[a-z0-9._-]{1,10}", fullmatch=True),
    values,
    st.from_regex(r"[a-z]{1,10}(:[0-9]{2,4})?(/[a-z]*)?", fullmatch=True),
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(prefixes.filter(bool), login, st.text("abc ,;=", max_size=5), st.text("abc ,;=", max_size=5))
def test_no_password_in_a_url_survives(
    prefix: str, parts: tuple[str, str, str, str], before: str, after: str
) -> None:
    scheme, user, password, host = parts
    shown = rundir.redacted({f"{prefix}PROXY": f"{before}{scheme}://{user}:{password}@{host}{after}"})
    assert password not in json.dumps(shown)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(prefixes.filter(bool), login)
def test_no_token_in_the_place_of_a_user_survives(prefix: str, parts: tuple[str, str, str, str]) -> None:
    scheme, _, token, host = parts
    assert token not in json.dumps(rundir.redacted({f"{prefix}INDEX": f"{scheme}://{token}@{host}"}))


def test_what_matters_to_a_job_is_kept_as_it_is() -> None:
    given = {"NCCL_DEBUG": "INFO", "OMP_NUM_THREADS": "1", "MASTER_ADDR": "10.0.0.1", "HOME": "/root"}
    assert rundir.redacted(given) == {k: v for k, v in given.items() if k != "HOME"}


def test_only_its_owner_may_read_a_run(tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        made = rundir.create(tmp_path / "new" / "runs", 7)
    finally:
        os.umask(mask)
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert made.name.endswith("-7")


def test_runs_of_one_second_and_seed_do_not_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "strftime", lambda _: "20260101-000000")
    names = [rundir.create(tmp_path, 7).name for _ in range(3)]
    assert names == ["20260101-000000-7", "20260101-000000-7.1", "20260101-000000-7.2"]


@pytest.mark.parametrize("place", ["/proc/runs", "/dev/null/runs", "file/runs"])
def test_a_folder_that_cannot_be_written_is_said_in_one_message(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="cannot write the run directory") as raised:
        rundir.create(tmp_path / place, 7)
    assert "--runs-dir" in str(raised.value)


def test_the_record_holds_versions_and_is_replaced_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "eth0")
    monkeypatch.setenv("TORCH_TOKEN", "s3cr3t")
    for record in (RECORD, rundir.RunRecord("chaoskit.run", 8, "2.13.0", "later", True, 1.5)):
        rundir.write_record(tmp_path, record)
    assert [p.name for p in tmp_path.iterdir()] == ["run.json"]
    told = json.loads((tmp_path / "run.json").read_text())
    assert (told["seed"], told["interrupted"], told["wall_s"]) == (8, True, 1.5)
    assert told["versions"].keys() == {"chaoskit", "torch", "python", "kernel"}
    assert told["environment"]["NCCL_SOCKET_IFNAME"] == "eth0"
    assert told["environment"]["TORCH_TOKEN"] == "<redacted>"


def test_every_arm_has_a_folder_of_its_own(tmp_path: Path) -> None:
    arms = [
        ArmId(scenario, arm, backend, repeat, attempt)
        for scenario in ("a", "b")
        for arm in ("control", "hardened")
        for backend in ("gloo", "nccl")
        for repeat in (1, 2)
        for attempt in (1, 2)
    ]
    folders = [rundir.arm_dir(tmp_path, arm) for arm in arms]
    assert len(set(folders)) == len(arms)
    assert folders[0] == tmp_path / "a" / "control"
    assert tmp_path / "b@nccl" / "hardened-r2-a2" in folders


def test_arms_are_found_at_and_below_a_path(tmp_path: Path) -> None:
    for name in ("b/control", "a/hardened", "a/control"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "plan.json").write_text("{}")
    (tmp_path / "c").mkdir()
    found = [str(p.relative_to(tmp_path)) for p in rundir.arm_dirs(tmp_path)]
    assert found == ["a/control", "a/hardened", "b/control"]
    assert list(rundir.arm_dirs(tmp_path / "a" / "control")) == [tmp_path / "a" / "control"]
    assert list(rundir.arm_dirs(tmp_path / "c")) == []


def test_an_arm_that_lost_its_plan_is_still_one(tmp_path: Path) -> None:
    for name in ("a/control/plan.json", "a/control/rank0/out/history.jsonl", "rank7/hardened/plan.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    for name in ("b/one/history.jsonl", "b/two/verdict.json", "b/three/rank0/stdout.log"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("")
    found = [str(p.relative_to(tmp_path)) for p in rundir.arm_dirs(tmp_path)]
    assert found == ["a/control", "b/one", "b/three", "b/two", "rank7/hardened"]
    assert list(rundir.arm_dirs(tmp_path / "b" / "one")) == [tmp_path / "b" / "one"]


def test_a_version_that_is_not_there_is_empty() -> None:
    assert rundir.version("pytest")
    assert rundir.version("no-such-package-at-all") == ""
