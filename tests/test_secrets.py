"""No secret is in any file of a run, wherever it came from and whatever the program does with it.

The program prints its secrets, raises them, and is given one as an argument; the reports are asked for, too.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

FROM_CALLER = "caller-9f86d081"
FROM_PROFILE = "profile-884c7d65"
QUOTED = "quo\"ted\\'9a2f"
ARGUMENT = "argument-eaa2b9"
LOGIN = "login-0c15b0f0"
SHAPE = "hf_9Zx8Cv7Bn6Mq5Wer4Ty3"
SECRETS = (
    FROM_CALLER,
    FROM_PROFILE,
    QUOTED,
    json.dumps(QUOTED)[1:-1],
    repr(QUOTED)[1:-1],
    ARGUMENT,
    LOGIN,
    SHAPE,
)

PROGRAM = f"""
import os, sys
import torch.distributed as dist
print("environment", dict(os.environ), flush=True)
print("arguments", sys.argv, {SHAPE!r}, file=sys.stderr, flush=True)
dist.init_process_group("gloo")
dist.barrier()
seen = [os.environ["MY_TOKEN"], os.environ["JOB_API_KEY"], os.environ["DB_PASSWORD"], sys.argv[2]]
assert seen == {[FROM_CALLER, FROM_PROFILE, QUOTED, ARGUMENT]!r}, "the ranks get the true values"
if dist.get_rank() == 1:
    raise ValueError(f"refused: {{' '.join(seen)}} {{os.environ['INDEX']}}")
dist.barrier()
"""


def chaoskit(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command with secrets in its environment, and with an umask that closes nothing."""
    environment = {
        **os.environ, "MY_TOKEN": FROM_CALLER, "DB_PASSWORD": QUOTED,
        "INDEX": f"https://u:{LOGIN}@host/simple", "PYTHONPATH": str(Path(__file__).parents[1]),
    }  # fmt: skip
    command = [sys.executable, "-m", "chaoskit", *words]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, umask=0, timeout=280
    )


def watched(folder: Path, *options: str, program: str = PROGRAM) -> tuple[Path, str]:
    """Watch the program; return the run directory and all that was printed."""
    (folder / "train.py").write_text(program)
    (folder / "mine.yaml").write_text(f"name: mine\nenv:\n  JOB_API_KEY: {FROM_PROFILE}\n")
    reports = ("--junit", "reports/j.xml", "--html", "reports/h.html", "--markdown", "reports/m.md")
    words = ("watch", "--ranks", "2", "--profile", "mine.yaml", *reports, *options)
    done = chaoskit(folder, *words, "--api-key", ARGUMENT)
    assert done.returncode == 1, done.stderr
    (run,) = (folder / "runs").iterdir()
    return run, done.stdout + done.stderr


def leaks(*folders: Path) -> list[tuple[str, str]]:
    files = [p for folder in folders for p in folder.rglob("*") if p.is_file()]
    assert files
    return [(str(p), secret) for p in files for secret in SECRETS if secret.encode() in p.read_bytes()]


def open_to_others(run: Path) -> list[str]:
    return [str(p) for p in (run, *run.rglob("*")) if stat.S_IMODE(p.lstat().st_mode) & 0o077]


def check(folder: Path, run: Path, told: str) -> None:
    assert leaks(run, folder / "reports") == []
    assert open_to_others(run) == []
    assert [secret for secret in SECRETS if secret in told] == []
    verdict = json.loads((run / "watch" / "watch" / "verdict.json").read_text())
    assert "refused: <redacted> <redacted> <redacted> <redacted> https://<redacted>@host" in verdict["reason"]
    assert verdict["rerun"] == "", "without the secret it would be another arm"


def test_no_file_of_a_run_holds_a_secret_and_none_is_open(tmp_path: Path) -> None:
    run, told = watched(tmp_path, "train.py", "--")
    check(tmp_path, run, told)
    said = (run / "watch" / "watch" / "rank1" / "stdout.log").read_text()
    assert "'MY_TOKEN': '<redacted>'" in said
    again = chaoskit(tmp_path, "judge", str(run), "--format", "json")
    judged = json.loads(again.stdout)["verdicts"][0]
    kept = json.loads((run / "watch" / "watch" / "verdict.json").read_text())
    same = ("reason", "rerun", "outcome", "notes")
    assert [judged[name] for name in same] == [kept[name] for name in same], "judged again, it is the same"


@pytest.mark.nightly
def test_ranks_of_torchrun_get_them_from_memory(tmp_path: Path) -> None:
    run, told = watched(tmp_path, "train.py", "--launcher", "torchrun", "--")
    check(tmp_path, run, told)


@pytest.mark.nightly
def test_a_command_of_the_users_keeps_its_own_arguments(tmp_path: Path) -> None:
    torchrun = str(Path(sys.executable).with_name("torchrun"))
    run, told = watched(tmp_path, "--", torchrun, "--nproc-per-node", "2", "train.py")
    check(tmp_path, run, told)


@pytest.mark.nightly
def test_the_evidence_of_a_rank_that_hangs_holds_none(tmp_path: Path) -> None:
    hangs = PROGRAM.replace("    raise ValueError(", "    import time; time.sleep(1000); print(")
    run, told = watched(tmp_path, "train.py", "--within", "3s", "--", program=hangs)
    assert leaks(run, tmp_path / "reports") == []
    assert open_to_others(run) == []
    assert [secret for secret in SECRETS if secret in told] == []
    assert (run / "watch" / "watch" / "rank1" / "stack.json").exists()
