"""Settings that nobody reads on this torch, NCCL or backend."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from chaoskit.checking.case import Case, Setting
from chaoskit.checking.family import Rule, said_of
from chaoskit.checking.finding import Finding, Level
from chaoskit.profiles.nccl import OLDEST as OLDEST_NCCL
from chaoskit.profiles.nccl import NcclVariable
from chaoskit.profiles.variable import EnvVariable, Implementation, Version
from chaoskit.profiles.variables import VARIABLES

_CHOOSER: Final = "TORCH_DIST_USE_NCCL2"


@dataclass(frozen=True, slots=True)
class NoEffect(Rule):
    """A setting that is read by another torch, another NCCL or another implementation of ``nccl`` than the
    one that is meant (a warning), or belongs to the other backend (a note: a profile may serve both)."""

    name: ClassVar[str] = "no-effect"

    def check(self, case: Case) -> Iterator[Finding]:
        for setting, variable in case.known():
            if setting.name == _CHOOSER:
                yield from _of_chooser(setting, case)
            elif isinstance(variable, NcclVariable):
                yield from _of_nccl(setting, variable, case)
            else:
                yield from _of_torch(setting, variable, case)
        yield from _of_guards(case)


def _text(version: Version) -> str:
    return ".".join(map(str, version))


def _of_torch(setting: Setting, variable: EnvVariable, case: Case) -> Iterator[Finding]:
    meant = [by for by in case.implementations if _family(by) in variable.backends]
    if not meant:
        yield _of_other_backend(setting, variable.reader, case)
        return
    torch = case.target.torch
    if torch is None or any(variable.is_read(torch, by) is not False for by in meant):
        return
    if variable.since is not None and torch < variable.since:
        old = next((v.name for v in VARIABLES.values() if v.replaced_by == setting.name), "")
        hint = f"write {old} for this torch" if old else "remove it for this torch"
        message = f"torch {_text(torch)} does not read it yet; torch {_text(variable.since)} does"
    elif variable.until is not None and torch >= variable.until:
        message = f"torch {_text(torch)} no longer reads it: {variable.note or 'it is gone'}"
        hint = "remove it"
    else:
        named = "nccl" if case.target.backend != "nccl2" else "nccl2"
        resolved = "" if named == "nccl2" else " resolves to nccl2, which"
        message = f"on torch {_text(torch)} the backend {named}{resolved} does not read it"
        hint = "remove it, or go back to the legacy group: TORCH_DIST_USE_NCCL2=0, or the backend nccl-legacy"
        if torch < (2, 15):
            hint = "remove it, or use the legacy group"
    yield said_of(setting, Level.WARNING, message, hint, variable.source)


def _of_other_backend(setting: Setting, reader: str, case: Case) -> Finding:
    backend = case.target.backend or "this backend"
    return said_of(setting, Level.NOTE, f"not applicable on {backend}: {reader} reads it")


def _family(by: Implementation) -> str:
    return "gloo" if by == "gloo" else "nccl"


def _of_nccl(setting: Setting, variable: NcclVariable, case: Case) -> Iterator[Finding]:
    if not case.on_nccl:
        yield _of_other_backend(setting, "NCCL", case)
        return
    nccl = case.target.nccl
    if variable.until is not None and (variable.until <= OLDEST_NCCL or (nccl and nccl >= variable.until)):
        message = f"NCCL {_text(variable.until)} and newer do not read it"
        yield said_of(setting, Level.WARNING, message, "remove it", "NVIDIA/nccl")
    elif nccl is not None and variable.since is not None and nccl < variable.since:
        message = f"NCCL {_text(nccl)} does not read it; NCCL {_text(variable.since)} does"
        yield said_of(setting, Level.WARNING, message, "remove it for this NCCL", "NVIDIA/nccl")


def _of_chooser(setting: Setting, case: Case) -> Iterator[Finding]:
    torch, source = case.target.torch, VARIABLES[_CHOOSER].source
    if torch is None or setting.to_expand:
        return
    if torch < (2, 14):
        message = f"torch {_text(torch)} does not read it yet; torch 2.14 does"
        yield said_of(setting, Level.WARNING, message, "remove it for this torch", source)
        return
    counts, default = ("1", "the legacy group") if torch < (2, 15) else ("0", "nccl2")
    if setting.value == counts:
        return
    is_default = setting.value in ("0", "1")
    message = f"only {counts} has an effect on torch {_text(torch)}: nccl is {default} by default"
    yield said_of(setting, Level.NOTE if is_default else Level.WARNING, message, "", source)


def _of_guards(case: Case) -> Iterator[Finding]:
    for guard in case.subject.guards:
        if not any(_family(by) in guard.backends for by in case.implementations):
            message = f"has an effect on {', '.join(guard.backends)} only: not applicable here"
            yield Finding(Level.NOTE, guard.name, message, line=case.line(guard.name))
