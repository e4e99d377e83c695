"""Gives every process group, the store and the forming of the job a timeout, where the script gives none."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Literal

from chaoskit.guards import torch_hooks
from chaoskit.guards.context import GuardContext
from chaoskit.model import Guard


@dataclass(frozen=True, slots=True)
class Timeouts(Guard):
    """Fills the timeouts that a script leaves to torch's defaults (gloo 30 min, NCCL 10 min).

    - ``init_s`` for forming the default group, through ``init_process_group(timeout=…)``. What torch does
      with a timeout T while forming (torch 2.13, gloo): a missing rank T + 1.2 s; only a rank other than 0
      there 2.1 T; MASTER_ADDR unresolvable 2.2 T; MASTER_PORT refused 2.9 T; a peer that is unreachable over
      its interface 5 T. census finds the first four within its own wait, before torch begins.
    - ``collective_s`` for every operation afterwards: on the default group, and *inherited* by ``new_group``,
      ``split_group``, device meshes and ``monitored_barrier``, none of which inherit by themselves.
    - ``store_s`` for the store once the group has formed. A store whose host is frozen ignores it.

    An explicit ``timeout=`` of the script is kept and announced as such; the one given to
    ``init_process_group`` is then what the other groups inherit. The effective values are read back from the
    group. The errors they raise end a rank only if nobody catches them: see fail_fast.
    """

    name: ClassVar[str] = "timeouts"
    lives_in: ClassVar[Literal["rank", "sidecar", "launcher", "scheduler"]] = "rank"

    init_s: float = 300.0
    collective_s: float = 300.0
    store_s: float = 300.0

    def arm(self, rank: GuardContext) -> tuple[str, ...]:
        """Stand in front of torch's defaults."""
        filling = _Filling(self, rank)
        torch_hooks.around_init(filling)
        torch_hooks.replace("_get_default_timeout", filling.instead_of)
        return tuple(f"{name}={getattr(self, f'{name}_s'):g}s" for name in ("init", "collective", "store"))


class _Filling:
    """Fills in one process; knows what the script gave explicitly."""

    def __init__(self, guard: Timeouts, rank: GuardContext) -> None:
        self._guard = guard
        self._rank = rank
        self._explicit: timedelta | None = None

    def instead_of(self, original: torch_hooks.Function) -> torch_hooks.Function:
        """What takes the place of torch's default timeout of a backend."""

        def default_timeout(backend: object) -> timedelta:
            return self._explicit or timedelta(seconds=self._guard.collective_s)

        return default_timeout

    def before_init(self, given: dict[str, Any]) -> None:
        self._explicit = given.get("timeout")
        if self._explicit is None:
            given["timeout"] = timedelta(seconds=self._guard.init_s)

    def after_init(self, given: dict[str, Any], error: BaseException | None) -> None:
        if error is not None:
            return
        from torch.distributed import distributed_c10d as c10d

        if self._explicit is None:
            c10d._set_pg_timeout(timedelta(seconds=self._guard.collective_s))
            c10d._get_default_store().set_timeout(timedelta(seconds=self._guard.store_s))
        whose = "" if self._explicit is None else " (the script's own)"
        self._rank.armed(self._guard.name, tuple(f"{text}{whose}" for text in _read_back()))


def _read_back() -> list[str]:
    """The timeouts in effect on the default group and its store."""
    from torch.distributed import distributed_c10d as c10d

    group = c10d._get_default_group()
    found = []
    for device in sorted(group._device_types, key=str):
        timeout = getattr(getattr(group._get_backend(device), "options", None), "_timeout", None)
        if timeout is not None:
            found.append(f"collective[{device.type}]={timeout.total_seconds():g}s")
    store: Any = c10d._get_default_store()
    return [*found, f"store={store.timeout.total_seconds():g}s"]
