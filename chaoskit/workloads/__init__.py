"""What runs in the ranks: training loops that read as a user's script does.

Each file has ``SETTINGS`` (the settings that it takes, with their defaults), ``main(settings)``, and
``expected(settings, world_size)``: the number that every rank has to report, without torch, as the runner
asks too. ``OPS`` says which operations it calls in which group, and ``members(group, world_size)`` who is
in a group, so that a trigger that can never fire is found before a run. A workload reads its identity from
the environment, as any script under a launcher does, and knows nothing of faults and guards.
``settings["backend"]`` is the backend.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, cast

from chaoskit.registry import module_name

Setting = int | float | str | bool
Settings = Mapping[str, Setting]


class _Program(Protocol):
    __doc__: str | None
    SETTINGS: dict[str, Setting]

    def main(self, settings: Settings) -> None: ...

    def expected(self, settings: Settings, world_size: int) -> float | None: ...


@dataclass(frozen=True, slots=True)
class Program:
    """A workload that can be run. ``settings`` are all its settings with their defaults."""

    name: str
    summary: str
    settings: tuple[tuple[str, Setting], ...]
    _module: _Program

    def complete(self, settings: Settings) -> dict[str, Setting]:
        """Return ``settings`` with the defaults of those that are not given."""
        return {**dict(self.settings), **settings}

    def run(self, settings: Settings) -> None:
        """Run it in this process, which a launcher's environment has made a rank."""
        self._module.main(self.complete(settings))

    def expected(self, settings: Settings, world_size: int) -> float | None:
        """Return the number that every rank has to report; None where it cannot be known."""
        return self._module.expected(self.complete(settings), world_size)


def names() -> list[str]:
    """Return the names of all workloads, sorted."""
    infos = pkgutil.iter_modules(__path__)
    return sorted(i.name.replace("_", "-") for i in infos if not i.name.startswith("_"))


def get(name: str) -> Program | None:
    """Return the workload ``name``, or None."""
    stem = module_name(name)
    qualified = f"{__name__}.{stem}"
    if not stem.isidentifier() or stem.startswith("_") or importlib.util.find_spec(qualified) is None:
        return None
    module = cast(_Program, importlib.import_module(qualified))
    summary = (module.__doc__ or "").strip().partition("\n")[0]
    return Program(name, summary, tuple(module.SETTINGS.items()), module)


def run(name: str, settings: Settings) -> None:
    """Run the workload ``name`` in this process. Raises LookupError where there is none."""
    program = get(name)
    if program is None:
        raise LookupError(f"no workload {name!r}")
    program.run(settings)
