"""The page on launchers: its scripts are bash, its manifests YAML, and with stand-ins they do what it says.

The stand-ins (``srun``, ``scontrol``, a pod, ``kubectl logs``) set the variables and start the command lines
of the real ones, and know nothing more: what a scheduler does to a job is not tested here.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

PAGE = Path(__file__).parents[2] / "docs" / "launchers.md"
SCRIPT = """\
import torch, torch.distributed as dist
dist.init_process_group("gloo")
for _ in range(20):
    dist.all_reduce(torch.ones(1000))
dist.destroy_process_group()
"""
SRUN = """\
#!/bin/bash
while [[ $1 == --* ]]; do shift; done
status=0
for ((n = 0; n < SLURM_NTASKS; n++)); do
    SLURM_PROCID=$n SLURM_LOCALID=$n "$@" &
done
for job in $(jobs -p); do wait "$job" || status=$?; done
exit $status
"""
KUBECTL = """\
#!/bin/bash
if [[ $1 == get ]]; then for log in logs/*; do echo "pod/$(basename "$log")"; done; exit; fi
cat "logs/${2##*/}"
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)


def manifests() -> list[dict[str, Any]]:
    return [d for text in blocks("yaml") for d in YAML(typ="safe", pure=True).load_all(text)]


def jobs() -> list[dict[str, Any]]:
    return [m for m in manifests() if m["kind"] == "Job"]


def one(parts: list[str], word: str) -> str:
    (found,) = [p for p in parts if word in p]
    return found


@pytest.mark.parametrize("text", blocks("bash"), ids=lambda t: t.strip().splitlines()[0][:40])
def test_every_script_is_bash(text: str) -> None:
    done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_manifests_fit_together() -> None:
    assert [m["kind"] for m in manifests()] == ["Service", "Job"] * 3
    for service, job in zip(manifests()[::2], manifests()[1::2], strict=True):
        name = job["metadata"]["name"]
        pod = job["spec"]["template"]["spec"]
        assert service["spec"]["selector"] == {"job-name": name}
        assert service["spec"]["clusterIP"] == "None"  # the word, not null
        assert pod["subdomain"] == service["metadata"]["name"]
        (container,) = pod["containers"]
        env = {e["name"]: e["value"] for e in container["env"]}
        assert env["MASTER_ADDR"] == f"{name}-0.{pod['subdomain']}"
        assert int(env["WORLD_SIZE"]) == job["spec"]["completions"] == job["spec"]["parallelism"]
        assert {m["name"] for m in container["volumeMounts"]} == {v["name"] for v in pod["volumes"]}
        assert job["spec"]["backoffLimit"] == 0
        script = container["args"][0]
        assert subprocess.run(["sh", "-n"], input=script, text=True).returncode == 0


def test_each_command_of_chaoskit_parses() -> None:
    """Every option that the page shows is there."""
    from chaoskit.cli import COMMANDS, main

    text = PAGE.read_text()
    for name in set(re.findall(r"(?:^|\s|`)chaoskit (\w+)", text)) & {"plan", "judge", "watch", "run"}:
        assert name in COMMANDS
    shown = re.findall(r"chaoskit plan [^\n`]*(?:\\\n[^\n]*)*", text)
    options = {o for line in shown for o in re.findall(r" (--[a-z-]+)", line.partition(" -- ")[0])}
    from chaoskit.cli.plan import plan

    assert options <= {o for p in plan.params for o in p.opts}
    assert main(["plan", "--help"]) == 0


# ---------------------------------------------------------------- with stand-ins, on real ranks


@pytest.fixture
def job(tmp_path: Path) -> dict[str, str]:
    """A folder with a script, the stand-ins on the path, and the environment of a job of two tasks."""
    (tmp_path / "train.py").write_text(SCRIPT)
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, body in (("srun", SRUN), ("kubectl", KUBECTL), ("scontrol", "#!/bin/sh\necho 127.0.0.1\n")):
        (tools / name).write_text(body)
        (tools / name).chmod(0o755)
    python = tools / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    command = tools / "chaoskit"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m chaoskit "$@"\n')
    command.chmod(0o755)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    return {
        **{k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "MASTER_PORT")},
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        "MASTER_PORT": str(port),
    }


def in_pods(template: dict[str, Any], folder: Path, env: dict[str, str], **changed: str) -> list[int]:
    """Run the container of a Job twice, each as a pod would, and keep what each prints as its log."""
    (container,) = template["spec"]["template"]["spec"]["containers"]
    given = {e["name"]: e["value"] for e in container["env"]}
    given |= {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": env["MASTER_PORT"]}
    (folder / "logs").mkdir()
    pods = []
    for index in range(2):
        own = {k: v.format(index=index) for k, v in changed.items()}
        with (folder / "logs" / f"chaoskit-{index}").open("wb") as log:
            pods.append(
                subprocess.Popen(
                    [*container["command"], *container["args"]],
                    cwd=folder,
                    env={**env, **given, **own, "JOB_COMPLETION_INDEX": str(index)},
                    stdout=log,
                )
            )
    return [pod.wait(200) for pod in pods]


def planned(folder: Path, env: dict[str, str], *scenario: str) -> Path:
    path = folder / "arm" / "plan.json"
    command = ["chaoskit", "plan", *scenario, "--script", "train.py", "--ranks", "2", "-o", str(path)]
    subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True)
    return path


def judged(folder: Path, env: dict[str, str], *folders: str) -> dict[str, Any]:
    command = ["chaoskit", "judge", *folders, "--format", "json"]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    (verdict,) = json.loads(done.stdout)["verdicts"]
    assert done.stderr == ""
    return dict(verdict)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_sbatch_script_of_a_plan_run(job: dict[str, str], tmp_path: Path) -> None:
    script = one(blocks("bash"), 'chaoskit.rank --plan "$FOLDER/plan.json"')
    slurm = {
        "SLURM_NTASKS": "2", "SLURM_NNODES": "1", "SLURM_JOB_NODELIST": "n",
        "SLURM_SUBMIT_DIR": str(tmp_path), "SLURM_JOB_ID": job["MASTER_PORT"],
        "FOLDER": str(tmp_path / "arm"),
    }  # fmt: skip
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env={**job, **slurm}, capture_output=True, text=True
    )
    assert "rank 1 killed" in done.stdout, done.stdout + done.stderr
    verdict = judged(tmp_path, job, "arm")
    assert (verdict["outcome"], verdict["culprits"]) == ("failed", [{"kind": "rank", "id": "1"}])


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_job_with_a_shared_volume(job: dict[str, str], tmp_path: Path) -> None:
    planned(tmp_path, job)
    codes = in_pods(jobs()[1], tmp_path, job, FOLDER=str(tmp_path / "arm"))
    verdict = judged(tmp_path, job, "arm")
    assert (codes, verdict["status"], verdict["outcome"]) == ([0, 0], "pass", "completed"), verdict


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_job_without_one_and_the_collecting(job: dict[str, str], tmp_path: Path) -> None:
    plan = planned(tmp_path, job, "rank-killed-mid-all-reduce", "--arm", "hardened")
    away = shutil.copy(plan, tmp_path / "configmap.json")
    codes = in_pods(jobs()[2], tmp_path, job, PLAN=str(away), FOLDER=f"{tmp_path}/pod{{index}}")
    assert 0 not in codes
    collect = one(blocks("bash"), "kubectl logs")
    done = subprocess.run(["bash", "-c", collect], cwd=tmp_path, env=job, capture_output=True, text=True)
    assert "rank 1 killed" in done.stdout, done.stdout + done.stderr
    verdict = judged(tmp_path, job, "collected/chaoskit-0", "collected/chaoskit-1")
    assert (verdict["outcome"], verdict["culprits"]) == ("failed", [{"kind": "rank", "id": "1"}])
