"""What this machine lets us do, found out by trying; each with what would change it.

A scenario's ``requires`` and a fault's ``needs`` name these, ``chaoskit doctor`` prints them. Nothing here
imports torch or touches a GPU's state, and what changes the process that tries is tried in another one.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from chaoskit.errors import usage
from chaoskit.gpu import cuda_build, nvml
from chaoskit.gpu.devices import MASK, Gpu, visible

SHARED_MEMORY_BYTES: Final = 128 << 20
"""Less than this in /dev/shm is what breaks data loaders: a container's default is 64 MiB."""
_TRIAL_LIMIT_S: Final = 30.0
_TRIED_OUTSIDE: Final = (
    "user-namespaces",
    "network-namespaces",
    "mount-namespaces",
    "seccomp-notify",
    "ptrace",
)
_SANDBOX_REMEDY: Final = "container: docker run --security-opt seccomp=unconfined, or --cap-add SYS_ADMIN"


@dataclass(frozen=True, slots=True)
class Capability:
    """One thing the machine can or cannot do.

    ``detail`` is what was found; ``remedy`` the container flag, sysctl or package that changes it, "" where
    it is available.
    """

    name: str
    available: bool
    detail: str
    remedy: str = ""


def names() -> tuple[str, ...]:
    """Return all names that ``find`` knows. Tries nothing."""
    return tuple(_PROBES)


def find(name: str) -> Capability:
    """Return the capability, tried once per process. Raises InvalidInput for a name that is none."""
    if name not in _PROBES:
        raise usage(f"{name!r} is no capability of a machine", f"known are {', '.join(_PROBES)}")
    return _tried(name)


def everything() -> tuple[Capability, ...]:
    """Return all capabilities, tried where they have not been."""
    return tuple(map(find, _PROBES))


@functools.cache
def _tried(name: str) -> Capability:
    return _PROBES[name](name)


# ---------------------------------------------------------------- tried in a process of its own


@functools.cache
def _trials() -> dict[str, str]:
    """Run chaoskit.launchers.probe, which ends as the kernel likes; the error's text per trial."""
    root = str(Path(__file__).resolve().parents[1])
    code = f"import sys; sys.path.insert(0, {root!r}); from chaoskit.launchers import probe; probe.main()"
    command = [sys.executable, "-I", "-S", "-c", code]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TRIAL_LIMIT_S, check=True)
        found: dict[str, str] = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return dict.fromkeys(_TRIED_OUTSIDE, f"could not be tried: {error}")
    return found


def _namespaces(name: str) -> Capability:
    error = _trials()[name]
    if not error:
        return Capability(name, True, "can be made")
    return Capability(name, False, error, _namespace_remedy())


def _namespace_remedy() -> str:
    for file, forbids, remedy in (
        ("user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=15000"),
        ("kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1",
         "sysctl kernel.apparmor_restrict_unprivileged_userns=0"),
    ):  # fmt: skip
        if _sysctl(file) == forbids:
            return remedy
    return _SANDBOX_REMEDY


def _sysctl(file: str) -> str:
    try:
        return Path("/proc/sys", file).read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _seccomp_notify(name: str) -> Capability:
    error = _trials()[name]
    if not error:
        return Capability(name, True, "system calls of a process can be held up")
    return Capability(name, False, error, "Linux 5.5 or newer; container: --security-opt seccomp=unconfined")


def _ptrace(name: str) -> Capability:
    error = _trials()[name]
    scope = _sysctl("kernel/yama/ptrace_scope")
    if not error:
        return Capability(name, True, "stacks of other processes can be read")
    if scope in ("2", "3"):
        remedy = "sysctl kernel.yama.ptrace_scope=1" + (" (needs a reboot)" if scope == "3" else "")
    else:
        remedy = "container: docker run --cap-add SYS_PTRACE"
    return Capability(name, False, error + (f" (ptrace_scope {scope})" if scope else ""), remedy)


# ---------------------------------------------------------------- virtual hosts


@functools.cache
def _networks() -> dict[str, str]:
    """Run chaoskit.hosts.trial, which builds a small network; the error's text per feature."""
    features = ("virtual-hosts", "link-rate", "packet-rules")
    if importlib.util.find_spec("pyroute2") is None:
        return dict.fromkeys(features, _NO_PYROUTE2)
    root = str(Path(__file__).resolve().parents[1])
    code = f"import sys; sys.path.insert(0, {root!r}); from chaoskit.hosts import trial; trial.main()"
    command = [sys.executable, "-c", code]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TRIAL_LIMIT_S, check=True)
        found: dict[str, str] = json.loads(done.stdout)
    except subprocess.CalledProcessError as error:
        said = (error.stderr.strip().splitlines() or [f"it ended with {error.returncode}"])[-1]
        return dict.fromkeys(features, f"could not be tried: {said}")
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return dict.fromkeys(features, f"could not be tried: {error}")
    return found


def _network_feature(name: str) -> Capability:
    error = _networks()[name]
    if not error:
        return Capability(name, True, _NETWORK_FEATURES[name])
    if error == _NO_PYROUTE2:
        return Capability(name, False, error, "pip install 'chaoskit[hosts]'")
    namespaces = find("network-namespaces")
    remedy = namespaces.remedy or "a kernel with veth, bridge, tbf (CONFIG_NET_SCH_TBF) and policy routing"
    return Capability(name, False, error, remedy)


_NO_PYROUTE2: Final = "pyroute2 is not installed"
_NETWORK_FEATURES: Final = {
    "virtual-hosts": "hosts with interfaces of their own can be made",
    "link-rate": "links can be slowed down",
    "packet-rules": "packets can be dropped on their way in",
}


# ---------------------------------------------------------------- found out here


def _memory_cgroup(name: str) -> Capability:
    from chaoskit.faults.memory_cgroup import memory_root  # what the fault does is what has to be possible

    root = memory_root()
    if root is not None:
        return Capability(name, True, f"can be made in {root}")
    remedy = "root, or: systemd-run --user --scope -p Delegate=yes …; container: docker run --privileged"
    return Capability(name, False, "no memory cgroup (v1 or v2) can be made here", remedy)


def _shared_memory(name: str) -> Capability:
    try:
        stat = os.statvfs("/dev/shm")  # noqa: S108 - its size is asked for, nothing is written there
    except OSError as error:
        return Capability(name, False, str(error), "container: docker run --shm-size=1g")
    total, free = stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize
    detail = f"{total >> 20} MiB in all, {free >> 20} MiB free"
    if total < SHARED_MEMORY_BYTES:
        return Capability(name, False, detail, "container: docker run --shm-size=1g")
    if free < SHARED_MEMORY_BYTES:
        return Capability(name, False, detail, "remove what fills /dev/shm")
    return Capability(name, True, detail)


def _memfd(name: str) -> Capability:
    try:
        os.close(os.memfd_create("chaoskit-probe", os.MFD_CLOEXEC))
    except (OSError, AttributeError) as error:
        return Capability(name, False, str(error), "Linux 3.17 or newer, with glibc 2.27 or newer")
    return Capability(name, True, "can be made")


def _py_spy(name: str) -> Capability:
    beside = os.path.dirname(sys.executable)
    path = shutil.which("py-spy", path=os.pathsep.join([beside, os.environ.get("PATH", "")]))
    if path is None:
        return Capability(name, False, "not found beside python or in PATH", "pip install py-spy")
    return Capability(name, True, path)


def _gpu(name: str) -> Capability:
    remedy = "an NVIDIA GPU with its driver; container: docker run --gpus all"
    try:
        found = nvml.gpus()
    except OSError as error:
        return Capability(name, False, f"no NVIDIA driver: {error}", remedy)
    if not found:
        return Capability(name, False, "the NVIDIA driver sees no GPU", remedy)
    shown = visible(found, os.environ.get(MASK))
    if not shown:
        detail = f"{len(found)} NVIDIA GPU, hidden by {MASK}={os.environ.get(MASK, '')}"
        return Capability(name, False, detail, f"unset {MASK}, or name a GPU that is here")
    of = f" of {len(found)}" if len(shown) < len(found) else ""
    kinds = ", ".join(dict.fromkeys(gpu.name for gpu in shown if gpu.name))
    return Capability(name, True, f"{len(shown)}{of} NVIDIA GPU" + (f" ({kinds})" if kinds else ""))


def gpus() -> tuple[Gpu, ...]:
    """Return the GPUs that the ranks will see, as they are now; none where there is no driver."""
    try:
        return visible(nvml.gpus(), os.environ.get(MASK))
    except OSError:
        return ()


def _nccl(name: str) -> Capability:
    gpu = find("gpu")
    if not gpu.available:
        return Capability(name, False, gpu.detail, gpu.remedy)
    if not cuda_build.has_cuda():
        return Capability(name, False, "this torch has no CUDA", "a CUDA build of torch (see pytorch.org)")
    version = cuda_build.nccl_version()
    nccl = f"NCCL {'.'.join(map(str, version))}" if version else "an NCCL of unknown version"
    return Capability(name, True, f"{gpu.detail}, torch with CUDA and {nccl}")


_PROBES: Final[dict[str, Callable[[str], Capability]]] = {
    "user-namespaces": _namespaces,
    "network-namespaces": _namespaces,
    "mount-namespaces": _namespaces,
    **dict.fromkeys(_NETWORK_FEATURES, _network_feature),
    "seccomp-notify": _seccomp_notify,
    "ptrace": _ptrace,
    "py-spy": _py_spy,
    "memory-cgroup": _memory_cgroup,
    "shared-memory": _shared_memory,
    "memfd": _memfd,
    "gpu": _gpu,
    "nccl": _nccl,
}
