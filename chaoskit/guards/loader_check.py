"""Looks at how a script sets up its data loaders, and says what will fail or be slow before it trains."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from chaoskit.guards import loader_settings, uncaught
from chaoskit.guards.context import GuardContext, say
from chaoskit.guards.loader_settings import Finding
from chaoskit.model import Guard


@dataclass(frozen=True, slots=True)
class LoaderCheck(Guard):
    """Checks every ``torch.utils.data.DataLoader`` as it is made; each finding is one line, on rank 0:

    - what fails: ``persistent_workers=True`` with ``num_workers=0`` (torch refuses it with a traceback);
      a data set that holds CUDA tensors with workers that are forked; less room in /dev/shm than the batches
      that the workers fetch ahead (SIGBUS, "bus error", in a worker), for all ranks of this host;
    - what is slow or can fail: CUDA in use without ``pin_memory``; more workers on this host than it has
      cores; workers forked once CUDA is initialised, which then may not touch it.

    ``action: say`` goes on. ``action: refuse`` ends the rank with exit 89 on what fails, before training;
    what is only slow is said. The size of a batch is known from a TensorDataset, or else from the first
    batch.

    ```yaml
    guards:
      loader_check: {action: say}
    ```
    """

    name: ClassVar[str] = "loader_check"
    lives_in: ClassVar[Literal["rank", "sidecar", "launcher", "scheduler"]] = "rank"
    exit_codes: ClassVar[dict[int, str]] = {
        89: "a data loader is set up in a way that fails (action: refuse)"
    }

    action: str = "say"

    def __post_init__(self) -> None:
        if self.action not in ("say", "refuse"):
            raise ValueError(f"loader_check: action must be say or refuse, is {self.action!r}")

    def arm(self, rank: GuardContext) -> tuple[str, ...]:
        """Stand in front of the constructor of DataLoader, and look at the first batch of each."""
        from torch.utils.data import DataLoader
        from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

        check = _Check(self.action == "refuse", rank)
        patched: Any = DataLoader
        patched.__init__ = check.around_init(DataLoader.__init__)
        iterator: Any = _MultiProcessingDataLoaderIter
        iterator._next_data = check.around_batch(iterator._next_data)
        return (f"action={self.action}",)


class _Check:
    """What was found in this process so far; the same twice is said once."""

    def __init__(self, refuses: bool, rank: GuardContext) -> None:
        self._refuses = refuses
        self._rank = rank
        self._said: set[str] = set()
        self._sized: weakref.WeakSet[Any] = weakref.WeakSet()

    def around_init(self, original: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(original)

        @functools.wraps(original)
        def init(loader: Any, *args: Any, **kwargs: Any) -> None:
            try:
                settings = signature.bind(loader, *args, **kwargs)
            except TypeError:
                original(loader, *args, **kwargs)  # which says what is wrong with them
                return
            settings.apply_defaults()
            self._report(loader_settings.of_settings(settings.arguments))
            original(loader, *args, **kwargs)
            self._report(loader_settings.of_room(loader, loader_settings.batch_bytes(loader)))

        return init

    def around_batch(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @functools.wraps(original)
        def next_data(iterator: Any) -> Any:
            batch = original(iterator)
            if iterator not in self._sized:
                self._sized.add(iterator)
                self._report(loader_settings.of_room(iterator, loader_settings.bytes_of(batch)), iterator)
            return batch

        return next_data

    def _report(self, findings: list[Finding], iterator: Any = None) -> None:
        for finding in findings:
            if self._refuses and finding.fails:
                if iterator is not None:  # the process ends without teardown: its workers have to end before
                    iterator._shutdown_workers()
                uncaught.end(self._rank, uncaught.Ending(LoaderCheck.name, 89, finding.text, local=True))
            if finding.text not in self._said:
                self._said.add(finding.text)
                if self._rank.rank <= 0:
                    say(f"guard {LoaderCheck.name}: {finding.text}")
