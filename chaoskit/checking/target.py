"""What a profile is checked against: which torch, which NCCL, which backend, and what starts the ranks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from chaoskit.checking import installed
from chaoskit.checking.installed import Installed
from chaoskit.errors import InvalidInput, Problem
from chaoskit.guards.launcher_gaps import LAUNCHERS, LauncherName
from chaoskit.profiles.variable import OLDEST, Implementation, Version

Wanted = Literal["gloo", "nccl", "nccl-legacy", "nccl2"]
BACKENDS: Final[tuple[Wanted, ...]] = ("gloo", "nccl", "nccl-legacy", "nccl2")
NCCL2_SINCE: Final[Version] = (2, 14)
_NCCL2_DEFAULT: Final[Version] = (2, 15)
_VERSION: Final = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})(?:[.+a-z].*)?")


@dataclass(frozen=True, slots=True)
class Target:
    """``torch`` None: none is installed and none was named, so nothing that depends on it is said.
    ``backend`` None: any that this torch has. ``evidence`` is what the installed torch contains, where it is
    the one that is meant. ``launcher_grace_s``, ``scheduler_grace_s``: what these give between SIGTERM and
    SIGKILL."""

    torch: Version | None = None
    torch_said: str = ""
    nccl: Version | None = None
    backend: Wanted | None = None
    launcher: LauncherName | None = None
    launcher_grace_s: float | None = None
    scheduler_grace_s: float | None = None
    evidence: Installed | None = None

    def implementations(self, use_nccl2: str) -> tuple[Implementation, ...]:
        """Return what the backend resolves to where TORCH_DIST_USE_NCCL2 is ``use_nccl2``."""
        if self.backend in ("gloo", "nccl-legacy", "nccl2"):
            return (self.backend,)
        torch = self.torch or OLDEST
        by_default = torch >= _NCCL2_DEFAULT and use_nccl2 != "0"
        asked = torch >= NCCL2_SINCE and use_nccl2 == "1"
        nccl: Implementation = "nccl2" if by_default or asked else "nccl-legacy"
        return (nccl,) if self.backend == "nccl" else ("gloo", nccl)


def read_target(
    torch: str | None = None,
    nccl: str | None = None,
    backend: Wanted | None = None,
    launcher: LauncherName | None = None,
    launcher_grace_s: float | None = None,
    scheduler_grace_s: float | None = None,
    *,
    look_inside: bool = True,
) -> Target:
    """Return the target; what is not named is what is installed. ``look_inside`` False: the libraries of the
    installed torch are not searched. Raises InvalidInput for versions that are none."""
    problems: list[Problem] = []
    found = installed.find()
    version = _version("--torch", torch, problems) if torch is not None else _parsed(found.version)
    of_nccl = _version("--nccl", nccl, problems) if nccl is not None else None
    is_installed = torch is None or (
        found.version and torch.partition("+")[0] == found.version.partition("+")[0]
    )
    if nccl is None and is_installed:
        of_nccl = _parsed(found.nccl)
    if version is not None and version < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        problems.append(Problem(f"--torch {torch or found.version}: expected {oldest} or newer"))
    if backend == "nccl2" and version is not None and version < NCCL2_SINCE:
        problems.append(Problem("--backend nccl2: it is there from torch 2.14 on", hint="give --torch 2.14"))
    if problems:
        raise InvalidInput(problems)
    return Target(
        torch=version,
        torch_said=torch if torch is not None else found.version,
        nccl=of_nccl,
        backend=backend,
        launcher=launcher,
        launcher_grace_s=launcher_grace_s,
        scheduler_grace_s=scheduler_grace_s,
        evidence=found if look_inside and is_installed and found.version else None,
    )


def launchers() -> tuple[LauncherName, ...]:
    """Return the launchers that something is known of."""
    return tuple(LAUNCHERS)


def _version(option: str, text: str, problems: list[Problem]) -> Version | None:
    found = _parsed(text)
    if found is None:
        problems.append(Problem(f"{option} {text[:40]!r}: expected a version", hint="as 2.13 or 2.13.0"))
    return found


def _parsed(text: str) -> Version | None:
    match = _VERSION.fullmatch(text)
    return None if match is None else (int(match[1]), int(match[2]))
