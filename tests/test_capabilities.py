"""What the machine can do is found by trying, told with a remedy, and costs the process that asks nothing."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaoskit import capabilities, faults
from chaoskit.errors import InvalidInput
from chaoskit.gpu import cuda_build, nvml
from chaoskit.gpu.devices import Gpu

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def tried_anew() -> Iterator[None]:
    tried = (capabilities._tried, capabilities._trials, capabilities._networks)
    for one in tried:
        one.cache_clear()
    yield
    for one in tried:
        one.cache_clear()


def test_everything_is_told_with_what_changes_it() -> None:
    found = capabilities.everything()
    assert [c.name for c in found] == list(capabilities.names())
    for capability in found:
        assert capability.detail
        assert bool(capability.remedy) != capability.available, capability


def test_every_need_of_a_fault_is_a_capability() -> None:
    needs = {need for name in faults.REGISTRY.names() for need in faults.REGISTRY.get(name).needs}
    assert needs <= set(capabilities.names())


def test_an_unknown_name_is_wrong_usage() -> None:
    with pytest.raises(InvalidInput, match=r"known are .*memory-cgroup"):
        capabilities.find("memory-cgruop")


def test_asking_changes_nothing_here_and_imports_no_torch() -> None:
    code = textwrap.dedent("""
        import os, sys
        before = [os.readlink(f"/proc/self/ns/{kind}") for kind in ("user", "net", "mnt")]
        from chaoskit import capabilities
        capabilities.everything()
        assert before == [os.readlink(f"/proc/self/ns/{kind}") for kind in ("user", "net", "mnt")]
        assert not {"torch", "pydantic", "multiprocess"} & set(sys.modules)
    """)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code], env=env, check=True)


def test_what_is_said_to_be_possible_is() -> None:
    """The same trial by another program."""
    if not capabilities.find("network-namespaces").available:
        pytest.skip("not possible here")
    done = subprocess.run(["unshare", "-Urn", "true"], capture_output=True)
    if os.geteuid() != 0:
        assert done.returncode == 0


@pytest.mark.parametrize(
    ("file", "value", "remedy"),
    [
        ("user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=15000"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1",
         "sysctl kernel.apparmor_restrict_unprivileged_userns=0"),
        ("none", "", "--security-opt seccomp=unconfined"),
    ],
)  # fmt: skip
def test_the_remedy_is_for_what_forbids_it(
    monkeypatch: pytest.MonkeyPatch, file: str, value: str, remedy: str
) -> None:
    monkeypatch.setattr(capabilities, "_trials", lambda: {"user-namespaces": "not permitted"})
    monkeypatch.setattr(capabilities, "_sysctl", {file: value}.get)
    found = capabilities._namespaces("user-namespaces")
    assert (found.available, found.detail) == (False, "not permitted")
    assert remedy in found.remedy


@pytest.mark.parametrize("name", ["mount-namespaces", "seccomp-notify"])
def test_what_a_fault_needs_is_tried_with_what_the_fault_does(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(capabilities, "_trials", lambda: {name: "[Errno 1] mount /tmp: not permitted"})
    found = capabilities.find(name)
    assert (found.available, found.detail) == (False, "[Errno 1] mount /tmp: not permitted")
    assert "seccomp=unconfined" in found.remedy


def test_a_refused_trial_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    found = capabilities.find("ptrace")
    assert not found.available
    assert "could not be tried" in found.detail


def test_virtual_hosts_need_pyroute2(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "pyroute2" else find_spec(name)
    )
    for name in ("virtual-hosts", "link-rate", "packet-rules"):
        found = capabilities.find(name)
        assert (found.available, found.detail) == (False, "pyroute2 is not installed")
        assert found.remedy == "pip install 'chaoskit[hosts]'"


@pytest.mark.parametrize("file", ["import nonsense", "print('{')"])
def test_a_trial_that_breaks_is_a_finding(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, file: str) -> None:
    (tmp_path / "pyroute2.py").write_text(file)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = capabilities.find("virtual-hosts")
    assert not found.available
    assert "could not be tried" in found.detail
    assert len(found.detail) < 200


def test_the_network_s_features_are_found_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"virtual-hosts": "", "link-rate": "Operation not supported", "packet-rules": ""}
    monkeypatch.setattr(capabilities, "_networks", lambda: said)
    assert capabilities.find("virtual-hosts").available
    slow = capabilities.find("link-rate")
    assert (slow.available, slow.detail) == (False, "Operation not supported")
    assert "CONFIG_NET_SCH_TBF" in slow.remedy or "container" in slow.remedy


def test_gpus_that_are_hidden_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    eight = tuple(Gpu(n, "Fake", f"GPU-{n}") for n in range(8))
    monkeypatch.setattr(nvml, "gpus", lambda: eight)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert capabilities._gpu("gpu").detail == "8 NVIDIA GPU (Fake)"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,5")
    assert capabilities._gpu("gpu").detail == "2 of 8 NVIDIA GPU (Fake)"
    assert [gpu.index for gpu in capabilities.gpus()] == [2, 5]
    for hidden in ("", "-1", "8", "3,3"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
        found = capabilities._gpu("gpu")
        assert (found.available, found.detail) == (
            False, f"8 NVIDIA GPU, hidden by CUDA_VISIBLE_DEVICES={hidden}"
        )  # fmt: skip


def test_a_container_with_the_usual_shared_memory_is_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    small = os.statvfs_result((4096, 4096, 16384, 16384, 16384, 0, 0, 0, 0, 255))  # 64 MiB
    monkeypatch.setattr(os, "statvfs", lambda _: small)
    found = capabilities.find("shared-memory")
    assert not found.available
    assert "--shm-size" in found.remedy


def test_nccl_needs_a_build_with_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(nvml, "gpus", lambda: (Gpu(0, "Fake"),))
    monkeypatch.setattr(cuda_build, "has_cuda", lambda: False)
    found = capabilities.find("nccl")
    assert (found.available, found.detail) == (False, "this torch has no CUDA")
    capabilities._tried.cache_clear()
    monkeypatch.setattr(cuda_build, "has_cuda", lambda: True)
    monkeypatch.setattr(cuda_build, "nccl_version", lambda: (2, 27, 3))
    assert capabilities.find("nccl").detail == "1 NVIDIA GPU (Fake), torch with CUDA and NCCL 2.27.3"


@pytest.mark.nccl
def test_a_gpu_is_found_without_a_context() -> None:
    assert capabilities.find("gpu").available
    assert capabilities.find("nccl").available
