"""Profile files: YAML → Profile, and where the built-in ones are."""

from __future__ import annotations

import functools
from pathlib import Path

import chaoskit.profiles
from chaoskit import guards
from chaoskit.errors import InvalidInput, Problem
from chaoskit.model import Guard, Profile
from chaoskit.scenario.fitting import read_model, read_settings, salvage_settings
from chaoskit.scenario.schema import ProfileFile
from chaoskit.scenario.source import Document, KeyPath, parse_document, read_text
from chaoskit.scenario.values import did_you_mean

BUILT_IN = Path(chaoskit.profiles.__file__).parent


def profile_names() -> tuple[str, ...]:
    """Return the names of the built-in profiles, from the gentlest to the strictest."""
    order = ("torch-defaults", "folklore", "torchrun-policy", "recommended", "strict")
    found = {path.stem for path in BUILT_IN.glob("*.yaml")}
    return (*(n for n in order if n in found), *sorted(found.difference(order)))


OF_THE_LAUNCHER = frozenset(
    {
        "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "ROLE_RANK", "ROLE_WORLD_SIZE",
        "MASTER_ADDR", "MASTER_PORT",
    }
)  # fmt: skip
"""What every launcher sets for each rank; a profile's value would silently have no effect."""


def load_profile(name_or_path: str | Path) -> Profile:
    """Return the built-in profile of that name, or the one in that file.

    A text with a ``/`` or a ``.`` is a file. Raises InvalidInput with every problem in it.
    """
    given = str(name_or_path)
    path = Path(given)
    if isinstance(name_or_path, str) and given in profile_names():
        return _built_in(given)
    if not isinstance(name_or_path, Path) and "/" not in given and path.suffix not in (".yaml", ".yml"):
        hint = did_you_mean(given, profile_names())
        raise InvalidInput(
            [Problem(f"there is no profile {given!r}", hint=f"{hint}; or give a file, as ./mine.yaml")]
        )
    return parse_profile(read_text(path), str(path))


@functools.lru_cache(maxsize=256)
def parse_profile(text: str, file: str = "") -> Profile:
    """Return the profile that ``text`` says. Raises InvalidInput with every problem.

    Many arms name the same file, so what a text says is kept.
    """
    return _profile(parse_document(text, file))


@functools.cache
def _built_in(name: str) -> Profile:
    path = BUILT_IN / f"{name}.yaml"
    return parse_profile(read_text(path), str(path))


def _profile(document: Document) -> Profile:
    found = partial_profile(document)
    for name, _ in found.env:
        if name in OF_THE_LAUNCHER:
            message = f"env.{name} is set by the launcher for each rank; a profile cannot"
            hint = "remove it; in a scenario, the fault `environment` makes it wrong on a rank"
            document.problem(("env", name), message, hint)
    if document.problems:
        raise InvalidInput(sorted(document.problems, key=lambda p: p.line))
    return found


def partial_profile(document: Document) -> Profile:
    """Return what can be read of a profile; what is wrong with the rest is noted in the document. Variables
    of OF_THE_LAUNCHER are in it and not noted: who takes it has to refuse them."""
    found = read_model(ProfileFile, document.data, document, ())
    data = document.data if isinstance(document.data, dict) else {}
    guards_given = data.get("guards")
    made = _guards(guards_given, document) if isinstance(guards_given, dict) else ()
    env = found.env if found is not None else _readable(data.get("env"))
    if found is None:
        return Profile("", "", made, env, document.file)
    return Profile(found.name, found.summary, made, env, document.file)


def _readable(env: object) -> tuple[tuple[str, str], ...]:
    pairs = env.items() if isinstance(env, dict) else ()
    return tuple(
        (k, str(v))
        for k, v in pairs
        if isinstance(k, str) and isinstance(v, (str, int)) and type(v) is not bool
    )


def _guards(raw: dict[object, object], document: Document) -> tuple[Guard, ...]:
    found = []
    for name, settings in raw.items():
        path: KeyPath = ("guards", name if isinstance(name, (str, int)) else str(name))
        cls = guards.REGISTRY.get(name) if isinstance(name, str) else None
        if cls is None:
            document.problem(path, f"there is no guard `{name}`", did_you_mean(name, guards.REGISTRY.names()))
            continue
        values = read_settings(cls, settings, document, path)
        if values is None:  # its other settings can still be judged
            values = salvage_settings(cls, settings)
        if values is None:
            continue
        try:
            found.append(cls(**values))
        except ValueError as error:
            message = str(error).removeprefix(f"{name}: ")
            document.problem(path, f"guards.{name}: {message}")
    return tuple(found)
