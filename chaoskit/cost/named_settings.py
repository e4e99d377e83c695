"""The settings that have a name of their own: what people ask the price of. Each says what it is.

Building one does no I/O. A setting that a profile or a variable can say is no more than that; two are
something that the timed program does (see chaoskit.cost.values.Toggle).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from chaoskit.cost.values import Toggle, Treatment
from chaoskit.model import Backend, Guard, Profile

BLOCKING_WAIT: Final = "blocking-wait"
SERIALISED_WAITS: Final = "serialised-waits"
FLIGHT_RECORDER: Final = "flight-recorder"
FR_VARIABLE: Final = "TORCH_FR_BUFFER_SIZE"
FR_ENTRIES: Final = 2000
_LARGEST: Final = 1_000_000_000

GuardNamed = Callable[[str], Guard]
"""Returns the guard of a name, with its settings as in the profile strict, or else its defaults."""


class WrongArgument(ValueError):
    """What stands behind the colon is nothing that the setting knows; the text says what is expected."""


@dataclass(frozen=True, slots=True)
class NamedSetting:
    """A setting and how it becomes a treatment. ``argument`` is what may stand behind a colon."""

    name: str
    about: str
    make: Callable[[str, GuardNamed], Treatment]
    argument: str = ""
    backends: tuple[Backend, ...] = ("gloo", "nccl")

    @property
    def form(self) -> str:
        """How it is written: ``monitored-barrier[:N]``."""
        if not self.argument:
            return self.name
        return f"{self.name}:{self.argument}" if self.argument == "MODE" else f"{self.name}[:{self.argument}]"


def _toggle(toggle: Toggle, says: str) -> Callable[[str, GuardNamed], Treatment]:
    def make(argument: str, _: GuardNamed) -> Treatment:
        none(argument)
        return Treatment(toggle, says, Profile(toggle), toggle)

    return make


def _monitored_barrier(argument: str, _: GuardNamed) -> Treatment:
    every = whole(argument, 1, 10)
    says = f"a monitored barrier {_every(every)}"
    return Treatment("monitored-barrier", says, Profile("monitored-barrier"), "monitored-barrier", every)


def _variables(says: str, *env: tuple[str, str]) -> Callable[[str, GuardNamed], Treatment]:
    def make(argument: str, _: GuardNamed) -> Treatment:
        none(argument)
        return Treatment(says, says, Profile(says, env=env))

    return make


def _async_error_handling(argument: str, _: GuardNamed) -> Treatment:
    if argument not in _ASYNC_MODES:
        modes = ", ".join(f"{mode} ({about})" for mode, about in _ASYNC_MODES.items())
        raise WrongArgument(f"expected a mode behind a colon: {modes}")
    env = (("TORCH_NCCL_ASYNC_ERROR_HANDLING", argument),)
    return Treatment("async-error-handling", f"async error handling {argument}", Profile("", env=env))


_ASYNC_MODES: Final = {"0": "none", "1": "abort and tear down", "2": "abort only", "3": "tear down only"}


def _flight_recorder(argument: str, _: GuardNamed) -> Treatment:
    entries = whole(argument, 0, FR_ENTRIES)
    says = f"the flight recorder with {entries} entries" if entries else "no flight recorder"
    return Treatment(FLIGHT_RECORDER, says, Profile("", env=((FR_VARIABLE, str(entries)),)))


def _guard(name: str, says: str) -> Callable[[str, GuardNamed], Treatment]:
    def make(argument: str, guard: GuardNamed) -> Treatment:
        none(argument)
        return Treatment(name, says, Profile(name, guards=(guard(name),)))

    return make


def _consistency(argument: str, guard: GuardNamed) -> Treatment:
    found = guard("consistency")
    if argument:
        found = dataclasses.replace(found, every=whole(argument, 1, 1))  # type: ignore[type-var]  # a dataclass
    says = f"a consistency check {_every(getattr(found, 'every', 1))}"
    return Treatment("consistency", says, Profile("consistency", guards=(found,)))


def _every(steps: int) -> str:
    return "every step" if steps == 1 else f"every {steps} steps"


def none(argument: str) -> None:
    if argument:
        raise WrongArgument("nothing can stand behind a colon here")


def whole(argument: str, low: int, usual: int) -> int:
    """Return the whole number that stands behind the colon, or ``usual``."""
    if not argument:
        return usual
    if not (argument.isascii() and argument.isdigit()) or not low <= int(argument[:12]) <= _LARGEST:
        raise WrongArgument(f"expected a whole number of {low} or more behind the colon")
    return int(argument[:12])


SETTINGS: Final[dict[str, NamedSetting]] = {
    setting.name: setting
    for setting in (
        NamedSetting(
            SERIALISED_WAITS,
            "wait after every collective, instead of when its result is needed",
            _toggle(SERIALISED_WAITS, "waiting after every collective (serialised waits)"),
        ),
        NamedSetting(
            BLOCKING_WAIT,
            "TORCH_NCCL_BLOCKING_WAIT=1; there is nothing like it on gloo",
            _variables("blocking wait", ("TORCH_NCCL_BLOCKING_WAIT", "1")),
            backends=("nccl",),
        ),
        NamedSetting(
            "async-error-handling",
            "TORCH_NCCL_ASYNC_ERROR_HANDLING=MODE: " + ", ".join(f"{k} {v}" for k, v in _ASYNC_MODES.items()),
            _async_error_handling,
            "MODE",
            ("nccl",),
        ),
        NamedSetting(
            "monitored-barrier", "monitored_barrier() every N steps (10)", _monitored_barrier, "N", ("gloo",)
        ),
        NamedSetting(
            "debug-detail",
            "TORCH_DISTRIBUTED_DEBUG=DETAIL; from torch 2.13 on it ends healthy DDP jobs on gloo",
            _variables("TORCH_DISTRIBUTED_DEBUG=DETAIL", ("TORCH_DISTRIBUTED_DEBUG", "DETAIL")),
        ),
        NamedSetting(
            "debug-info",
            "TORCH_DISTRIBUTED_DEBUG=INFO",
            _variables("TORCH_DISTRIBUTED_DEBUG=INFO", ("TORCH_DISTRIBUTED_DEBUG", "INFO")),
        ),
        NamedSetting(
            FLIGHT_RECORDER,
            f"{FR_VARIABLE}=ENTRIES ({FR_ENTRIES}); alone it is compared with {FLIGHT_RECORDER}:0",
            _flight_recorder,
            "ENTRIES",
        ),
        NamedSetting(
            "progress-watchdog",
            "the guard progress_watchdog, as in strict",
            _guard("progress_watchdog", "the progress watchdog"),
        ),
        NamedSetting(
            "consistency",
            "the guard consistency, as in strict, or every EVERY steps",
            _consistency,
            "EVERY",
        ),
        NamedSetting(
            "collective-check",
            "the guard collective_check, as in strict",
            _guard("collective_check", "the collective check"),
        ),
    )
}
"""All of them, by name."""
