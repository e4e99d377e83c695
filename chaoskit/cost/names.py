"""Names of variables that nobody reads: what `profiles check` knows of them, for what is to be compared."""

from __future__ import annotations

import functools
from typing import Final

from chaoskit.checking import Level, Setting, Subject, check, read_target
from chaoskit.checking.target import Target
from chaoskit.errors import InvalidInput
from chaoskit.profiles.variables import lookup

_RULE: Final = "unknown-name"
_OF_THE_PROCESS: Final = (
    "ATEN_", "C10_", "CUBLAS_", "CUDA_", "CUDNN_", "DNNL_", "GLIBC_", "GLOO_", "GOMP_", "GOTO_", "KMP_",
    "LC_",
    "LD_", "MALLOC_", "MKL_", "MPI", "NCCL_", "NVIDIA_", "OFI_", "OMP_", "ONEDNN_", "OPENBLAS_", "PYTHON",
    "PYTORCH_", "TBB_", "TMPDIR", "TORCH", "TZ", "UCX_",
)  # fmt: skip
"""How names begin that the interpreter, its libraries or torch may read in any rank."""


@functools.cache
def nobody_reads(name: str) -> str:
    """Return that nobody reads ``name``, and which is meant; '' where somebody may."""
    target = _target()
    subject = Subject("env-file", name, (Setting(name, "1"),))
    found = check(subject, target) if target is not None else ()
    said = next((f for f in found if f.rule == _RULE and f.level is not Level.NOTE), None)
    if said is None:
        return ""
    return f"{said.message}; {said.hint}" if said.hint else said.message


def is_own(name: str) -> bool:
    """Return whether only a script of the user's can read ``name``: nothing else is known to."""
    return lookup(name).reader == "unknown" and not name.startswith(_OF_THE_PROCESS)


@functools.cache
def _target() -> Target | None:
    try:
        return read_target()
    except InvalidInput:  # a torch that is older than the tables
        return None
