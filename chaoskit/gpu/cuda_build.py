"""What the installed torch brings of CUDA and NCCL, found out without importing it."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import os
import subprocess
import sys
from typing import Final

_WHEELS: Final = ("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11", "nvidia-nccl")
_LIMIT_S: Final = 20.0
_ASK: Final = """
import ctypes
version = ctypes.c_int(0)
code = ctypes.CDLL("libnccl.so.2").ncclGetVersion(ctypes.byref(version))
print(version.value if code == 0 else 0)
"""


def has_cuda() -> bool:
    """Return whether this torch was built with CUDA."""
    torch = importlib.util.find_spec("torch")  # finds, and does not import
    folder = os.path.dirname(torch.origin) if torch is not None and torch.origin else ""
    return bool(folder) and os.path.exists(os.path.join(folder, "lib", "libtorch_cuda.so"))


@functools.cache
def nccl_version() -> tuple[int, ...] | None:
    """Return NCCL's version: that of the wheel which torch's wheels need, or of the library that is found.

    None where neither is there (a build with NCCL inside).
    """
    for name in _WHEELS:
        try:
            return _numbers(importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            continue
    return _of_library()


def _of_library() -> tuple[int, ...] | None:
    """Ask the library of the system, in a process of its own."""
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _ASK],
            check=False, capture_output=True, text=True, timeout=_LIMIT_S,
        )  # fmt: skip
        code = int(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return of_code(code) if code > 0 else None


def of_code(code: int) -> tuple[int, ...]:
    """Return the version that ncclGetVersion means: 22304 is 2.23.4, and 2804, from before 2.9, is 2.8.4."""
    if code < 10_000:
        return code // 1000, code // 100 % 10, code % 100
    return code // 10_000, code // 100 % 100, code % 100


def _numbers(text: str) -> tuple[int, ...] | None:
    parts = text.split(".")[:3]
    return tuple(map(int, parts)) if all(part.isdecimal() for part in parts) else None
